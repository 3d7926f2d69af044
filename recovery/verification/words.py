"""What a proof claims, in words: no more than was measured. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from recovery.contracts.amounts import Bound, may_happen
from recovery.contracts.criterion_values import MeasuredRowsOnce
from recovery.contracts.measured import (
    EVERY_ROW_ONCE,
    BoundedBy,
    BudgetBound,
    ComparedWhole,
    Measured,
    MeasuredOutcome,
    MeasuredRows,
    NotWholeReason,
)
from recovery.strategies.common import plural
from recovery.strategies.deduplicate import ONLY_REPEATS_DELETED
from recovery.strategies.top_up import HAS_EVERY_ROW


class Claim(StrEnum):
    """What a proof that holds comes to."""

    ONCE = "once"  # what was compared is there once
    REPEATED = "repeated"  # and the rerun wrote rows again, as accepted
    GIVEN_UP = "given-up"  # and rows are lost, as accepted
    BOTH = "repeated-and-given-up"


@dataclass(frozen=True)
class Headline:
    claim: Claim
    says: str
    #: the table lacks or repeats rows since before this recovery, by the proof's own comparison
    differs: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether nothing was accepted and no difference was found."""
        return self.claim is Claim.ONCE and not self.differs


def headline(measured: Measured) -> Headline:
    """Of a proof whose every criterion holds."""
    again, lost = count_repeats(measured), given_up(measured)
    claims = {(0, 0): Claim.ONCE, (1, 0): Claim.REPEATED, (0, 1): Claim.GIVEN_UP, (1, 1): Claim.BOTH}
    claim = claims[int(again.rows != 0), int(lost.rows != 0)]
    untouched = _holds(measured, BEFORE)
    rows = _rows(measured, once=again.rows == 0, untouched=untouched, again=_again(measured))
    parts = [_deleted(measured) or rows]
    if again.rows != 0:
        number = (
            "an unknown number of rows repeat" if again.rows is None else _number(again, "repeat", "repeat")
        )
        parts.append(_capital(f"{number} one that was there, as accepted."))
    if lost.rows is None:
        parts.append("How many rows are lost is not known, as accepted.")
    elif lost.rows:
        parts.append(_capital(f"{_number(lost, 'is lost', 'are lost')}, as accepted."))
    earlier = _earlier_sentence(measured)
    return Headline(claim, " ".join([*parts, *earlier]), differs=bool(earlier))


def _earlier_sentence(measured: Measured) -> list[str]:
    lost, again = lost_earlier(measured), doubled_earlier(measured)
    rows = [
        *([_number(lost, "is missing", "are missing")] if lost.rows else ()),
        *([_number(again, "is there again", "are there again")] if again.rows else ()),
    ]
    return (
        [f"The table differs from its input since before this recovery: {', '.join(rows)}."] if rows else []
    )


def _number(of: MeasuredRows, one: str, many: str) -> str:
    """`at least 9 rows are lost`."""
    rows = of.rows or 0
    return f"{of.bound.before_number}{plural(rows, 'row')} {one if rows == 1 else many}"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _deleted(measured: Measured) -> str:
    """What a proof says first of rows that were deleted as they repeat others; "" where none were."""
    judged = measured.criterion(ONLY_REPEATS_DELETED)
    rows = judged.measured_number("deleted") if judged else None
    if rows is None:
        return ""
    return (
        f"{plural(rows, 'repeated row')} {'is' if rows == 1 else 'are'} out of the table; each key of the input is in "
        "it as often as the code yields it."
    )


def _rows(of: MeasuredOutcome, *, once: bool, untouched: bool, again: int | None) -> str:
    """`again`: how many of the new rows the table has more than once, as the input has them; None: not measured."""
    rows, before = of.new_rows, of.before_rows
    if rows is None:
        return "What the plan fixed was measured, and holds."
    noun = "row" if before == 0 else "new row"
    place = "sent" if of.table_rows is None else "in the table"
    if once and again is None:
        place = "written"  # the rows of before were not asked for them
    tail = f"; {plural(before, 'earlier row')} untouched" if before and untouched else ""
    if once and again:
        tail += (
            f"; {plural(again, 'new row')} {'repeats' if again == 1 else 'repeat'} another, as the input does"
        )
    said = f"{plural(rows, noun)} {'is' if rows == 1 else 'are'} {place}"
    return f"{said}{' once' if once and not again else ''}{tail}."


def _again(measured: Measured) -> int | None:
    """New rows that the table has more than once; of records of a topic, whose criterion looks for none before, 0."""
    judged = measured.criterion(EVERY_ROW_ONCE)
    if judged is None or measured.table_rows is None or not isinstance(judged.measured, MeasuredRowsOnce):
        return 0
    return judged.measured.repeats_added


BEFORE = "ROWS_OF_BEFORE_UNTOUCHED"


def _holds(measured: Measured, code: str) -> bool:
    return any(one.code == code and one.ok is True for one in measured.criteria)


def say_cost(rows: MeasuredRows, word: str) -> str:
    """`at least 9 rows lost`; `rows may be lost` if their number is not known."""
    if rows.rows is None:
        return f"rows may be {word}"
    return f"{rows.bound.before_number}{plural(rows.rows, 'row')} {word}"


NONE = MeasuredRows(0, Bound.EXACT)
NOT_KNOWN = MeasuredRows(None, Bound.UNKNOWN)


def count_repeats(of: MeasuredOutcome) -> MeasuredRows:
    """Rows that the rerun wrote beyond the first of their kind, as accepted; `rows` None: not known."""
    accepted, found = of.doubled_accepted, of.doubled_now
    if accepted.rows == 0 and accepted.bound is Bound.EXACT:
        return NONE
    return NOT_KNOWN if found.rows == 0 and may_happen(found.rows, found.bound) else found


def given_up(of: MeasuredOutcome) -> MeasuredRows:
    """Rows that the plan lost, as accepted; `rows` None: how many is not known.

    Where it only might lose some, that all keys of all input are in the table settles it.
    """
    accepted = of.lost_accepted
    if accepted.rows is None or (accepted.rows == 0 and may_happen(accepted.rows, accepted.bound)):
        return NONE if _holds_all_input(of) else NOT_KNOWN
    return MeasuredRows(accepted.rows, accepted.bound)


def lost_earlier(of: Measured) -> MeasuredRows:
    """Rows that the proof's own comparison found missing, beyond those that the plan gave up.

    An estimate: earlier code may have left them out. Those that the plan gave up may be among what is absent. Without a
    key a row that earlier code wrote with other values is absent, and there as one beyond the input: those are no loss.
    """
    if holds_every_row(of):
        return NONE
    if of.lost_before is not None:
        return MeasuredRows(of.lost_before, of.lost_before_bound)
    whole, accepted = _compared(of), given_up(of).rows
    absent = (whole.absent or 0) - (0 if of.key else whole.beyond or 0)
    rows = 0 if accepted is None else max(0, absent - accepted)
    return MeasuredRows(rows, Bound.ESTIMATE) if rows else NONE


def doubled_earlier(of: Measured) -> MeasuredRows:
    """Rows that the proof's own comparison found in the table too often, beyond those that the plan repeated.

    Without a key at most so many: input that is gone may have yielded such a row twice.
    """
    if holds_every_row(of):
        return NONE
    if of.doubled_before is not None:
        return MeasuredRows(of.doubled_before, Bound.EXACT)
    whole, own = _compared(of), of.doubled_now.rows
    rows = 0 if own is None else max(0, (whole.doubled or 0) - own)
    bound = Bound.AT_MOST if whole.partial and not of.key else Bound.EXACT
    return MeasuredRows(rows, bound) if rows else NONE


def holds_every_row(of: Measured) -> bool:
    """Whether the table was shown to have each key as often as the input yields it."""
    return _holds(of, HAS_EVERY_ROW)


def _compared(of: MeasuredOutcome) -> ComparedWhole:
    """The comparison of the whole flow, without numbers where there is none."""
    return of.whole if of.whole is not None and of.whole.why is None else ComparedWhole()


def _holds_all_input(of: MeasuredOutcome) -> bool:
    whole = of.whole
    if whole is None or whole.why or not of.key:
        return False
    return whole.absent == 0 and not whole.partial


@dataclass(frozen=True)
class BoundFinding:
    by: BoundedBy
    says: str


BOUNDED = {
    BoundedBy.LOOKUP: "Earlier rows were not searched for the keys of the new rows, so nothing is known of repeats "
    "between them.",
    BoundedBy.GROUPING: "The keys of the whole table were not counted, so repeats of long ago are not known.",
    BoundedBy.VERSIONS: "The versions of the table before and after the rerun were not compared.",
    BoundedBy.REWRITTEN: "Files that were rewritten were not compared with those in whose place they came.",
    BoundedBy.VALUES: "Of the new rows only the key was compared, and no other column.",
}
SETTING = {
    BoundedBy.LOOKUP: "REPRISE_LOOKUP_BYTES",
    BoundedBy.GROUPING: "REPRISE_GROUPING_BYTES",
    BoundedBy.VERSIONS: "REPRISE_COMPARE_BYTES",
    BoundedBy.REWRITTEN: "REPRISE_COMPARE_BYTES",
    BoundedBy.VALUES: "REPRISE_LOOKUP_BYTES",
}


def bound_findings(measured: Measured | None) -> list[BoundFinding]:
    """What a budget kept from being compared, and which."""
    return [bound_finding(one) for one in measured.bounded] if measured else []


def bound_finding(bounded: BudgetBound) -> BoundFinding:
    """What this budget kept from being asked."""
    return BoundFinding(bounded.by, f"{BOUNDED[bounded.by]} {_budget(bounded)}")


def _budget(bounded: BudgetBound) -> str:
    if bounded.seconds is not None:
        return f"It took longer than {bounded.seconds} s (REPRISE_LOOKUP_SECONDS)."
    size, limit = f"{bounded.size or 0:,}", f"{bounded.limit or 0:,}"
    return f"Data files to read: {size} bytes; the limit is {limit} ({SETTING[bounded.by]})."


class FlowCode(StrEnum):
    """What the comparison of the whole flow came to."""

    AGREES = "agrees"
    ABSENT = "absent"
    DOUBLED = "doubled"
    BEYOND = "beyond"
    GONE = "gone"
    NOT_COMPARED = "not-compared"


@dataclass(frozen=True)
class WholeFinding:
    code: FlowCode
    says: str


WHY = {
    NotWholeReason.OVER_BUDGET: "Input and table together are larger than the limit up to which they are compared "
    "(REPRISE_COMPARE_BYTES).",
    NotWholeReason.OTHER_SOURCES: "The code reads other sources than the one before, so its earlier input cannot be "
    "run through it.",
    NotWholeReason.NOT_READABLE: "A source cannot be read again in batch, or could not be listed.",
}


def whole_findings(measured: Measured | None) -> list[WholeFinding]:
    """How all input that is there compares with the whole table; [] where that was not tried. It proves nothing of a
    recovery: it finds what went wrong before."""
    if measured is None or measured.whole is None:
        return []
    whole, key = measured.whole, bool(measured.key)
    if whole.why:
        why = WHY.get(whole.why, whole.problem or "Spark could not compare them.")
        return [WholeFinding(FlowCode.NOT_COMPARED, f"The whole flow was not compared. {why}")]
    asked = (
        _absent(whole, key=key),
        _doubled(whole, measured.doubled_before, key=key),
        _beyond(whole),
        _gone(whole),
    )
    found = [one for one in asked if one]
    return found if any(f.code is not FlowCode.GONE for f in found) else [_agrees(whole, key=key), *found]


def _agrees(whole: ComparedWhole, *, key: bool) -> WholeFinding:
    rows = plural(whole.input_keys or 0, "different key") if key else plural(whole.input_rows or 0, "row")
    says = f"All {rows} of all input that is still there are in the table, none twice, and no others are."
    return WholeFinding(FlowCode.AGREES, says)


def _absent(whole: ComparedWhole, *, key: bool) -> WholeFinding | None:
    if not whole.absent:
        return None
    rows = plural(whole.absent, "key" if key else "row")
    says = (
        f"{rows} that today's code yields over the input {'is' if whole.absent == 1 else 'are'} not in the table: "
        "given up, lost, or left out by earlier code."
    )
    return WholeFinding(FlowCode.ABSENT, says)


def _doubled(whole: ComparedWhole, before: int | None, *, key: bool) -> WholeFinding | None:
    if not whole.doubled:
        return None
    of = "repeat a key of the table" if key else "are in the table more often than in the input"
    since = f", {before:,} of them since before this recovery" if before else ""
    return WholeFinding(FlowCode.DOUBLED, f"{plural(whole.doubled, 'row')} {of}{since}.")


def _beyond(whole: ComparedWhole) -> WholeFinding | None:
    if not whole.beyond:
        return None
    says = (
        f"{plural(whole.beyond, 'row')} of the table come from no input that is still there: of deleted input, of "
        "another writer, or of earlier code. They were not compared."
    )
    return WholeFinding(FlowCode.BEYOND, says)


def _gone(whole: ComparedWhole) -> WholeFinding | None:
    if not whole.partial:
        return None
    says, one = [], whole.gone == 1
    if whole.gone:
        says.append(
            f"{plural(whole.gone, 'input file')} {'is' if one else 'are'} gone, so what was read of "
            f"{'it' if one else 'them'} could not be compared."
        )
    if whole.cut:
        others = plural(whole.cut, "other source")
        says.append(f"In {others}, earlier input is gone or may be, so it could not be compared.")
    return WholeFinding(FlowCode.GONE, " ".join(says))
