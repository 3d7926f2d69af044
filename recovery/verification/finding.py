"""What came of measuring one criterion."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """`ok` None: could not be measured. `why` is one or more whole sentences."""

    measured: Any
    ok: bool | None
    why: str
