"""rebuild: the new code's state is built by a replay of what was processed; progress stays where it is.

What was processed is read once more, as one batch, into a scratch checkpoint whose rows go nowhere; its state is put
behind the kept position. The batch runs at the watermark of the last committed batch, so that the state holds what no
table has yet, and nothing else. Which batches rows once came in must not matter for that (`_hangs_on_batches`).
"""

from collections.abc import Mapping
from typing import Final

from recovery.checkpoints.report import Finding, Severity
from recovery.checkpoints.seed import plan_seed
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.errors import Refused
from recovery.sinks.kinds import PlannedStart
from recovery.sources.comparing import count_noun, format_time
from recovery.sources.replaying import GapCode
from recovery.strategies import common, late, mapped, repeats, sinks, sources, starts, state_rows
from recovery.strategies.base import Facts, OutputMode
from recovery.strategies.seeding import build_seeded_option

STATE: Final = "rebuild"
"""`args.state` of its seed: the state of a replay."""
WINDOWED: Final = "stateStoreSave"
JOIN: Final = "symmetricHashJoin"
ALONE: Final = frozenset({WINDOWED, "dedupe", "globalLimit"})
"""Steps whose state, where it is the only one, is the same however its input was cut into batches. With a watermark
too: what it takes out of the state is what the table has, and a row that came late is of no group that is left."""
NAMED_SOURCES: Final = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
OWN_CODE: Final = frozenset(
    {"flatMapGroupsWithState", "transformWithStateInPySparkExec", "transformWithStateInPandasExec"}
)
BY_GAP: Final[Mapping[GapCode, BlockerCode]] = {
    GapCode.GONE: BlockerCode.REPLAY_INPUT_GONE,
    GapCode.CHANGED: BlockerCode.REPLAY_INPUT_CHANGED,
    GapCode.UNKNOWN: BlockerCode.REPLAY_INPUT_UNKNOWN,
}


def judge(facts: Facts) -> Option:
    """The option, blocked or not."""
    last, new_rows = facts.checkpoint.last_committed, facts.counts.rebuilt
    operators, doubled, start = facts.new_code.operators or (), _doubled(facts), _start(facts)
    return build_seeded_option(
        facts,
        strategy=Strategy.REBUILD,
        summary="Keep progress, replay what was processed for the new state",
        blocker=blocked(facts),
        forecast=Forecast(
            lost=state_rows.with_replayed_state(facts, starts.forecast_lost(facts)),
            doubled=doubled,
            reread=starts.forecast_reread(facts, f"Nothing is read again into the table. {_cost(facts)}"),
            new_rows=new_rows,
            table_after=common.table_after(facts, new_rows),
            state=f"Rebuilt: {common.names(operators)}" if operators else "None to build",
            seconds=common.seconds(facts, 4),
        ),
        findings=_findings(facts, start),
        standing=facts.checkpoint,
        start=start,
        says=f"Replay what was processed up to batch {last} into a scratch checkpoint, whose rows go nowhere; seed the "
        f"next checkpoint version with its state: {starts.describe_starts(facts)}, the watermark as it is, new query "
        "id.",
        args=starts.seed(facts, last).model_copy(update={"state": STATE}),
        new_rows=new_rows,
        repeats=common.repeats_of(doubled, facts.new_code),
    )


def blocked(facts: Facts) -> Blocker | None:
    """Why rebuild cannot run here; None when it can."""
    reason = common.any_block(facts) or common.unread_code(facts) or not_repeatable(facts)
    reason = reason or mapped.block(facts) or sources.block(facts) or _unreadable(facts)
    if reason:
        return reason
    try:
        plan_seed(facts.checkpoint, starts=starts.starts(facts) or None)
    except Refused as refusal:
        return Blocker(code=BlockerCode.SEED_REFUSED, says=refusal.sentence)
    return sinks.block(facts, _start(facts))


def not_repeatable(facts: Facts) -> Blocker | None:
    """Why this code, or this checkpoint, has no state that a replay could build; None when it has.

    Asked before anything is replayed for a forecast, too.
    """
    code = facts.new_code
    if facts.is_plain:
        ways = (
            "put the old code back (revert), or choose reread or prime"
            if code.operators
            else "choose continue"
        )
        says = f"Reprise does not replay a plain program for its state: {ways}."
        return Blocker(code=BlockerCode.REPLAY_OF_PROGRAM, says=says)
    if not code.operators:
        says = "The code keeps no state, so there is none to rebuild: choose continue."
        return Blocker(code=BlockerCode.CODE_KEEPS_NO_STATE, says=says)
    if unsettled := common.find_unsettled_batch(facts, "rebuild"):
        return unsettled
    if common.keeps_same_state(facts):
        return common.block_whole_state(facts) or Blocker(
            code=BlockerCode.CODE_KEEPS_SAME_STATE,
            says=f"The code has the {common.names(code.operators)} step that the checkpoint holds state for, and is "
            "not known to be other code. If it is the old code, choose revert.",
        )
    return _hangs_on_batches(facts) or _varies(facts) or _unwritten_windows(facts)


def _hangs_on_batches(facts: Facts) -> Blocker | None:
    """State that is another one where its rows came in other batches, or in another order."""
    code = facts.new_code
    operators = code.operators or ()
    if len(operators) == 1 and operators[0] in ALONE:
        return None
    if set(operators) == {JOIN} and code.watermarked is False:
        return None
    if own := [o for o in operators if o in OWN_CODE]:
        why = f"Only the code of {common.word(own[0])} knows what it keeps: it may go by the order of rows or by time."
    else:
        why = (
            f"The state of {common.names(operators)}{'' if code.watermarked is False else ' behind a watermark'} "
            "depends on the batches and the order in which rows came, which a replay does not repeat."
        )
    return Blocker(
        code=BlockerCode.REPLAY_ORDER_MATTERS,
        says=f"{why} Go back (reread), or {sources.say_all_again(facts)}.",
    )


def _varies(facts: Facts) -> Blocker | None:
    """Code of which two runs over the same input may build other state."""
    code = facts.new_code
    if facts.output_mode is not OutputMode.APPEND:
        says = "Only a query that appends is replayed here; this one writes in another mode, or in one not known."
        return Blocker(code=BlockerCode.REPLAY_MODE_UNKNOWN, says=says)
    if code.varies == ():
        return None
    named = ", ".join(code.varies or ("what it computes is not known",))
    return Blocker(
        code=BlockerCode.REPLAY_DIFFERS,
        says=f"Two runs of the code over the same input may build other state: {named}. Take that out, go back "
        f"(reread), or {sources.say_all_again(facts)}.",
    )


def _unwritten_windows(facts: Facts) -> Blocker | None:
    """Windows of which nothing shows whether the table has them: only those of windows before can."""
    if WINDOWED not in (facts.new_code.operators or ()):
        return None
    before = [o.name for o in sorted(facts.checkpoint.state_operators, key=lambda o: o.operator_id)]
    if facts.checkpoint.closed_ms and before[:1] == [WINDOWED]:
        return None
    return Blocker(
        code=BlockerCode.NO_WATERMARK,
        says="The checkpoint has no watermark of windows, so nothing shows which of them the table has. A way out: "
        f"{sources.say_all_again(facts)}.",
    )


def _unreadable(facts: Facts) -> Blocker | None:
    """Input that cannot be replayed, and no place to do it."""
    if not facts.scratch:
        says = "There is no folder that Spark and Reprise both reach, for a scratch checkpoint."
        return Blocker(code=BlockerCode.NO_SCRATCH_PLACE, says=says)
    if facts.checkpoint.conf.get(NAMED_SOURCES) == "true":
        says = "The flow's sources have names, which copies of them cannot have."
        return Blocker(code=BlockerCode.REPLAY_INPUT_UNKNOWN, says=says)
    if facts.skipped_before:
        says = (
            "An earlier recovery let a source begin at another position, so its log does not tell which rows were "
            "processed."
        )
        return Blocker(code=BlockerCode.REPLAY_INPUT_UNKNOWN, says=says)
    if any(starts.is_moved(s) for s in facts.sources if s.position.offset_json is not None):
        says = "rebuild keeps the positions of the checkpoint, and another start is chosen; choose reread for that."
        return Blocker(code=BlockerCode.START_NOT_TAKEN, says=says)
    if facts.processed is None:
        says = "Whether what was processed can still be read was not looked at. Count again."
        return Blocker(code=BlockerCode.REPLAY_INPUT_UNKNOWN, says=says)
    if facts.processed.gaps:
        gap = facts.processed.gaps[0]
        return Blocker(
            code=BY_GAP[gap.code], says=f"{gap.says} The state cannot be built of all that was processed."
        )
    return None


def _start(facts: Facts) -> PlannedStart:
    """A seed goes on with the next number under a new query id; nothing is read again into the table."""
    return sinks.start(facts, facts.checkpoint, sources.nothing(""), query_id_kept=False)


def _doubled(facts: Facts) -> RowAmount:
    """None by the reset; windows that are cut differently may hold rows that the table has in earlier windows."""
    amount = repeats.with_those_of_steps(
        facts,
        sinks.forecast_doubled(facts, _start(facts), f"No committed {sources.unit(facts)} is read again."),
    )
    if WINDOWED not in (facts.new_code.operators or ()) or amount.rows != 0 or _same_windows(facts):
        return amount
    at = format_time(facts.checkpoint.closed_ms or 0)
    if late.known_to_differ(facts.old_code, facts.new_code):
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=late.describe_other_windows(facts))
    why = f"Windows up to {at}, the watermark, are written and stay; whether they are cut as before is not known."
    return RowAmount(rows=0, bound=Bound.ESTIMATE, why=why)


def _same_windows(facts: Facts) -> bool:
    return late.same_windows(facts.old_code, facts.new_code)


def _cost(facts: Facts) -> str:
    """What the replay reads, before anything is sealed."""
    processed = facts.processed
    if processed is None or processed.gaps:
        return "What a replay would read is not known."
    size = "of a size that is not known" if processed.size is None else count_noun(processed.size, "byte")
    return (
        f"For the state, {common.plural(processed.pieces, 'file')} ({size}) are copied into a scratch folder and "
        "replayed, and once more for the proof; both copies are removed."
    )


def _findings(facts: Facts, start: PlannedStart) -> tuple[Finding, ...]:
    findings = [*facts.sink.findings, *sinks.findings(facts, start)]
    findings += [*mapped.findings(facts), *sources.findings(facts)]
    findings += state_rows.findings(facts, state_rows.list_not_replayed(facts))
    findings.append(
        Finding("STATE_REPLAYED", Severity.INFO, _cost(facts), "Make sure that there is room for it.")
    )
    findings.append(_older_rows(facts))
    if facts.counts.rebuilt is None:
        says = "How many rows will come was not counted: that takes a replay, which is larger than what is counted, or"
        says += " failed."
        findings.append(
            Finding("REBUILD_NOT_COUNTED", Severity.WARNING, says, "The proof counts them after the rerun.")
        )
    if WINDOWED in (facts.new_code.operators or ()) and not _same_windows(facts):
        at = format_time(facts.checkpoint.closed_ms or 0)
        says = f"Nothing is counted twice as long as the code cuts its windows as before: those up to {at} are written."
        do = f"If their length or their start was changed, {sources.say_all_again(facts)}."
        findings.append(Finding("SAME_WINDOWS", Severity.WARNING, says, do))
    return tuple(findings)


def _older_rows(facts: Facts) -> Finding:
    """What a replay does not touch, by the step whose state it builds."""
    operators = facts.new_code.operators or ()
    if "dedupe" in operators:
        key = ", ".join(facts.new_code.key) or "the new key"
        says = (
            f"Earlier rows stay as the old code wrote them: some may repeat each other by {key}, and rows that the "
            "old code dropped stay out. No new row repeats a key that was processed."
        )
    elif JOIN in operators:
        says = "Earlier rows stay as the old code joined them; matches that it did not write do not come now."
    else:
        says = "Earlier rows stay as the old code computed them."
    return Finding(
        "OLDER_ROWS_STAY", Severity.INFO, says, f"To change them too, {sources.say_all_again(facts)}."
    )
