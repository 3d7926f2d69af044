"""A step whose row is in memory, for what keeps pieces of its result while it runs."""

from dataclasses import dataclass, field
from typing import Any

from recovery.contracts import codec
from recovery.contracts.results import PartialResult
from recovery.contracts.step_notes import StepNotes


@dataclass
class StepInMemory:
    """What the code of a step reads and writes of its row, and its watch."""

    result: dict[str, Any] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    kind: str = "rerun"
    plan: Any = None
    recovery: Any = None

    @property
    def notes(self) -> StepNotes:
        return codec.read(StepNotes, self.result)

    def keep(self, piece: PartialResult) -> None:
        self.result = piece.lay_over(self.result)

    def guard(self) -> None:
        """No other worker takes it."""
