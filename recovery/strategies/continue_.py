"""continue: a seeded reset. Progress is kept to the byte, state is dropped, the new code goes on."""

from recovery.checkpoints.report import Finding, Severity
from recovery.checkpoints.seed import plan_seed
from recovery.checkpoints.table_progress import HELD_BY_THE_TABLE, reconcile_report
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.errors import Refused
from recovery.sinks.kinds import PlannedStart
from recovery.sources.comparing import nothing_in
from recovery.strategies import common, first_batch, mapped, repeats, sinks, sources, starts, state_rows
from recovery.strategies.base import Facts
from recovery.strategies.seeding import build_seeded_option


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with this flow's own numbers."""
    if first_batch.is_open(facts):
        return first_batch.judge(facts, _doubled(facts, _start(facts)))
    rows, standing, start = facts.counts.waiting, reconcile_report(facts.checkpoint), _start(facts)
    last, reread = standing.last_committed, starts.forecast_reread(facts, _starts_with(facts))
    forecast = Forecast(
        lost=state_rows.with_state(facts, starts.forecast_lost(facts), read_again=reread.rows != 0),
        doubled=state_rows.among(facts, _doubled(facts, start)),
        reread=reread,
        new_rows=rows,
        table_after=common.table_after(facts, rows),
        state=common.state_dropped(facts),
        seconds=common.seconds(facts, 2, more=1.0),
    )
    return build_seeded_option(
        facts,
        strategy=Strategy.CONTINUE,
        summary="Seeded reset: keep progress, drop state",
        blocker=blocked(facts),
        forecast=forecast,
        findings=_findings(facts),
        standing=standing,
        start=start,
        says=f"Seed the next checkpoint version from batch {last}: {starts.describe_starts(facts)}, no state, new "
        "query id.",
        args=starts.seed(facts, last),
        new_rows=rows,
        repeats=common.repeats_of(forecast.doubled, facts.new_code),
        # rows that are read a second time repeat rows that the table may have: no repeat of theirs is a fault
        # files that only seem to be read again explain no repeat
        again=forecast.reread.rows != 0 and not sources.list_read_elsewhere(facts),
    )


def _start(facts: Facts) -> PlannedStart:
    """A seed goes on with the next number under a new query id."""
    again = starts.forecast_reread(facts, "")
    return sinks.start(facts, reconcile_report(facts.checkpoint), again, query_id_kept=False)


def _doubled(facts: Facts, start: PlannedStart) -> RowAmount:
    """Rows that come a second time: for they are read again, or because the input repeats a key that is known."""
    doubled = sinks.forecast_doubled(facts, start, f"No committed {sources.unit(facts)} is read again.")
    if not repeats.are_told_by_key(facts):
        return repeats.with_uncounted(facts, doubled)
    coming, fresh = facts.counts.waiting, facts.counts.fresh_waiting
    if coming is None or fresh is None:
        why = f"{doubled.why} Whether what waits repeats a key was not counted."
        return doubled.bounded(Bound.AT_LEAST, why)
    rows, key = coming - fresh, ", ".join(facts.new_code.key)
    if not rows or doubled.rows is None or rows <= doubled.rows:
        return doubled
    more = f"{common.plural(rows - doubled.rows, 'row')} of what waits repeat a key ({key})"
    why = f"{doubled.why} {more} of the table or of each other, and the code keeps them."
    return doubled.numbered(rows, why)


def blocked(facts: Facts) -> Blocker | None:
    """Why continue cannot run here; None when it can."""
    reason = (
        common.any_block(facts) or common.unread_code(facts) or mapped.block(facts) or sources.block(facts)
    )
    if reason:
        return reason
    if facts.new_code.operators:
        return _stateful(facts, facts.new_code.operators)
    try:
        plan_seed(facts.checkpoint, starts=starts.starts(facts) or None, begins_at_given=True)
    except Refused as refusal:
        return Blocker(code=BlockerCode.SEED_REFUSED, says=refusal.sentence)
    return sinks.block(facts, _start(facts))


def _stateful(facts: Facts, operators: tuple[str, ...]) -> Blocker:
    kept = ", ".join(common.word(o) for o in operators)
    state_anew, whole = _other_ways(facts)
    if tuple(o.name for o in facts.checkpoint.state_operators) == operators:
        anew = state_anew if facts.is_plain or common.has_useless_state(facts) else ""
        ways = ", or ".join(way for way in (anew, whole) if way)
        if common.has_damaged_state(facts):
            says = f"The code keeps state ({kept}), and that of the checkpoint cannot be loaded: {ways}."
            return Blocker(code=BlockerCode.CODE_KEEPS_SAME_STATE, says=says)
        if not common.other_code(facts) and (whole_state := common.block_whole_state(facts)):
            return whole_state
        return Blocker(
            code=BlockerCode.CODE_KEEPS_SAME_STATE,
            says=f"The code keeps state ({kept}), as the checkpoint does. If it is the same, nothing needs a reset. "
            f"Choose revert. If its key or its columns changed, no earlier state fits it: {ways}.",
        )
    return Blocker(
        code=BlockerCode.CODE_KEEPS_STATE,
        says=f"The code has a stateful step ({kept}) that a seeded checkpoint without state cannot start. "
        f"Take it out, put the old code back (revert), {', or '.join(way for way in (state_anew, whole) if way)}.",
    )


def _other_ways(facts: Facts) -> tuple[str, str]:
    """What builds new state, and what reads all again: a plain program has neither a replay nor a full refresh."""
    if facts.is_plain:
        return "go back and build it again (reread), or let it start empty (prime)", ""
    return common.STATE_ANEW, sources.say_all_again(facts)


def _findings(facts: Facts) -> tuple[Finding, ...]:
    findings = [*facts.sink.findings, *sinks.findings(facts, _start(facts))]
    for judged in (mapped, starts, sources):
        findings += judged.findings(facts)
    findings += [f for f in facts.checkpoint.findings if f.code in HELD_BY_THE_TABLE]
    findings += state_rows.findings(facts)
    matters = {h.operator.operator_id for h in state_rows.judge_state(facts) if h.matters}
    for operator in facts.checkpoint.state_operators:
        if operator.operator_id not in matters:
            findings.append(_state_dropped(facts, operator.operator_id, operator.name))
    if _nothing_waits(facts):
        findings.append(
            Finding(
                "NOTHING_WAITS",
                Severity.INFO,
                f"No unread {sources.unit(facts)} waits: the rerun will commit no batch until one arrives.",
                "Run it all the same: it proves that the flow starts.",
            )
        )
    return tuple(findings)


def _state_dropped(facts: Facts, operator_id: int, name: str) -> Finding:
    if name != "dedupe":
        return Finding(
            "STATE_DROPPED",
            Severity.WARNING,
            f"The state of operator {operator_id} ({common.word(name)}) is not carried over. No row of the table is in "
            "it alone.",
            "Make sure that the new code does not need it.",
        )
    repeats = facts.counts.repeats_waiting
    now = ""
    if repeats is not None:
        now = f" Among the unread rows, {common.plural(repeats, 'row')} repeat a key that is in the table already."
    return Finding(
        "STATE_DROPPED",
        Severity.WARNING,
        f"If a record with one of the {common.known_keys(facts)} known to the old dropDuplicates arrives again, "
        f"it will be a second row in {facts.dataset.rsplit('.', 1)[-1]}.{now}",
        "That is what taking dropDuplicates out means. Keep it (revert) if repeats must not come in.",
        file=f"operator {operator_id} dedupe",
    )


def _starts_with(facts: Facts) -> str:
    standing = reconcile_report(facts.checkpoint)
    if standing is not facts.checkpoint:
        return (
            f"The table holds batch {standing.last_committed} already, so the seed goes on after it. "
            + _first_file(facts)
        )
    return _first_file(facts)


def _nothing_waits(facts: Facts) -> bool:
    """Whether it is known that there is nothing to read."""
    if common.only_files(facts):
        return not common.files_of(facts, "waiting")
    return all(nothing_in(s.unread) for s in facts.sources)


def _first_file(facts: Facts) -> str:
    if not common.only_files(facts):
        return sources.goes_on(facts)
    waiting = common.files_of(facts, "waiting")
    total = common.all_files(facts)
    if not waiting:
        return "Nothing waits; the next file that arrives is read first."
    return f"It starts with file {total - len(waiting) + 1} of {total}, {common.name_of(waiting[0].path)}."
