"""The criterion of a table from which rows were deleted that it had too often. Pure."""

from recovery.contracts.criterion_values import ExpectedDeleted, MeasuredDeleted
from recovery.strategies.common import plural
from recovery.verification.checks import unknown, usable
from recovery.verification.evidence import Evidence
from recovery.verification.finding import CriterionFinding

NOT_MEASURED = "The versions of the table before and after could not be compared."


def only_repeats_deleted(expected: ExpectedDeleted, evidence: Evidence) -> CriterionFinding:
    """As many rows went as were planned, of each there is one left that is equal in every column, and none came."""
    measure, problem = usable(evidence)
    rows = measure.deleted if measure else None
    if measure is None or rows is None:
        return unknown(problem or NOT_MEASURED)
    measured = MeasuredDeleted(
        deleted=rows.deleted, vanished=rows.vanished, added=rows.added, before=rows.before
    )
    if rows.vanished:
        says = f"Of {plural(rows.vanished, 'different row')} that the table had, none is left."
        return CriterionFinding(measured, False, says)
    if rows.added:
        return CriterionFinding(
            measured, False, f"{plural(rows.added, 'row')} came that were not there before."
        )
    if (rows.deleted, rows.before) != (expected.rows, expected.before):
        says = (
            f"{plural(rows.deleted, 'row')} of {rows.before:,} were deleted; the plan fixed {expected.rows} of "
            f"{expected.before}."
        )
        return CriterionFinding(measured, False, says)
    says = f"{plural(rows.deleted, 'row')} deleted, each equal in every column to one that stays."
    return CriterionFinding(measured, True, says)
