"""The criteria of a table to which rows of a backup were filled back. Pure."""

from recovery.contracts.criterion_values import (
    ExpectedFill,
    ExpectedGrowth,
    MeasuredFill,
    MeasuredFilledGrowth,
)
from recovery.strategies.common import plural
from recovery.verification import checks
from recovery.verification.checks import unknown, usable
from recovery.verification.evidence import Evidence
from recovery.verification.finding import CriterionFinding, key_of

NOT_MEASURED = "The rows that were filled back could not be measured."


def table_grew(expected: ExpectedGrowth, evidence: Evidence) -> CriterionFinding:
    """As `checks.table_grew_by_new_batches`; with `expected.filled`, of the batches' rows and those filled back."""
    if not expected.filled:
        return checks.table_grew_by_new_batches(expected, evidence)
    measure, problem = usable(evidence)
    rows = measure.filled if measure else None
    if measure is None or rows is None or measure.table_rows is None:
        return unknown(problem or NOT_MEASURED)
    measured = MeasuredFilledGrowth(new_batches=rows.batch_rows, filled=rows.filled, after=measure.table_rows)
    whole = rows.batch_rows + rows.filled
    if whole != measure.table_rows:
        says = (
            f"The new batches wrote {plural(rows.batch_rows, 'row')} and the fill {rows.filled:,}, and the table has "
            f"{measure.table_rows:,}."
        )
        return CriterionFinding(measured, False, says)
    says = f"{rows.batch_rows:,} of the new batches + {rows.filled:,} filled back = {plural(whole, 'row')}."
    return CriterionFinding(measured, True, says)


def filled_rows_as_before(expected: ExpectedFill, evidence: Evidence) -> CriterionFinding:
    """The backup is as it was made; its rows whose key the code does not yield are in the table once each, in every
    column as they were, and so many were filled back."""
    measure, problem = usable(evidence)
    rows, kept = (measure.filled if measure else None), evidence.backup
    if measure is None or rows is None or kept is None:
        return unknown(problem or NOT_MEASURED)
    key = [k.lower() for k in expected.key]
    if not key or key != [k.lower() for k in measure.key]:
        return unknown(
            f"The plan fills back by {', '.join(key) or 'no key'}; measured was {key_of(measure)}."
        )
    measured = MeasuredFill(
        due=rows.due,
        filled=rows.filled,
        missing=rows.missing,
        extra=rows.extra,
        backup_rows=rows.backup_rows,
        key=measure.key,
    )
    if (rows.backup_rows, rows.backup_digest) != (kept.rows, kept.digest):
        says = f"The backup was changed: it was made with {plural(kept.rows, 'row')}, and now has {rows.backup_rows:,}."
        return CriterionFinding(measured, False, says)
    if rows.missing or rows.extra:
        says = f"Of {plural(rows.due, 'row')} to fill back, {rows.missing} missing, {rows.extra} too many."
        return CriterionFinding(measured, False, says)
    if rows.filled != rows.due:
        says = f"{plural(rows.filled, 'row')} were filled back, and {rows.due:,} had to be."
        return CriterionFinding(measured, False, says)
    says = f"{plural(rows.due, 'row')} of the backup's {rows.backup_rows:,}, equal in every column."
    return CriterionFinding(measured, True, says)
