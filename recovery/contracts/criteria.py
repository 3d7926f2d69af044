"""What a proof measures."""

from collections.abc import Mapping
from typing import Any

from recovery.contracts.value import Value


class Criterion(Value):
    """One thing to be measured after the rerun."""

    code: str
    """Which one; stable."""
    says: str
    """The same for people, in a sentence."""
    expected: Mapping[str, Any]
    """The values that it is held to, as JSON, fixed when the plan is sealed; each code has its own."""
