"""What became of a dataset downstream of a recovery's table."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, model_validator

from recovery.contracts.value import Flag, Number, Value


class NotCompared(StrEnum):
    """Why the rows of a refreshed dataset are not compared. Plans of earlier versions left these out; those of today
    compare every dataset."""

    NONE = ""
    """They are compared, or it was not noted."""
    DEFINED_IN_SQL = "defined_in_sql"
    """Only an update computes its definition."""
    READS_STREAM = "reads_stream"
    """A streaming table: what it has read before cannot be computed by a read."""


class RefreshedDataset(Value):
    """One dataset downstream after the refresh. The numbers are of one that was compared."""

    dataset: str
    """Its full name."""
    status: str
    """What the update of the refresh said last of its flow; "": nothing."""
    compared: Flag = False
    """Whether the plan names it as compared."""
    rows: Number | None = None
    """Rows that it holds."""
    expected_rows: Number | None = None
    """Rows that its definition yields over the tables now."""
    missing: Number | None = None
    """Rows of their exact difference that it lacks."""
    extra: Number | None = None
    """Rows of that difference that it has too many."""
    problem: str = ""
    """Why it could not be compared, for people."""
    unsure: tuple[str, ...] = ()
    """By what two computations of it differ by themselves."""
    not_compared: NotCompared = NotCompared.NONE
    """Why it was not tried."""
    view: Flag = True
    """Each update computes it from scratch. Else it is a table that reads a stream: older code may have written its
    older rows, so that a difference proves nothing of this recovery."""
    left_out: tuple[str, ...] = ()
    """Columns that were not compared, for two computations of them differ."""
    rows_unsure: Flag = False
    """Whether two computations may differ in the number of rows too."""
    table_only: tuple[str, ...] = ()
    """Columns that its definition does not yield, which were not compared either."""
    agrees: Flag | None = None
    """Whether it holds what its definition yields; None: not known, or not compared. Not given: by the numbers."""

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if "agrees" not in self.model_fields_set:
            object.__setattr__(self, "agrees", self._compare())
        return self

    def _compare(self) -> bool | None:
        if None in (self.missing, self.extra, self.rows, self.expected_rows):
            return None
        if not (self.missing or self.extra):
            return True if self.rows == self.expected_rows else None
        if not self.view:
            return None
        same_number = self.rows == self.expected_rows
        return None if self.unsure and (same_number or self.rows_unsure) else False

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """From a call, or from what is stored. A reason of another release is none that is known here."""
        if isinstance(given, Mapping) and given.get("not_compared", "") not in tuple(NotCompared):
            return handler({**given, "not_compared": NotCompared.NONE})
        return handler(given)
