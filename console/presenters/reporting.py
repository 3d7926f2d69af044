"""The report as a page: numbers and times in words, and the closing text for the channel. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from console.presenters import status, words
from console.presenters.reviewing import STEP_NAMES, AcceptedRow
from console.presenters.verifying import acceptance_sentences
from console.presenters.wizard import TroubleAnswer
from recovery.contracts.amounts import Bound
from recovery.contracts.measured import Measured
from recovery.contracts.names import ChangeIntent, name_strategy
from recovery.contracts.refreshed import RefreshedDataset
from recovery.verification.below import uncompared
from recovery.verification.words import Claim, headline
from recovery.workflow.reporting import Report, ReportedStep, Times, TimeTaken

CLOSED: Final = {
    "succeeded": "[Resolved]",
    "unproven": "[Ended without proof]",
    "rolled_back": "[Rolled back]",
    "cancelled": "[Cancelled]",
    "expired": "[Expired]",
    "failed": "[Failed]",
}
"""How the closing text of an ended recovery begins."""


MEANT: Final[Mapping[ChangeIntent | None, str]] = {
    ChangeIntent.YES: "The change was meant.",
    ChangeIntent.NO: "The change was a mistake.",
    ChangeIntent.UNKNOWN: "Whether the change was meant was not known.",
}


NUMBERS: Final = {
    "new_rows": "New rows",
    "expected_rows": "Expected new rows",
    "before_rows": "Rows before the rerun",
    "table_rows": "Rows in the table",
    "table_keys": "Different keys in the table",
    "lost": "Lost",
    "doubled": "Doubled",
    "repeats_added": "Repeats added",
    "lost_before": "Lost before this recovery",
    "doubled_before": "Doubled before this recovery",
    "strange": "Rows that equal no expected one",
}
"""What people see for each measured number."""


@dataclass(frozen=True)
class Number:
    """One measured number, by its stored name."""

    name: str
    value: str


def proof_numbers(measured: Measured | None) -> list[Number]:
    """Every number that the proof stored, a bound as such; None is not known."""
    if measured is None:
        return []
    rows = (
        ("new_rows", measured.new_rows, Bound.EXACT),
        ("expected_rows", measured.expected_rows, Bound.EXACT),
        ("before_rows", measured.before_rows, Bound.EXACT),
        ("table_rows", measured.table_rows, Bound.EXACT),
        ("table_keys", measured.table_keys, Bound.EXACT),
        ("lost", measured.lost, measured.lost_bound),
        ("lost_before", measured.lost_before, measured.lost_before_bound),
        ("doubled", measured.doubled, measured.doubled_bound),
        ("doubled_before", measured.doubled_before, Bound.EXACT),
        ("strange", measured.strange, Bound.EXACT),
        ("repeats_added", measured.repeats_added, Bound.EXACT),
    )
    return [
        Number(NUMBERS[name], words.format_bounded(number, bound))
        for name, number, bound in rows
        if name in measured.model_fields_set and (name != "strange" or number is not None)  # of topics alone
    ]


@dataclass(frozen=True)
class TimelineRow:
    """One line of the timeline: `after` since the line before."""

    says: str
    at: datetime
    after: str
    small: str = ""
    #: which moment it is, for `data-code`; "" of one without a name
    code: str = ""


def list_moments(report: Report) -> list[TimelineRow]:
    """From the last good batch to the end, as far as it was recorded."""
    moments: list[tuple[str, str | None, str, str]] = [
        (_good_batch_text(report), report.last_good.at if report.last_good else None, "", "last-good"),
        ("Flow failed", report.times.failed, report.cause, ""),
        ("Recovery opened", report.times.opened, "", ""),
        ("Plan sealed", report.times.sealed, f"by {report.sealed_by}" if report.sealed_by else "", ""),
        *((f"{v.voter}: {v.choice}", v.at, v.reason, "") for v in report.votes),
        *((STEP_NAMES.get(s.kind, s.kind), s.began, _step_end_text(s), "") for s in report.steps),
        (
            _refreshed_text(report),
            _refreshed_at(report),
            "readers see the new rows from here on",
            "refreshed",
        ),
        *((f"{s.by}, by word", s.at, s.says, "") for s in report.statements),
        ("Proven", report.times.proven, "", ""),
    ]
    if report.times.ended and not report.times.proven:
        moments.append(
            (status.state_badge(status.RECOVERY, report.state).word, report.times.ended, report.reason, "")
        )
    dated = [
        (says, at, small, code)
        for says, raw, small, code in moments
        if (at := words.parse_moment(raw)) is not None
    ]
    rows, before = [], None
    for says, at, small, code in sorted(dated, key=lambda moment: moment[1]):
        after = words.format_duration((at - before).total_seconds()) if before else ""
        rows.append(TimelineRow(says, at, after, small, code))
        before = at
    return rows


def _good_batch_text(report: Report) -> str:
    return (
        f"Batch {words.format_number(report.last_good.batch)} began, the last good one"
        if report.last_good
        else ""
    )


def _refreshed_text(report: Report) -> str:
    return f"Refreshed: {_refreshed_names(report)}"


def _refreshed_names(report: Report) -> str:
    return ", ".join(words.last_part(reader.dataset) for reader in report.readers if reader.refreshed_at)


def _refreshed_at(report: Report) -> str | None:
    return next((reader.refreshed_at for reader in report.readers if reader.refreshed_at), None)


def _step_end_text(step: ReportedStep) -> str:
    took = f", took {words.format_duration(step.seconds)}" if step.seconds is not None else ""
    return f"{status.state_badge(status.STEP, step.state).word.lower()}{took}"


def describe_time_taken(taken: TimeTaken) -> str:
    """`Estimated 1 min 40 s, took 1 min 52 s: 1.1 times the estimate.`; "" where one of both is not known."""
    if not taken.estimated or taken.took is None:
        return ""
    text = f"Estimated {words.format_duration(taken.estimated)}, took {words.format_duration(taken.took)}"
    return f"{text}: {taken.took / taken.estimated:.1f} times the estimate."


@dataclass(frozen=True)
class TimeSpan:
    """A part of the way from failure to proof. `kind`: `a` waits, `b` is work; `x`, `width`: in thousandths."""

    says: str
    kind: str
    seconds: float
    x: float
    width: float


def time_spent(times: Times) -> list[TimeSpan]:
    """Where the time from failure to proof went; [] where it is not known, or the clocks disagree."""
    marks = [
        words.parse_moment(t) for t in (times.failed, times.opened, times.sealed, times.ran, times.proven)
    ]
    known = [m for m in marks if m is not None]
    whole = (known[-1] - known[0]).total_seconds() if len(known) == len(marks) else 0.0
    if whole <= 0 or known != sorted(known):
        return []
    parts = (
        ("until a recovery was opened", "a"),
        ("diagnosis, choices and plan", "b"),
        ("until the run began", "a"),
        ("run and proof", "b"),
    )
    rows, x = [], 0.0
    for (says, kind), (began, ended) in zip(parts, pairwise(known), strict=True):
        seconds = (ended - began).total_seconds()
        width = round(1000 * seconds / whole, 1)
        rows.append(TimeSpan(f"{words.format_duration(seconds)} {says}", kind, seconds, round(x, 1), width))
        x += width
    return rows


def report_asks(report: Report) -> list[TroubleAnswer]:
    """What happened, what was done, and how long it took."""
    done = (
        f"{name_strategy(report.strategy).capitalize()}, by {report.owner}"
        if report.strategy
        else f"Nothing, by {report.owner}"
    )
    sealed = (
        f"Plan {report.plan_hash[:8]}, sealed by {report.sealed_by}."
        if report.plan_hash
        else "No plan was sealed."
    )
    since = "From the failure to the proof." if report.times.proven else "It is not proven."
    return [
        TroubleAnswer("What happened", report.cause or "Not known", _meant_text(report)),
        _who_felt_it(report),
        TroubleAnswer("What was done", done, sealed),
        TroubleAnswer("Time to recover", time_to_recover(report.times).capitalize(), since),
    ]


def _meant_text(report: Report) -> str:
    """`The change was meant, says ada.`"""
    says = MEANT.get(report.meant, "")
    return f"{says.removesuffix('.')}, says {report.meant_by}." if says and report.meant_by else says


def _who_felt_it(report: Report) -> TroubleAnswer:
    """Readers that the plan knew, and until when nothing newer than the last good batch reached them."""
    names = [words.last_part(reader.dataset) for reader in report.readers]
    answer = f"Readers of {', '.join(names)}" if names else "Not known"
    good = words.parse_moment(report.last_good.at) if report.last_good else None
    until = words.parse_moment(_refreshed_at(report))
    if good is None:
        text = "The age of the data that they read is not known."
    elif until is None or until < good:
        text = f"Nothing of this flow newer than {good:%d %b %Y, %H:%M:%S} UTC is known to have reached them."
    else:
        span = words.format_duration((until - good).total_seconds())
        text = (
            f"Nothing of this flow newer than {good:%d %b %Y, %H:%M:%S} UTC reached {_refreshed_names(report)} "
            f"for {span}, until {until:%H:%M:%S} UTC."
        )
    return TroubleAnswer("Who was affected", answer, text, "who-felt-it")


@dataclass(frozen=True)
class ReportedPosition:
    """One source of the plan. `first`: what was read first, as planned; `reached`: when it was measured."""

    source: str
    location: str
    before: str
    after: str
    first: str
    reached: str


def list_positions(report: Report) -> list[ReportedPosition]:
    """Each source of the plan, and how far it had been read when it was measured."""
    reached = {str(position.source): position.offset_json or "nothing" for position in report.reached}
    return [
        ReportedPosition(
            str(position.source),
            position.location,
            position.before.label or "–",
            position.after.label or "–",
            position.next.name or "not known",
            reached.get(str(position.source), "not known"),
        )
        for position in report.positions
    ]


@dataclass(frozen=True)
class ReportedBatches:
    """The last batch before the failure, the first after it, and the last when it was measured; `value` has all."""

    says: str
    value: str


def describe_batches(report: Report) -> ReportedBatches:
    """What is not known is left out of the sentence."""
    good = report.last_good.batch if report.last_good else None
    named = (
        ("last good batch", good),
        ("first batch of the rerun", report.first_batch),
        ("last batch when measured", report.last_batch),
    )
    says = "; ".join(f"{word}: {words.format_number(batch)}" for word, batch in named if batch is not None)
    value = " ".join("-" if batch is None else str(batch) for _, batch in named)
    return ReportedBatches(f"{says[:1].upper()}{says[1:]}." if says else "", value)


def time_to_recover(times: Times) -> str:
    """How long it took from the failure to the proof."""
    return (
        words.format_duration(times.seconds_to_recover)
        if times.seconds_to_recover is not None
        else "not known"
    )


def closing_text(report: Report, public_url: str, accepted: Sequence[AcceptedRow] = ()) -> str:
    """The last words for the incident channel: what was measured, never what was only forecast; of a proof what it
    claims, and who accepted what it cost."""
    short = report.flow.rsplit(".", 1)[-1]
    begins = CLOSED.get(report.state, f"[{status.state_badge(status.RECOVERY, report.state).word}]")
    proven, failed = words.parse_moment(report.times.proven), words.parse_moment(report.times.failed)
    when = f" Proven {proven:%d %b %Y, %H:%M:%S} UTC" if proven else ""
    after = f", {time_to_recover(report.times)} after it failed" if proven and failed else ""
    lines = [f"{begins} {report.recovery}: {short}, {report.environment}.{when}{after}{'.' if when else ''}"]
    if report.cause:
        lines.append(f"Cause: {report.cause} {_meant_text(report)}".rstrip())
    if report.reason and not proven:
        lines.append(report.reason)
    if proven and report.measured:
        verdict = headline(report.measured)
        lines.append(verdict.says)
        if equal := [_equal_below(one) for one in report.measured.downstream if one.agrees]:
            lines.append(f"Below, equal to what the definition yields: {', '.join(equal)}.")
        if left := uncompared(report.measured):
            lines.append(f"Below, not compared: {', '.join(part.says for part in left)}.")
        lines += acceptance_sentences(accepted) if verdict.claim is not Claim.ONCE else []
    lines.append(_rows_lines(report.measured))
    plan = f", plan {report.plan_hash[:8]}" if report.plan_hash else ""
    lines.append(
        f"Report: {public_url.rstrip('/')}/recoveries/{report.recovery.removeprefix('R-')}/report{plan}"
    )
    return "\n".join(lines)


def _equal_below(one: RefreshedDataset) -> str:
    passed_over = ", ".join((*one.left_out, *one.table_only))
    return words.last_part(one.dataset) + (f" (without {passed_over})" if passed_over else "")


def _rows_lines(outcome: Measured | None) -> str:
    if outcome is None:
        return "Rows: nothing was measured."
    amounts = ((outcome.lost_now, "lost by this recovery"), (outcome.doubled_now, "doubled by it"))
    parts = ", ".join(f"{words.format_bounded(rows.rows, rows.bound)} {word}" for rows, word in amounts)
    before = (
        (outcome.lost_before, outcome.lost_before_bound, "lost"),
        (outcome.doubled_before, Bound.EXACT, "doubled"),
    )
    earlier = ", ".join(f"{word} {words.format_bounded(rows, bound)}" for rows, bound, word in before)
    new = words.format_bounded(outcome.new_rows, Bound.EXACT)
    tail = (
        f" Table: {words.format_count(outcome.table_rows, 'row')}." if outcome.table_rows is not None else ""
    )
    return f"Rows, measured: {parts}, {new} new. Before it: {earlier}.{tail}"
