"""The criteria of a table to which missing rows of the input were added. Pure."""

from recovery.contracts.criterion_values import (
    ExpectedCheckpoint,
    ExpectedInput,
    MeasuredCheckpoint,
    MeasuredInput,
)
from recovery.strategies.common import plural
from recovery.verification.checks import unknown, usable
from recovery.verification.evidence import Evidence
from recovery.verification.finding import CriterionFinding, key_of

NOT_MEASURED = "The whole table could not be compared with the committed input."


def table_has_every_row(expected: ExpectedInput, evidence: Evidence) -> CriterionFinding:
    """The table has each key that the code yields over the committed input as often as that, and the input still yields
    as many rows as when the plan was sealed."""
    measure, problem = usable(evidence)
    rows = measure.topped if measure else None
    if measure is None or rows is None:
        return unknown(problem or NOT_MEASURED)
    key = [column.lower() for column in expected.key]
    if not key or key != [k.lower() for k in measure.key]:
        return unknown(
            f"The plan identifies rows by {', '.join(key) or 'no key'}; measured was {key_of(measure)}."
        )
    measured = MeasuredInput(
        rows=rows.rows, missing=rows.missing, extra=rows.extra, beyond=rows.beyond, key=measure.key
    )
    if rows.missing or rows.extra:
        says = f"Of {plural(rows.rows, 'row')} of the input, {rows.missing} missing, {rows.extra} too many."
        return CriterionFinding(measured, False, says)
    if rows.rows != expected.rows:
        says = (
            f"The committed input yields {plural(rows.rows, 'row')} now, and yielded {expected.rows} when the "
            "plan was sealed: it was changed since."
        )
        return CriterionFinding(measured, False, says)
    if evidence.whole_flow is None or (evidence.whole_flow.partial and expected.whole):
        return CriterionFinding(
            measured, None, "Not all committed input could be read, and the plan counted on all of it."
        )
    more = _not_read(evidence) + (
        f" {plural(rows.beyond, 'row')} of the table come from no input that is left." if rows.beyond else ""
    )
    return CriterionFinding(measured, True, f"All {plural(rows.rows, 'row')} of the input are there.{more}")


def _not_read(evidence: Evidence) -> str:
    flow = evidence.whole_flow
    if flow is None or not flow.partial:
        return ""
    return " Of input that is gone nothing was compared, as accepted in the plan."


def checkpoint_untouched(expected: ExpectedCheckpoint, evidence: Evidence) -> CriterionFinding:
    """The files of the flow's checkpoint are those that the plan was made on."""
    now = evidence.new
    if now is None or not expected.fingerprint:
        return unknown("The checkpoint could not be read.")
    measured = MeasuredCheckpoint(fingerprint=now.fingerprint, last_committed=now.last_committed)
    if now.fingerprint != expected.fingerprint:
        says = (
            f"It had committed batch {expected.last_committed}, and has committed {now.last_committed} now."
        )
        return CriterionFinding(measured, False, says)
    batch = "no batch" if now.last_committed is None else f"batch {now.last_committed}"
    return CriterionFinding(measured, True, f"Its last committed batch is {batch}, as before.")
