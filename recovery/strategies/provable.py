"""Whether the new rows can be compared with the input at all, so far as that is known before the run. Pure.

As `recovery.spark.code_flow` judges it after the run: rows that depend on state which was there before can be computed
by no batch over the input, except those of a dropDuplicates without a watermark, which the table's own keys tell.
"""

from typing import Final

from recovery.checkpoints.report import Finding, Severity
from recovery.strategies import common, sinks
from recovery.strategies.base import CodeFacts, Facts

ROWS_NOT_PROVABLE: Final = "ROWS_NOT_PROVABLE"


def find_unprovable_rows(facts: Facts, code: CodeFacts) -> tuple[Finding, ...]:
    """Of a strategy that keeps the state, by the `code` that it runs."""
    is_told_by_table = code.operators == ("dedupe",) and not code.watermarked and sinks.is_table(facts)
    if not code.operators or is_told_by_table:
        return ()
    says = (
        f"Which rows the code writes depends on state that is kept ({common.names(code.operators)}), so the proof "
        "cannot compare new rows with the input: expect the recovery to end without proof."
    )
    do = "Compare the new rows yourself after the run, then end the recovery without proof."
    return (Finding(ROWS_NOT_PROVABLE, Severity.WARNING, says, do),)
