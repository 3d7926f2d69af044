"""repair: repair the damaged files in a new checkpoint version; progress and state are kept, the code goes on."""

from dataclasses import replace

from recovery.checkpoints.findings import advise_program
from recovery.checkpoints.repair import RepairPlan
from recovery.checkpoints.report import CheckpointReport, Finding, Severity
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import PlannedStep, SeedArgs
from recovery.sinks.kinds import PlannedStart
from recovery.strategies import common, mapped, sinks, sources, starts, state_rows
from recovery.strategies.base import Facts
from recovery.strategies.positions import positions
from recovery.strategies.provable import find_unprovable_rows


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with what would be repaired and how."""
    after, new_rows = _after(facts), _new_rows(facts)
    last, start, of = after.last_committed, _start(facts), sources.unit(facts)
    doubled = sinks.forecast_doubled(facts, start, f"No committed {of} is read again.")
    doubled = _unless_inferred(
        facts, common.add_unknown_keys(_after_repair(facts), doubled, facts.new_code, facts.counts)
    )
    return Option(
        strategy=Strategy.REPAIR,
        title="repair",
        summary="Repair the damaged files, keep progress and state",
        blocker=blocked(facts),
        forecast=_forecast(facts, doubled),
        findings=(
            *facts.sink.findings,
            *sinks.findings(facts, start),
            *sources.findings(facts),
            *_findings(facts.repair),
            *find_unprovable_rows(facts, facts.new_code),
        ),
        steps=common.steps(
            facts.new_code.files != facts.code.files,
            PlannedStep(
                kind=StepKind.SEED,
                says=f"Write the next checkpoint version with {_mendings(facts.repair)} repaired, state and positions "
                f"as they are. {common.describe_old(facts)}",
                args=_arguments(facts),
            ),
            common.rerun(facts),
        ),
        criteria=common.criteria(
            facts,
            begins=common.expect_batch_after(last, [s.offset_json for s in after.sources]),
            files=("same", common.all_files(facts)),
            before=facts.counts.table,
            rows=common.expect_rows(
                "all",
                facts.new_code.key,
                open_batch=sinks.find_open_batch(facts, start),
                inferred=list_inferred(facts),
            ),
            repeats=common.repeats_of(doubled, facts.new_code),
            new_rows=new_rows,
        ),
        rollback=common.until_committed(
            last,
            "two renames put the damaged checkpoint back into its place."
            if facts.is_plain
            else "the new version is renamed away and the damaged one is the newest again.",
        ),
        code_live="Yes",
        table_meanwhile=common.readable(facts),
        positions=positions(facts, after="same"),
    )


def _forecast(facts: Facts, doubled: RowAmount) -> Forecast:
    of, new_rows = sources.unit(facts), _new_rows(facts)
    kept = sources.kept(
        facts, f"Every committed {of} stays committed; every unread {of} is read.", planned=True
    )
    lost = state_rows.with_gone_state(facts, kept)
    return Forecast(
        lost=_unless_inferred(facts, lost),
        doubled=doubled,
        reread=sources.again(facts, "Reading goes on where the last committed batch ended."),
        new_rows=new_rows,
        table_after=common.table_after(facts, new_rows),
        state=f"Kept: {common.state_keys(_after_repair(facts))}",
        seconds=common.seconds(facts, 2, more=1.0),
    )


def _start(facts: Facts) -> PlannedStart:
    """The repaired query goes on; under a new id where the old one was lost."""
    after = _after(facts)
    kept = after.query_id == facts.checkpoint.query_id
    return sinks.start(facts, after, sources.again(facts, ""), query_id_kept=kept, same_range=True)


def blocked(facts: Facts) -> Blocker | None:
    """Why repair cannot run here; None when it can."""
    reason = common.any_block(facts) or starts.takes_no_start(facts, "repair") or sources.block(facts)
    if reason:
        return reason
    plan = facts.repair
    if plan is None or not (plan.mendings or plan.left):
        unread = next((f for f in facts.checkpoint.findings if f.code == "STATE_UNREAD"), None)
        if unread is not None:
            says = f"Nothing that was read is damaged. {unread.says} {unread.do}"
            return Blocker(code=BlockerCode.STATE_UNREAD, says=says)
        says = "Nothing in the checkpoint is damaged, so there is nothing to repair."
        return Blocker(code=BlockerCode.NOTHING_DAMAGED, says=says)
    stays = next((damage for damage in plan.left if damage.blocker), None)
    if stays is not None:
        why = advise_program(stays.code, stays.why) if facts.is_plain else stays.why
        says = f"Not everything can be repaired: {stays.says} {why}"
        return Blocker(code=BlockerCode.NOT_MENDABLE, says=says)
    if not plan.before.blockers:
        says = "What is damaged does not stop Spark, so repairing it alone does not help the flow."
        return Blocker(code=BlockerCode.DAMAGE_HARMLESS, says=says)
    return _code_differs(facts, plan) or _unconfirmed(facts, plan) or sinks.block(facts, _start(facts))


def _code_differs(facts: Facts, plan: RepairPlan) -> Blocker | None:
    """A repaired checkpoint still has to fit the code that runs on it. Of a plain stream whose program was not named
    nothing of that is known; mending changes no code, and what cannot be measured afterwards is not proven."""
    if facts.is_plain and not facts.code.files:
        return None
    wrong = mapped.find_mismatch(facts, plan.after.sources, "repaired or not, Spark would refuse it.")
    if reason := common.unread_code(facts) or wrong:
        return reason
    if facts.new_code.operators is None:
        says = "The code could not be analysed, so it is not known whether it fits a repaired checkpoint."
        return Blocker(code=BlockerCode.CODE_NOT_ANALYSED, says=says)
    stored = tuple(o.name for o in plan.after.state_operators)
    if stored != facts.new_code.operators:
        return Blocker(
            code=BlockerCode.STATE_DIFFERS,
            says=f"The code has {common.names(facts.new_code.operators)}, the checkpoint holds state of "
            f"{common.names(stored)}: repaired or not, Spark would refuse it. Put the old code back in the patch, or "
            "choose continue.",
        )
    return None


def list_inferred(facts: Facts) -> tuple[str, ...]:
    """Log entries of which no one knows which files they named: what is in their place is a guess."""
    return tuple(m.file for m in facts.repair.mendings if not m.exact) if facts.repair else ()


def _unless_inferred(facts: Facts, promised: RowAmount) -> RowAmount:
    """What a repair promises; nothing, where it counts files as read that may not be the ones that were read."""
    entries = list_inferred(facts)
    if not entries:
        return promised
    why = (
        f"Which files {', '.join(entries)} had named was inferred. A file that counts as read now and was not is never "
        "read; one that was read and does not count is read again. Check the files that the findings name."
    )
    return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)


def _unconfirmed(facts: Facts, plan: RepairPlan) -> Blocker | None:
    """An inferred mending that the rows speak against: as many rows as the table holds prove nothing, others do."""
    if plan.exact:
        return None
    counts = facts.counts
    if counts.processed is None or counts.table is None:
        says = "What a lost log entry named was inferred, and the rows that could speak against it were not counted."
        return Blocker(code=BlockerCode.MENDING_UNCONFIRMED, says=says)
    if counts.processed != counts.table:
        return Blocker(
            code=BlockerCode.MENDING_UNCONFIRMED,
            says=f"What a lost log entry named was inferred, and the rows speak against it: those files yield "
            f"{common.plural(counts.processed, 'row')}, the table holds {counts.table:,}.",
        )
    return None


def _after(facts: Facts) -> CheckpointReport:
    return facts.repair.after if facts.repair is not None else facts.checkpoint


def _new_rows(facts: Facts) -> int | None:
    """Rows that the code writes for the waiting files with the state it keeps; None: cannot be known."""
    if list_inferred(facts):
        return None
    if not facts.new_code.operators:
        return facts.counts.waiting if facts.new_code.operators is not None else None
    return common.count_fresh_rows(_after_repair(facts), facts.new_code, facts.counts)


def _after_repair(facts: Facts) -> Facts:
    return replace(facts, checkpoint=_after(facts))


def _mendings(plan: RepairPlan | None) -> str:
    if plan is None or not plan.mendings:
        return "nothing"
    return ", ".join(dict.fromkeys(m.file for m in plan.mendings))


def _arguments(facts: Facts) -> SeedArgs:
    """What the step needs to lay the same repair out again, and to see that it is the same."""
    plan = facts.repair
    return SeedArgs(
        action="repair",
        last_committed=_after(facts).last_committed,
        from_version=facts.checkpoint.version,
        offsets=tuple(s.offset_json for s in _after(facts).sources),
        query_id=None if plan is None else plan.after.query_id,
        operators=tuple(facts.new_code.operators or ()),
        mendings=() if plan is None else plan.mendings,
    )


def _findings(plan: RepairPlan | None) -> tuple[Finding, ...]:
    if plan is None:
        return ()
    mended = [
        Finding(m.code, Severity.INFO if m.exact else Severity.WARNING, m.says, m.how, m.file)
        for m in plan.mendings
    ]
    left = [
        Finding(d.code, Severity.BLOCKER if d.blocker else Severity.WARNING, d.says, d.why, d.file)
        for d in plan.left
    ]
    return (*mended, *left)
