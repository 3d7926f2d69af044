"""What was accepted, as choices and plans hold it."""

from collections.abc import Mapping
from typing import Any

from recovery.contracts import codec
from recovery.contracts.acceptance import Accepted


def read_accepted(stored: Mapping[str, Any] | None) -> Accepted:
    """Nothing was accepted where nothing is stored."""
    return codec.read(Accepted, stored or {})
