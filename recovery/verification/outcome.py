"""What became of the rows of a table, as it was measured: of the whole table, or of what it names. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from pydantic import TypeAdapter

from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.criteria import Criterion
from recovery.contracts.forecast import Forecast
from recovery.spark.api import WHOLE_ROW, Bounded, Measure, Origin, Whole
from recovery.verification.evidence import ChangedFiles, Evidence, NotWhole, WholeFlow


@dataclass(frozen=True)
class Accepted:
    """What the plan forecast and people accepted. `rows` None: not known."""

    rows: int | None = 0
    bound: Bound = Bound.EXACT

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ComparedWhole(Whole):
    """All input that is still there beside the whole table, and what was compared: `WholeFlow` says of what. `why` not
    None: it was not compared, and the numbers are None."""

    files: int = 0
    gone: int = 0
    others: int = 0
    cut: int = 0
    size: int | None = None
    why: NotWhole | None = None

    @property
    def partial(self) -> bool:
        """Whether input that was read may be missing from what was compared."""
        return bool(self.gone or self.cut)


@dataclass(frozen=True)
class MeasuredRows:
    """So many rows, as measured. `rows` None: not known; `bound`: what that number is."""

    rows: int | None
    bound: Bound


@dataclass(frozen=True)
class Outcome:
    """Rows of a proof; None: not known.

    `lost`: rows that had to be in the table and are not, those included that the plan gave up as accepted; with a key
    and the whole flow compared, those too that were lost long ago (an estimate then: earlier code may have left them
    out). `doubled`: rows of the whole table beyond one per key; without a key those beyond what the input has, as far
    as that was compared: at least so many, where not every row could be.
    `lost_before`, `doubled_before`: those of them that were so before the rerun; None where no comparison of the whole
    flow can know it, or the table was too large to be grouped; the number is then a lower bound. `repeats_added`: with
    a key, rows that the rerun put there beyond one per key. `before_rows`: of the table before it. `bounded`: budgets
    that were met. `origins`: where the samples of missing rows come from; `changed_files`: of the new input, None where
    that is not known; `owners`: of files that these two name, by decoded URI.
    """

    new_rows: int | None = None
    expected_rows: int | None = None
    before_rows: int | None = None
    table_rows: int | None = None
    table_keys: int | None = None
    lost: int | None = None
    lost_bound: Bound = Bound.UNKNOWN
    lost_before: int | None = None
    lost_accepted: Accepted = field(default_factory=Accepted)
    doubled: int | None = None
    doubled_bound: Bound = Bound.UNKNOWN
    doubled_before: int | None = None
    doubled_accepted: Accepted = field(default_factory=Accepted)
    strange: int | None = None
    repeats_added: int | None = None
    key: tuple[str, ...] = ()
    key_from: str = WHOLE_ROW
    samples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    whole: ComparedWhole | None = None
    bounded: tuple[Bounded, ...] = ()
    origins: tuple[Origin, ...] = ()
    changed_files: ChangedFiles | None = None
    owners: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost_now(self) -> MeasuredRows:
        """Rows that this recovery lost: without those of before, which alone are an estimate."""
        if self.lost is None:
            return MeasuredRows(None, Bound.UNKNOWN)
        return MeasuredRows(self.lost - (self.lost_before or 0), self.lost_accepted.bound)

    @property
    def lost_before_bound(self) -> Bound:
        """Earlier code may have left such rows out; that there are none was counted."""
        if self.lost_before is None:
            return Bound.UNKNOWN
        return Bound.ESTIMATE if self.lost_before else Bound.EXACT

    @property
    def doubled_now(self) -> MeasuredRows:
        """Rows that this recovery doubled: without those of before."""
        if self.repeats_added is not None:
            return MeasuredRows(max(0, self.repeats_added), Bound.EXACT)
        if self.doubled is None:
            return MeasuredRows(None, Bound.UNKNOWN)
        return MeasuredRows(max(0, self.doubled - (self.doubled_before or 0)), self.doubled_bound)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def stored_outcome(measured: Mapping[str, Any]) -> Outcome:
    """As `Outcome.as_dict` stored it in `recovery.measured`, beside the criteria.

    Proofs before there were bounds counted among the new rows alone: their numbers are lower bounds. Repeats that such
    a proof accepted are those that its criterion on rows had counted.
    """
    stored = {of.name: measured[of.name] for of in fields(Outcome) if of.name in measured}
    if "doubled_accepted" not in measured:
        again = _repeats_added(measured)
        stored["doubled_accepted"] = {"rows": again, "bound": Bound.EXACT.value}
        stored["doubled"] = (stored.get("doubled") or 0) + again if again else stored.get("doubled")
    for name in ("lost", "doubled"):
        accepted = stored.get(f"{name}_accepted") or Accepted().as_dict()
        stored[f"{name}_accepted"] = Accepted(accepted["rows"], Bound(accepted["bound"]))
        least = Bound.UNKNOWN if stored.get(name) is None else Bound.AT_LEAST
        stored[f"{name}_bound"] = Bound(stored.get(f"{name}_bound") or least)
    stored["whole"] = stored_whole(stored.get("whole"))
    stored["origins"] = _ORIGINS.validate_python(stored.get("origins") or ())
    stored["changed_files"] = _CHANGED.validate_python(stored.get("changed_files"))
    lists = {name: tuple(stored.get(name) or ()) for name in ("key", "notes")}
    bounded = tuple(Bounded.stored(one) for one in stored.get("bounded") or ())
    return Outcome(**{**stored, **lists, "bounded": bounded})


_ORIGINS: Final = TypeAdapter(tuple[Origin, ...])
_CHANGED: Final = TypeAdapter[ChangedFiles | None](ChangedFiles | None)


def _repeats_added(measured: Mapping[str, Any]) -> int:
    for one in measured.get("criteria") or ():
        if one["code"] == "EVERY_ROW_ONCE" and (one.get("expected") or {}).get("again"):
            return int((one.get("measured") or {}).get("repeats_added") or 0)
    return 0


def outcome_of(forecast: Forecast, planned: Sequence[Criterion], evidence: Evidence) -> Outcome:
    """`forecast` and `planned`: of the plan, what it said of rows, and its criteria."""
    measure = evidence.measure
    if measure is None:
        return Outcome()
    again = any(c.expected.get("again") for c in planned if c.code == "EVERY_ROW_ONCE")
    given = {"lost": _accepted(forecast.lost), "doubled": _accepted(forecast.doubled)}
    lost, lost_bound = _lost(measure, given["lost"])
    early = None if lost is None else _lost_before(measure, lost, evidence.whole_flow)
    doubled, doubled_bound = _doubled(measure, given["doubled"], evidence.whole_flow, again=again)
    return Outcome(
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
        samples={side: list(rows) for side, rows in measure.samples.items()},
        notes=measure.notes,
        whole=compared_whole(evidence.whole_flow, measure.whole),
        bounded=measure.bounded,
        origins=measure.origins,
        changed_files=evidence.changed_files,
        owners=dict(evidence.owners),
    )


def _accepted(amount: RowAmount) -> Accepted:
    return Accepted(amount.rows, amount.bound)


def _lost(measure: Measure, accepted: Accepted) -> tuple[int | None, Bound]:
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
    measure: Measure, accepted: Accepted, flow: WholeFlow | None, *, again: bool
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
    new, whole = measure.extra + (measure.held_before or 0) * again, measure.whole
    partial = flow is not None and flow.partial
    if whole is None or whole.doubled is None or (partial and whole.doubled):
        return new, Bound.AT_LEAST  # what is gone may have yielded a row that seems to be there too often
    return (max(new, whole.doubled), Bound.AT_LEAST) if _may_repeat(whole) else (whole.doubled, Bound.EXACT)


def _may_repeat(whole: Whole) -> bool:
    """Whether rows that come from no input may be there more than once: so many of the table's keys are not theirs."""
    if not whole.beyond:
        return False
    return whole.beyond > max(0, (whole.table_keys or 0) - (whole.input_keys or 0))


def _doubled_before(measure: Measure, doubled: int | None, bound: Bound, *, again: bool) -> int | None:
    """Of the doubled rows those that were there before; without a key what the new rows do not account for, which is
    known where all are."""
    if measure.key:
        return measure.duplicates_before
    if doubled is None or bound is not Bound.EXACT or measure.extra is None or measure.whole is None:
        return None
    return max(0, doubled - measure.extra - (measure.held_before or 0) * again)


def compared_whole(flow: WholeFlow | None, whole: Whole | None) -> ComparedWhole | None:
    """How the whole flow compares; None where it was not tried."""
    if flow is None:
        return None
    compared = (
        whole is not None and not whole.problem and None not in (whole.absent, whole.doubled, whole.beyond)
    )
    why = flow.why or (None if compared else NotWhole.NOT_COMPARED)
    return ComparedWhole(
        **_fields(whole or Whole()),
        files=flow.files,
        gone=flow.gone,
        others=flow.others,
        cut=flow.cut,
        size=flow.size,
        why=why,
    )


def _fields(whole: Whole) -> dict[str, Any]:
    return {of.name: getattr(whole, of.name) for of in fields(Whole)}


def stored_whole(measured: Mapping[str, Any] | None) -> ComparedWhole | None:
    """As it was stored with an outcome. Before it was asked what other sources had lost, any may have lost some."""
    if not measured:
        return None
    known = {of.name: measured[of.name] for of in fields(ComparedWhole) if of.name in measured}
    known.setdefault("cut", known.get("others", 0))
    why = NotWhole(known["why"]) if known.get("why") else None
    return ComparedWhole(**{**known, "why": why, "samples": tuple(known.get("samples") or ())})
