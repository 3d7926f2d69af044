"""What came of measuring one criterion."""

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.contracts import criterion_values
from recovery.spark.api import Measure


@dataclass(frozen=True)
class CriterionFinding:
    """`ok` None: could not be measured. `why` is one or more whole sentences."""

    measured: criterion_values.Measured
    ok: bool | None
    why: str


def not_yielded(columns: Sequence[str]) -> str:
    """A sentence on columns that only the table has; "" where there are none."""
    if not columns:
        return ""
    verb = "is a column" if len(columns) == 1 else "are columns"
    return f" {', '.join(columns)} {verb} of the table that the code does not yield: not compared."


def key_of(measure: Measure) -> str:
    """By what rows are told apart, in words."""
    return ", ".join(measure.key) or "the whole row"
