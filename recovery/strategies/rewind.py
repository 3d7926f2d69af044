"""rewind, for people *reread*: go back in the input, let new code build its state again; numbers and watermark go on.

For code whose stateful steps the checkpoint's state does not fit. The watermark stays, so that windows which were
written are not written again (WatermarkSupport drops their rows as late); windows after it were never written in append
mode, and are whole only if all of their rows are read again. So a person chooses how far back that is.
"""

from dataclasses import replace

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding, Severity
from recovery.checkpoints.seed import plan_seed
from recovery.contracts.amounts import Bound, RowAmount, joint_bound
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.errors import Refused
from recovery.sinks.kinds import PlannedStart
from recovery.sources import registry
from recovery.sources.base import SourceFacts, StartChoice
from recovery.sources.comparing import format_time, nothing_in
from recovery.strategies import common, late, mapped, prime, sinks, sources, starts, state_rows
from recovery.strategies.base import Facts
from recovery.strategies.seeding import build_seeded_option

# Steps that write a row once, when the watermark has passed its window.
WINDOWED = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
UNGUIDED = RowAmount(
    rows=None, bound=Bound.UNKNOWN, why="That depends on how far you go back: choose a start."
)


def judge(facts: Facts) -> Option:
    """The option, blocked or not."""
    last, new_rows = facts.checkpoint.last_committed, _new_rows(facts)
    operators, doubled = facts.new_code.operators or (), _doubled(facts)
    return build_seeded_option(
        facts,
        strategy=Strategy.REWIND,
        summary="Read again for the state: go back in the input, the table's rows stay",
        blocker=blocked(facts),
        forecast=Forecast(
            lost=_lost(facts),
            doubled=doubled,
            reread=_reread(facts),
            new_rows=new_rows,
            table_after=common.table_after(facts, new_rows),
            state=f"Rebuilt: {common.names(operators)}" if operators else "None to build",
            seconds=common.seconds(facts, 3),
        ),
        findings=_findings(facts),
        standing=facts.checkpoint,
        start=_start(facts, _reread(facts)),
        says=f"Seed the next checkpoint version from batch {last}: {starts.describe_starts(facts)}, empty state of "
        "the new code, the watermark as it is, new query id.",
        args=prime.with_empty_state(facts),
        new_rows=new_rows if _told(facts) else None,
        repeats=common.repeats_of(doubled, facts.new_code),
        again=not _guarded(facts),
        all_files_again=True,
    )


def blocked(facts: Facts) -> Blocker | None:
    """Why rewind cannot run here; None when it can."""
    reason = common.any_block(facts) or common.unread_code(facts) or _pointless(facts)
    reason = reason or mapped.block(facts) or sources.block(facts) or _unguided(facts)
    if reason:
        return reason
    told, watermark = starts.starts(facts), facts.checkpoint.closed_ms
    try:
        plan_seed(facts.checkpoint, starts=told or None, watermark_ms=watermark)
    except Refused as refusal:
        return Blocker(code=BlockerCode.SEED_REFUSED, says=refusal.sentence)
    return sinks.block(facts, _start(facts, _reread(facts)))


def _pointless(facts: Facts) -> Blocker | None:
    """Code for which nothing is to be built again, or could be."""
    operators = facts.new_code.operators or ()
    if not operators:
        says = "The code keeps no state, so nothing needs to be built again: choose continue."
        return Blocker(code=BlockerCode.CODE_KEEPS_NO_STATE, says=says)
    if common.keeps_same_state(facts):
        return common.block_whole_state(facts) or Blocker(
            code=BlockerCode.CODE_KEEPS_SAME_STATE,
            says=f"The code has the {common.names(operators)} step that the checkpoint holds state for. If it is the "
            f"old code, choose revert; if its steps changed within, {sources.say_all_again(facts)}.",
        )
    if any(name in WINDOWED for name in operators) and not facts.checkpoint.closed_ms:
        return Blocker(
            code=BlockerCode.NO_WATERMARK,
            says="The checkpoint has no watermark, so nothing shows which windows are written already, and they would "
            f"be written again. To write them all again, {sources.say_all_again(facts)}.",
        )
    return None


def _unguided(facts: Facts) -> Blocker | None:
    """Progress that is unclear, or a start that no one chose."""
    if unsettled := common.find_unsettled_batch(facts, "go back"):
        return unsettled
    if not _has_start(facts):
        after = format_time(facts.checkpoint.closed_ms or 0)
        of = f"of the windows after {after}, the watermark," if _guarded(facts) else "behind the state"
        return Blocker(
            code=BlockerCode.START_NEEDED,
            says=f"Choose how far to go back first: every row {of} has to be read again. From the committed position "
            "on the state would stay without them.",
        )
    return None


def _guarded(facts: Facts) -> bool:
    """Whether the watermark keeps rows that were written from being written again: windows before, such windows now,
    and each of them written when it was closed.

    Where the step that makes the windows is another one they are cut otherwise, and one that is still open may hold
    rows of one that is written.
    """
    return _has_same_step(facts) and state_rows.is_written_once(facts)


def _has_same_step(facts: Facts) -> bool:
    now = facts.new_code.operators or ()
    held = [o.name for o in sorted(facts.checkpoint.state_operators, key=lambda o: o.operator_id)]
    same = bool(now) and now[0] in WINDOWED and now[:1] == tuple(held[:1])
    return same and bool(facts.checkpoint.closed_ms)


def _told(facts: Facts) -> bool:
    """Whether the code's own query was run over this input, and an update would write and drop the same."""
    return facts.counts.rehearsed and not facts.counts.rehearsed_why


def _never_late(facts: Facts) -> bool:
    """Whether no row can come late: code that drops repeats is counted without a rehearsal only where it has no
    watermark."""
    counted = facts.counts.waiting is not None and not facts.counts.rehearsed
    return counted and set(facts.new_code.operators or ()) == {"dedupe"}


def _has_start(facts: Facts) -> bool:
    """Whether a start before the committed position is chosen for a source."""
    return any(s.start and not nothing_in(s.start.reread) for s in facts.sources)


def _new_rows(facts: Facts) -> int | None:
    """Rows that the code writes from empty state; None: only a rehearsal can tell, and there was none."""
    only_dedupe = set(facts.new_code.operators or ()) == {"dedupe"}
    return facts.counts.waiting if facts.counts.rehearsed or only_dedupe else None


def _reread(facts: Facts) -> RowAmount:
    if not _has_start(facts):
        return UNGUIDED
    return starts.forecast_reread(facts, "Nothing is read again.")


def _start(facts: Facts, reread: RowAmount) -> PlannedStart:
    again = sources.nothing("") if _guarded(facts) else reread
    return sinks.start(facts, facts.checkpoint, again, query_id_kept=False)


def _doubled(facts: Facts) -> RowAmount:
    if not _has_start(facts):
        return UNGUIDED
    if _guarded(facts):
        at = format_time(facts.checkpoint.closed_ms or 0)
        why = f"Windows up to {at}, the watermark, are written already and not written again; later ones never were."
        doubled = sinks.forecast_doubled(facts, _start(facts, _reread(facts)), why)
        if doubled.rows != 0:
            return doubled
        if late.known_to_differ(facts.old_code, facts.new_code):
            return RowAmount(rows=None, bound=Bound.UNKNOWN, why=late.describe_other_windows(facts))
        is_sure = doubled.exact and _told(facts) and late.same_windows(facts.old_code, facts.new_code)
        return RowAmount(rows=0, bound=Bound.ESTIMATE.unless(is_sure), why=why)
    reread = _reread(facts)
    doubled = sinks.forecast_doubled(facts, _start(facts, reread), "Nothing is written again.")
    steps = common.names(facts.new_code.operators or ())
    why = f"The state of {steps} is built from the rows that are read again alone. {doubled.why}"
    if _has_same_step(facts):
        why = f"{why} Windows that are still open may be in the table already, by the mode in which they were written."
    if not set(facts.new_code.operators or ()) <= prime.PASSES:  # these may write many rows of one
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why, files=doubled.files)
    if doubled.rows is not None and not all(_from_the_first(s) for s in facts.sources):
        why = f"{why} Of what waits, a row may repeat one from before the start, whose key no state has."
        sure = _told(facts) or not facts.counts.rehearsed
        bound = Bound.AT_MOST if sure else Bound.ESTIMATE
        return RowAmount(rows=_new_rows(facts), bound=bound, why=why, files=doubled.files)
    counted = facts.counts.reread is not None  # as the code yields them
    bound = Bound.AT_MOST if counted else joint_bound((doubled.bound, Bound.AT_MOST))
    return RowAmount(rows=doubled.rows, bound=bound, why=why, files=doubled.files)


def _lost(facts: Facts) -> RowAmount:
    """Rows of the state that lie before the start are not read; no one can count them without reading them."""
    if not _has_start(facts):
        return UNGUIDED
    lost = starts.forecast_lost(facts)
    if lost.rows != 0:
        return lost.loosened()
    later = [s for s in facts.sources if not _from_the_first(s)]
    if later:
        who = " and ".join(str(s.position.source) for s in later)
        why = (
            f"Rows of the state that source {who} had before the chosen start are not read again, and cannot be "
            "counted. None are missing where the start is old enough."
        )
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    why = "Every row that the sources ever had is read again."
    if _told(facts) and not late.written(facts):
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=f"{why} {late.says(facts)}")
    return RowAmount(
        rows=0, bound=Bound.ESTIMATE.unless(lost.exact and (_told(facts) or _never_late(facts))), why=why
    )


def _from_the_first(source: SourceFacts) -> bool:
    """Whether the source starts with the first row that it ever had."""
    kind = registry.POSITIONED.get(source.position.kind)
    if kind is None or source.facts is None:
        return False
    try:
        first = kind.find_position(StartChoice(earliest=True), source.position.offset_json, source.facts)
    except (Refused, Malformed):
        return False
    # `whole` is asked for a reader that begins with the first row; kinds without such an option do not look at it
    whole = kind.find_empty_start({**source.options, "startingOffsets": "earliest"}, source.facts).whole
    return first.offset_json == source.begins and not first.fallbacks and whole is True


def _findings(facts: Facts) -> tuple[Finding, ...]:
    findings = [*facts.sink.findings, *sinks.findings(facts, _start(facts, _reread(facts)))]
    findings += _same_windows(facts)
    findings += [
        *mapped.findings(facts),
        *(_meant(f) for f in starts.findings(facts)),
        *sources.findings(facts),
    ]
    return (*findings, *_rehearsal(facts))


def _rehearsal(facts: Facts) -> tuple[Finding, ...]:
    """What the rehearsal could not tell, and what became of the rows that came late in it."""
    do = f"Compare the table with its input afterwards, or {sources.say_all_again(facts)}."
    if not _told(facts):
        why = facts.counts.rehearsed_why or "The code was not rehearsed over this input."
        says = f"The forecast is not exact. {why}"
        return (Finding("REWIND_NOT_EXACT", Severity.WARNING, says, do),)
    if not facts.counts.rehearsed_late:
        return ()
    if late.written(facts):
        return (Finding("LATE_ROWS_WRITTEN", Severity.INFO, late.says(facts), "Nothing to do."),)
    return (Finding("LATE_ROWS_LOST", Severity.WARNING, late.says(facts), do),)


def _same_windows(facts: Facts) -> tuple[Finding, ...]:
    """What the promise of no repeat rests on, which only a person can tell."""
    if not _guarded(facts) or late.same_windows(facts.old_code, facts.new_code):
        return ()
    at = format_time(facts.checkpoint.closed_ms or 0)
    says = f"Nothing is counted twice as long as the code cuts its windows as before: those up to {at} are written."
    do = f"If their length or their start was changed, {sources.say_all_again(facts)}."
    return (Finding("SAME_WINDOWS", Severity.WARNING, says, do),)


def _meant(finding: Finding) -> Finding:
    """Reading again is what going back is for, and no mistake."""
    if finding.code != "START_REPEATS":
        return finding
    return replace(
        finding, severity=Severity.INFO, do="The state is built from them: that is what going back means."
    )
