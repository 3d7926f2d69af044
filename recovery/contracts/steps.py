"""The steps of a plan, as they are fixed when it is sealed."""

from collections.abc import Mapping
from typing import Any

from recovery.contracts.names import StepKind
from recovery.contracts.value import Value


class PlannedStep(Value):
    """One step of a plan."""

    kind: StepKind
    """What it does."""
    says: str
    """The same for people, in a sentence."""
    args: Mapping[str, Any] = {}
    """What it is told, as JSON; each kind has its own."""
