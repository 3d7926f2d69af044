"""What became of the rows of a table, as it was measured: of the whole table, or of what it names. Pure."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from recovery.contracts.amounts import Bound, RowAmount, joint_bound
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import ExpectedRows
from recovery.contracts.forecast import Forecast
from recovery.contracts.measured import (
    AcceptedRows,
    ComparedWhole,
    MeasuredOutcome,
    NotWholeReason,
    WholeComparison,
)
from recovery.spark.api import Measure
from recovery.verification import functions
from recovery.verification.evidence import Evidence, WholeFlow


def outcome_of(forecast: Forecast, planned: Sequence[Criterion], evidence: Evidence) -> MeasuredOutcome:
    """`forecast` and `planned`: of the plan, what it said of rows, and its criteria."""
    measure = evidence.measure
    if measure is None:
        return MeasuredOutcome()
    again = any(isinstance(c.expected, ExpectedRows) and c.expected.again for c in planned)
    given = {"lost": _accepted(forecast.lost), "doubled": _accepted(forecast.doubled)}
    if functions.is_own_work(evidence):  # its keys tell of the whole table at once
        lost, lost_bound = functions.count_lost(measure, evidence.whole_flow)
        early = None if lost is None else 0
    else:
        lost, lost_bound = (None, Bound.UNKNOWN) if evidence.replaced_files else _lost(measure, given["lost"])
        early = None if lost is None else _lost_before(measure, lost, evidence.whole_flow)
    doubled, doubled_bound = _doubled(measure, given["doubled"], evidence, again=again)
    return MeasuredOutcome(
        new_rows=measure.new_rows,
        expected_rows=measure.expected_rows,
        before_rows=measure.old_rows,
        table_rows=measure.table_rows,
        table_keys=measure.table_keys if measure.key else None,
        lost=None if lost is None else lost + (early or 0),
        lost_bound=_bound_with_before(lost_bound, early),
        lost_before=early,
        lost_accepted=given["lost"],
        doubled=doubled,
        doubled_bound=doubled_bound,
        doubled_before=_doubled_before(measure, doubled, doubled_bound, again=again),
        doubled_accepted=given["doubled"],
        strange=measure.strange,
        repeats_added=measure.repeats_added if measure.key else None,
        key=measure.key,
        key_from=measure.key_from,
        samples=measure.samples,
        notes=measure.notes,
        whole=compared_whole(evidence.whole_flow, measure.whole),
        bounded=measure.bounded,
        origins=measure.origins,
        changed_files=evidence.changed_files,
        owners=dict(evidence.owners),
    )


def _accepted(amount: RowAmount) -> AcceptedRows:
    return AcceptedRows(rows=amount.rows, bound=amount.bound)


def _lost(measure: Measure, accepted: AcceptedRows) -> tuple[int | None, Bound]:
    if measure.missing is None or accepted.rows is None:
        return None, Bound.UNKNOWN
    return measure.missing + (measure.vanished or 0) + accepted.rows, accepted.bound


def _lost_before(measure: Measure, lost: int, flow: WholeFlow | None) -> int | None:
    """Keys of all input that no row of the table has, beyond those that were lost now.

    None where that was not compared, or where input is gone that may have had further ones; and where no more are
    absent than rows were lost now: the table may have other rows with the keys of these. Rows that are absent by the
    whole row say as much of code that was changed, and are not counted.
    """
    whole = measure.whole
    if whole is None or whole.absent is None or (flow is not None and flow.partial):
        return None
    if whole.absent == 0:
        return 0
    return whole.absent - lost if measure.key and whole.absent > lost else None


def _bound_with_before(bound: Bound, early: int | None) -> Bound:
    """What the number of lost rows is, those of before among them. Earlier code may have left out what is absent."""
    if early == 0 or bound is Bound.UNKNOWN:
        return bound
    return Bound.AT_LEAST if early is None and bound in (Bound.EXACT, Bound.AT_LEAST) else Bound.ESTIMATE


def _doubled(
    measure: Measure, accepted: AcceptedRows, evidence: Evidence, *, again: bool
) -> tuple[int | None, Bound]:
    """What was counted; a lower bound where the plan lets repeats pass of a key that nothing written has."""
    rows, bound = _count_doubled(measure, accepted, evidence, again=again)
    has_key = bool(measure.key) and measure.strange is None
    open_bounds = {Bound.AT_LEAST} if again else {Bound.AT_LEAST, Bound.ESTIMATE}
    if rows is None or has_key or accepted.bound not in open_bounds:
        return rows, bound
    return rows, joint_bound((bound, Bound.AT_LEAST))


def _count_doubled(
    measure: Measure, accepted: AcceptedRows, evidence: Evidence, *, again: bool
) -> tuple[int | None, Bound]:
    if measure.strange is not None:  # a topic: what it held before is not compared
        before = (measure.failed_rows or 0) + (measure.margin_rows or 0)
        if again and accepted.rows != 0:
            return None, Bound.UNKNOWN
        # which of two equal records a failed attempt sent shows in neither of them
        if measure.repeated is None:
            return None, Bound.UNKNOWN
        return measure.repeated + before, Bound.AT_MOST if before else Bound.EXACT
    if measure.extra is None:
        return None, Bound.UNKNOWN
    if measure.key:
        if measure.duplicates_in_table is not None:
            return measure.duplicates_in_table, Bound.EXACT
        return measure.repeats_added, Bound.UNKNOWN if measure.repeats_added is None else Bound.AT_LEAST
    new, whole, flow = measure.extra + (measure.held_before or 0) * again, measure.whole, evidence.whole_flow
    partial = flow is not None and flow.partial
    if whole is None or whole.doubled is None or (partial and whole.doubled):
        return new, Bound.AT_LEAST  # what is gone may have yielded a row that seems to be there too often
    may_repeat = _may_repeat(whole, drops_repeats=evidence.drops_repeats)
    return (max(new, whole.doubled), Bound.AT_LEAST) if may_repeat else (whole.doubled, Bound.EXACT)


def _may_repeat(whole: WholeComparison, *, drops_repeats: bool) -> bool:
    """Whether rows that come from no input may be there more than once: so many of the table's keys are not theirs. Of
    code that drops repeats, each of them may repeat another row by its key, with other values."""
    if not whole.beyond:
        return False
    if drops_repeats:
        return True
    return whole.beyond > max(0, (whole.table_keys or 0) - (whole.input_keys or 0))


def _doubled_before(measure: Measure, doubled: int | None, bound: Bound, *, again: bool) -> int | None:
    """Of the doubled rows those that were there before; without a key what the new rows do not account for, which is
    known where all are."""
    if measure.key:  # of those that a recovery deleted none is left
        known = [rows for rows in (measure.duplicates_before, doubled) if rows is not None]
        return None if measure.duplicates_before is None else min(known)
    if doubled is None or bound is not Bound.EXACT or measure.extra is None or measure.whole is None:
        return None
    if (
        doubled and measure.held_before and not again
    ):  # new rows that the table held before: theirs, or repeats of these
        return None
    return max(0, doubled - measure.extra - (measure.held_before or 0) * again)


def compared_whole(flow: WholeFlow | None, whole: WholeComparison | None) -> ComparedWhole | None:
    """How the whole flow compares; None where it was not tried."""
    if flow is None:
        return None
    compared = (
        whole is not None and not whole.problem and None not in (whole.absent, whole.doubled, whole.beyond)
    )
    why = flow.why or (None if compared else NotWholeReason.NOT_COMPARED)
    return ComparedWhole(
        **_fields(whole or WholeComparison()),
        files=flow.files,
        gone=flow.gone,
        others=flow.others,
        cut=flow.cut,
        size=flow.size,
        why=why,
    )


def _fields(whole: WholeComparison) -> dict[str, Any]:
    return {of.name: getattr(whole, of.name) for of in fields(WholeComparison)}
