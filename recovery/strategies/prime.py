"""prime: keep the position, and let the stateful steps of the new code begin with empty state.

For code whose steps the checkpoint has no fitting state for, where the input of before need not be in the new state, or
cannot be read again. What that costs hangs on the step: dropDuplicates knows no key of before, so a row that repeats
one passes; a window that is open lacks the rows that were processed; a join finds no partner among them.
"""

from typing import Final

from recovery.checkpoints.report import Finding, Severity
from recovery.checkpoints.seed import plan_seed
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import SeedArgs
from recovery.errors import Refused
from recovery.sinks.kinds import PlannedStart
from recovery.sources.comparing import format_time
from recovery.strategies import common, late, mapped, repeats, sinks, sources, starts, state_rows
from recovery.strategies.base import CodeFacts, Facts, KeyKind, OutputMode
from recovery.strategies.seeding import build_seeded_option

STATE: Final = "prime"
"""`args.state` of its seed: empty state of the code's shape."""
DEDUPE: Final = "dedupe"
PASSES: Final = frozenset({DEDUPE, "dedupeWithinWatermark"})
"""Steps that let a row pass whose key their state does not hold: empty, they let more rows pass, and none fewer."""
MAKES: Final = frozenset({*state_rows.AGGREGATIONS, *state_rows.JOINS})
"""Steps that make rows of several: empty, they lack what was processed, and count no row of the input twice."""


def judge_prime(facts: Facts) -> Option:
    """The option, blocked or not."""
    last, new_rows, start = facts.checkpoint.last_committed, _new_rows(facts), _start(facts)
    doubled, operators = _doubled(facts, start), facts.new_code.operators or ()
    return build_seeded_option(
        facts,
        strategy=Strategy.PRIME,
        summary="Keep progress, begin with empty state",
        blocker=find_blocker(facts),
        forecast=Forecast(
            lost=_lost(facts),
            doubled=doubled,
            reread=starts.forecast_reread(facts, "Nothing is read again."),
            new_rows=new_rows,
            table_after=common.table_after(facts, new_rows),
            state=f"Empty: {common.names(operators)}" if operators else "None to begin with",
            seconds=common.seconds(facts, 3),
        ),
        findings=_findings(facts, start),
        standing=facts.checkpoint,
        start=start,
        says=f"Seed the next checkpoint version from batch {last}: {starts.describe_starts(facts)}, empty state of "
        "the new code, the watermark as it is, new query id.",
        args=with_empty_state(facts),
        new_rows=new_rows if _is_counted(facts) else None,
        repeats=common.repeats_of(doubled, facts.new_code, written=facts.counts.waiting),
    )


def find_blocker(facts: Facts) -> Blocker | None:
    """Why prime cannot run here; None when it can."""
    reason = common.any_block(facts) or common.unread_code(facts) or _pointless(facts)
    reason = reason or mapped.block(facts) or sources.block(facts) or _unprepared(facts)
    if reason:
        return reason
    try:
        plan_seed(
            facts.checkpoint, starts=starts.starts(facts) or None, watermark_ms=facts.checkpoint.closed_ms
        )
    except Refused as refusal:
        return Blocker(code=BlockerCode.SEED_REFUSED, says=refusal.sentence)
    return sinks.block(facts, _start(facts))


def _pointless(facts: Facts) -> Blocker | None:
    """Code that needs no other state than the checkpoint has, or none."""
    operators = facts.new_code.operators or ()
    if not operators:
        says = "The code keeps no state, so there is none to begin with: choose continue."
        return Blocker(code=BlockerCode.CODE_KEEPS_NO_STATE, says=says)
    if common.keeps_same_state(facts):
        return common.block_whole_state(facts) or Blocker(
            code=BlockerCode.CODE_KEEPS_SAME_STATE,
            says=f"The code has the {common.names(operators)} step that the checkpoint holds state for, and is not "
            "known to be other code. If it is the old code, choose revert.",
        )
    return None


def _unprepared(facts: Facts) -> Blocker | None:
    """Progress that is unclear, a start that was chosen, and no place to make the state."""
    if unsettled := common.find_unsettled_batch(facts, "begin with empty state"):
        return unsettled
    if any(starts.is_moved(s) for s in facts.sources if s.position.offset_json is not None):
        says = "prime keeps the positions of the checkpoint, and another start is chosen; choose reread for that."
        return Blocker(code=BlockerCode.START_NOT_TAKEN, says=says)
    if not facts.scratch:
        says = "There is no folder that Spark and Reprise both reach, where empty state could be made."
        return Blocker(code=BlockerCode.NO_SCRATCH_PLACE, says=says)
    return None


def with_empty_state(facts: Facts) -> SeedArgs:
    """What the step gets that seeds with empty state of the new code, and the watermark of the checkpoint."""
    report = facts.checkpoint
    primed = {"state": STATE, "watermark_ms": report.closed_ms}
    return starts.seed(facts, report.last_committed).model_copy(update=primed)


def _start(facts: Facts) -> PlannedStart:
    """A seed goes on with the next number under a new query id; nothing is read again."""
    return sinks.start(facts, facts.checkpoint, sources.nothing(""), query_id_kept=False)


def _kinds(code: CodeFacts) -> frozenset[str]:
    return frozenset(code.operators or ())


def _is_counted(facts: Facts) -> bool:
    """Whether an update writes as many new rows as were counted: by a rehearsal from empty state that ran as an update
    does, or, where only repeats are dropped and no watermark is there, by a batch."""
    counts = facts.counts
    if counts.rehearsed:
        return not counts.rehearsed_why
    return counts.waiting is not None and _kinds(facts.new_code) == {DEDUPE}


def _new_rows(facts: Facts) -> int | None:
    """Rows that the code writes of what waits, from empty state; None: not counted."""
    return facts.counts.waiting if facts.counts.rehearsed or _is_counted(facts) else None


def _doubled(facts: Facts, start: PlannedStart) -> RowAmount:
    """Rows of new input that repeat one of the table, for the state does not know it."""
    doubled = sinks.forecast_doubled(facts, start, f"No committed {sources.unit(facts)} is read again.")
    kinds = _kinds(facts.new_code)
    if not kinds or doubled.rows is None:
        return doubled
    if kinds <= PASSES:
        return _passing(facts, doubled)
    if kinds <= MAKES and state_rows.is_written_once(facts):
        return repeats.with_those_of_steps(facts, doubled)
    why = f"{doubled.why} What the {common.names(facts.new_code.operators or ())} steps write again is not known."
    return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)


def _passing(facts: Facts, doubled: RowAmount) -> RowAmount:
    """Of what waits, the rows whose key was processed before: as the table has them, where the key is a column of it;
    at most all that come, elsewhere."""
    coming, known = _new_rows(facts), facts.counts.repeats_waiting
    if _key_is_compared(facts) and known is not None:
        key = ", ".join(facts.new_code.key)
        why = f"{doubled.why} {common.plural(known, 'row')} of what waits repeat a key ({key}) of the table."
        return doubled.numbered(max(known, doubled.rows or 0), why)
    why = f"{doubled.why} A row that repeats an earlier one passes; {_why_uncompared(facts)}"
    return RowAmount(rows=coming, bound=Bound.AT_MOST, why=why)


def _why_uncompared(facts: Facts) -> str:
    if facts.counts.rehearsed and facts.new_code.key:
        key = ", ".join(facts.new_code.key)
        return (
            "how many of the waiting rows do is not known: the rehearsal counted the rows that come, and did not "
            f"compare their key ({key}) with the table."
        )
    return "how many of the waiting rows do was not counted."


def _key_is_compared(facts: Facts) -> bool:
    """Whether keys that are distinguished in the table are those of the one dropDuplicates of the code."""
    code = facts.new_code
    alone = code.operators == (DEDUPE,) and code.key_kind is KeyKind.CODE
    return alone and repeats.are_told_by_key(facts) and not facts.counts.rehearsed


def _lost(facts: Facts) -> RowAmount:
    """Rows that the old state alone held, and groups that lack what was processed."""
    lost, kinds = starts.forecast_lost(facts), _kinds(facts.new_code)
    if kinds and not kinds <= PASSES and not _is_short_by_state_alone(facts):
        why = f"{lost.why} {_what_lacks(facts)} How many come out wrong, or not at all, is not known."
        lost = RowAmount(rows=None, bound=Bound.UNKNOWN, why=why, files=lost.files)
    return state_rows.with_state(facts, lost)


def _is_short_by_state_alone(facts: Facts) -> bool:
    """Whether just the groups that the old state holds lack rows: old and new code count the same rows in the same
    windows, so that what was processed and belongs to an open window is in that state."""
    held = tuple(o.name for o in facts.checkpoint.state_operators)
    is_known = held == late.WINDOWS and facts.output_mode is facts.state_mode is OutputMode.APPEND
    return is_known and late.same_windows(facts.old_code, facts.new_code)


def _what_lacks(facts: Facts) -> str:
    """What the first step that makes rows of several has not, in words."""
    kinds = _kinds(facts.new_code)
    if kinds & set(state_rows.JOINS):
        return "Rows that were processed are no partners for new ones, so pairs are missing."
    if kinds & set(state_rows.AGGREGATIONS):
        return "Groups whose window is open count new rows alone, without those that were processed."
    return "The steps know nothing of the rows that were processed."


def _findings(facts: Facts, start: PlannedStart) -> tuple[Finding, ...]:
    findings = [*facts.sink.findings, *sinks.findings(facts, start)]
    findings += [*mapped.findings(facts), *sources.findings(facts), *state_rows.findings(facts)]
    if kinds := _kinds(facts.new_code):
        findings.append(_starts_empty(facts, kinds))
    if not _is_counted(facts):
        why = facts.counts.rehearsed_why or "The code was not rehearsed over this input."
        says = f"How many rows will come is not exact. {why}"
        findings.append(Finding("PRIME_NOT_EXACT", Severity.WARNING, says, "The proof counts them."))
    if dropped := facts.counts.rehearsed_late:
        says = f"The rehearsal dropped {late.describe_size(facts, dropped)} behind the watermark, as the code does."
        do = "Nothing to do, unless the code's watermark is too short for this input."
        findings.append(Finding("LATE_ROWS_DROPPED", Severity.INFO, says, do))
    return tuple(findings)


def _starts_empty(facts: Facts, kinds: frozenset[str]) -> Finding:
    """What empty state means from now on, beyond the rows that wait."""
    ways = "reread" if facts.is_plain else "rebuild, or reread"
    do = f"To give the step the state of what was processed, choose {ways}."
    if kinds <= PASSES:
        steps = common.names(facts.new_code.operators or ())
        says = f"{steps} knows no earlier row: one that arrives later and repeats it is written again."
        if facts.is_plain:
            do = f"{do} But rows that it reads again come twice, unless the watermark drops them."
        return Finding("STATE_STARTS_EMPTY", Severity.WARNING, says, do)
    at = facts.checkpoint.closed_ms
    until = f" The watermark stays at {format_time(at)}." if at else ""
    return Finding("STATE_STARTS_EMPTY", Severity.WARNING, f"{_what_lacks(facts)}{until}", do)
