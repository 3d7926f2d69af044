"""A table that a function of the code writes (foreachBatch): what the function makes of a row, it alone knows. Pure.

It may upsert (MERGE), filter, split or change what it gets. Rows that are as the code yields them prove what they prove
anywhere; rows that are not may be the function's own work, so they prove no loss.
"""

from dataclasses import replace
from typing import Final

from recovery.contracts.amounts import Bound
from recovery.spark.api import Measure
from recovery.verification import criteria
from recovery.verification.evidence import Evidence, WholeFlow
from recovery.verification.finding import CriterionFinding

OF_ROWS: Final = frozenset(
    {
        criteria.TABLE_GREW_BY_NEW_BATCHES, criteria.EVERY_ROW_ONCE, criteria.COUNTS_EQUAL_FORECAST,
        criteria.ROWS_OF_BEFORE_UNTOUCHED,
    }
)  # fmt: skip
"""Criteria that compare the table with what the code gives to its function. A key that is there twice stays wrong."""


def leave_open(code: str, finding: CriterionFinding, evidence: Evidence) -> CriterionFinding:
    """The finding; not known in place of wrong, where the function's own work may explain it, and in place of right,
    where nothing but a key shows what it made of the rows."""
    is_unseen = finding.ok is True and code == criteria.EVERY_ROW_ONCE and _is_unseen(evidence)
    is_open = finding.ok is False and code in OF_ROWS and is_own_work(evidence)
    if not is_unseen and not is_open:
        return finding
    says = "A function writes this table (foreachBatch), and only the function knows what it makes of a row."
    return replace(finding, ok=None, why=f"{says} {finding.why}")


def is_own_work(evidence: Evidence) -> bool:
    """Does the table lack or change rows, as a function that filters or upserts does? More rows than the code yields
    are no such work: those are repeats."""
    measure, old = evidence.measure, evidence.old_files
    if not evidence.by_function or measure is None:
        return False
    is_changed = bool(measure.vanished) or bool(old is not None and old.touched)
    fewer = (measure.repeats_added or 0) < (measure.duplicates_explained or 0)
    has_other_values = measure.values is not None and bool(measure.values.rows)
    return bool(measure.missing) or is_changed or fewer or has_other_values


def _is_unseen(evidence: Evidence) -> bool:
    """Were the columns beside the key not compared?"""
    values = evidence.measure.values if evidence.measure is not None else None
    return evidence.by_function and values is not None and values.rows is None


def count_lost(measure: Measure, flow: WholeFlow | None) -> tuple[int | None, Bound]:
    """Rows that are lost as far as keys show it: every key of the input is in the table, or at most those are lost that
    are not. Not known where the whole flow was not compared by key."""
    whole = measure.whole
    if not measure.key or whole is None or whole.absent is None or (flow is not None and flow.partial):
        return None, Bound.UNKNOWN
    return whole.absent, Bound.AT_MOST.unless(not whole.absent)
