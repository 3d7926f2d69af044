"""seed: put the next checkpoint version into place: at the positions of the plan, mended, or begun again.

What a seed starts at is in the step's arguments, as sealed: `starts` (`SeededSource` of every source of the
new code), `watermark_ms`, `state` (the folder of a checkpoint whose state is carried over; "prime": empty state of the
code's shape; "rebuild": that of a replay of what was processed). None of them: every source where it stands, without
state.
Crash order is in checkpoints.publishing: undo record, prepared directory, read back, one rename.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from recovery.checkpoints import beginning, inspect_checkpoint, publishing, repair, transplant
from recovery.checkpoints import seed as seeding
from recovery.checkpoints.publishing import PreparedCheckpoint
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed import SourceStart
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts import codec
from recovery.contracts.results import SeedResult
from recovery.contracts.steps import SeedArgs
from recovery.errors import Refused
from recovery.eventlogs.times import moment_of
from recovery.models import Step
from recovery.sinks.base import SinkReport
from recovery.sinks.live import reading as sinks
from recovery.spark import scratch
from recovery.spark.api import Rehearsal, study
from recovery.strategies import prime, rebuild
from recovery.strategies.common import plural
from recovery.workflow import rehearsing, repairing, reviewed
from recovery.workflow.flow_snapshot import NO_COUNTS, FlowSnapshot, read_flow_snapshot, request_for
from recovery.workflow.places import checkpoint_of
from recovery.workflow.planned_checkpoint import require_planned_checkpoint
from recovery.workflow.replaying import processed_until, replaying_processed
from recovery.workflow.steps.base import Context, ProbeOutcome, saw

SECONDS = 3600
PRIME = prime.STATE  # args.state: empty state, as the code's own query leaves it
REBUILD = rebuild.STATE  # args.state: that of a replay


def run(context: Context) -> SeedResult:
    """Prepare, read back, rename. Refused when the checkpoint is no longer the planned one."""
    place, label = checkpoint_of(context.flow), context.recovery.label
    if not publishing.probe_outcome(place, recovery=label).in_place:
        publishing.clean_leftovers(place, recovery=label)
    report = require_planned_checkpoint(context, so="It was left alone.")
    context.watch.guard()
    make = MAKERS.get(_args(context).action or "", _seeded)
    prepared = make(context, place, report)
    context.log(f"Undo record written. Prepared from {_called(report)}batch {report.last_committed}.")
    if (
        report.version is None
    ):  # what starts a plain stream asks nobody, and its one folder is about to be renamed
        context.client.prove_standstill(context.pipeline_id)
    version = publishing.publish_checkpoint(place, prepared, guard=context.watch.guard)
    if version is None:
        context.log(
            f"Two renames: the old checkpoint is whole in {publishing.set_aside(place, recovery=label)}."
        )
    else:
        context.log(f"Renamed to version {version}. Version {report.version} is untouched.")
    result = _read_back(context, place, version, from_version=report.version)
    if version is None:
        context.client.prove_standstill(context.pipeline_id)
    return result


def _called(report: CheckpointReport) -> str:
    """Nothing for a checkpoint with one fixed place."""
    return "" if report.version is None else f"version {report.version}, "


def _args(context: Context) -> SeedArgs:
    return codec.read(SeedArgs, context.step.args)


def _starts(context: Context) -> list[SourceStart] | None:
    return [SourceStart.from_args(sealed) for sealed in _args(context).starts or ()] or None


def _seeded(context: Context, place: str, report: CheckpointReport) -> PreparedCheckpoint:
    args = _args(context)
    state, watermark_ms = args.state, args.watermark_ms
    if state == REBUILD:
        return _rebuilt(context, place, report)
    if state != PRIME:
        return _laid(context, place, report, state, watermark_ms)
    if watermark_ms is None:  # windows up to it were written; those that end later were in the state
        watermark_ms = reconcile_report(report).closed_ms
    context.log("The code's own query runs over no input, for empty state of its shape.")
    with _primed(context, report, watermark_ms) as found:
        if found.problem is not None:
            raise Refused(f"Empty state for the code could not be made: {found.problem}")
        return _laid(context, place, report, found.checkpoint, watermark_ms)


def _say_watermark(ms: int) -> str:
    return f"{moment_of(ms):%d %b %Y, %H:%M:%S} UTC"


def _rebuilt(context: Context, place: str, report: CheckpointReport) -> PreparedCheckpoint:
    """With the state of a replay. Nothing but the scratch folder is written before that has ended."""
    snapshot = _reviewed(context)
    answer = study(request_for(snapshot, snapshot.code, NO_COUNTS, ()))
    held = processed_until(report, answer.sources, snapshot.noted)
    context.log(
        f"What was processed up to batch {report.last_committed} is replayed: {plural(held.pieces, 'file')}, at the "
        f"watermark {_say_watermark(report.closed_ms or 0)}, into no table."
    )
    request = request_for(snapshot, snapshot.code, NO_COUNTS, ())
    # each attempt has a folder of its own: after a kill Spark may still write into that of the one before
    *before, purpose = (f"seed-{context.recovery.label}-{n}" for n in range(1, context.step.fence + 1))
    for old in before:
        scratch.clear_scratch(rehearsing.place_of(snapshot.storage, context.flow.name, old))
    with replaying_processed(request, held, report, storage=snapshot.storage, purpose=purpose) as found:
        if found.problem is not None:
            raise Refused(f"The processed input could not be replayed: {found.problem}", code="replay_failed")
        return _laid(context, place, report, found.checkpoint, None)


def _reviewed(context: Context) -> FlowSnapshot:
    snapshot = read_flow_snapshot(context.flow, known=context.contents.table_places)
    reviewed.require_unchanged(
        context.contents, snapshot.spec, snapshot.code, snapshot.client, so="The checkpoint was left alone."
    )
    return snapshot


def _primed(
    context: Context, report: CheckpointReport, watermark_ms: int | None
) -> AbstractContextManager[Rehearsal]:
    snapshot = _reviewed(context)
    return rehearsing.rehearse_flow(
        request_for(snapshot, snapshot.code, NO_COUNTS, ()),
        storage=snapshot.storage,
        purpose=f"seed-{context.recovery.label}",
        watermark_ms=watermark_ms,
        conf=report.conf,
    )


def _laid(
    context: Context, place: str, report: CheckpointReport, state: str | None, watermark_ms: int | None
) -> PreparedCheckpoint:
    plan = seeding.plan_seed(
        report,
        starts=_starts(context),
        watermark_ms=watermark_ms,
        state=state,
        begins_at_given=state is None,
    )
    for start in plan.starts or ():
        context.log(_describe_start(start))
    if plan.watermark_ms is not None:
        context.log(f"The watermark is set to {_say_watermark(plan.watermark_ms)}.")
    if plan.state is not None:
        context.log(f"State is carried over from {plan.state}.")
    return seeding.prepare_seed(
        place,
        plan,
        recovery=context.recovery.label,
        fence=context.step.fence,
        guard=context.watch.guard,
    )


def _describe_start(start: SourceStart) -> str:
    origin = "is new and starts" if start.old is None else f"continues source {start.old}"
    position = f"after {start.offset_json}" if start.offset_json else "by its own options"
    changes = ((len(start.again), "reads {} again"), (len(start.skip), "skips {}"))
    files = ", ".join(says.format(plural(count, "file")) for count, says in changes if count)
    return f"Source {start.key} {origin} {position}{': ' if files else ''}{files}."


def _sink(context: Context, report: CheckpointReport) -> SinkReport:
    """What the plan's table remembers now; a sink that is no table remembers nothing that a repair could use."""
    contents = context.contents
    if contents.table_place:
        return sinks.read_table(contents.table_place, query_id=report.query_id)
    return SinkReport(contents.sink.kind, contents.sink.place, None)


def _repaired(context: Context, place: str, report: CheckpointReport) -> PreparedCheckpoint:
    """Lay the repair out again from what is there now; it must be the one that was sealed."""
    args, contents = _args(context), context.contents
    plan = repairing.preview_repair(
        place,
        table=contents.table_place,
        sink=_sink(context, report),
        query_id=args.query_id,
        operators=args.operators,
        inputs=[(source.location, source.options) for source in contents.inputs],
    )
    if plan.mendings != args.mendings:
        raise Refused(
            "The repairs that are possible now are not those of the plan. The checkpoint was left alone. Seal a "
            "new plan.",
            code="stale",
        )
    for mending in plan.mendings:
        context.log(f"{mending.file}: {mending.how}")
    return repair.prepare_repair(
        place,
        plan,
        recovery=context.recovery.label,
        fence=context.step.fence,
        guard=context.watch.guard,
    )


def _gone_back(context: Context, place: str, report: CheckpointReport) -> PreparedCheckpoint:
    """As it was after the batch of the plan; the table was put back to the same one before."""
    args = _args(context)
    assert args.last_committed is not None, "a replay goes back to a batch"
    plan = transplant.plan_rollback(
        place,
        args.last_committed,
        sink=context.contents.table_place or None,
        state=False,
    )
    return transplant.prepare_layout(
        place,
        plan,
        recovery=context.recovery.label,
        fence=context.step.fence,
        guard=context.watch.guard,
    )


def _begun(context: Context, place: str, report: CheckpointReport) -> PreparedCheckpoint:
    """From where the old one began; nothing was ever committed in it."""
    plan = beginning.plan_beginning(report, _args(context).sources)
    context.log("Nothing was committed: batch 0 is planned again, from where each source began.")
    for old, new in plan.kept:
        context.log(f"{new} keeps where it began, as {old} has it.")
    return beginning.prepare_beginning(
        place,
        plan,
        recovery=context.recovery.label,
        fence=context.step.fence,
        guard=context.watch.guard,
    )


MAKERS: Final[Mapping[str, Callable[[Context, str, CheckpointReport], PreparedCheckpoint]]] = {
    "repair": _repaired,
    "go-back": _gone_back,
    "begin": _begun,
}


def _wanted(context: Context) -> list[str | None]:
    """The offset line of every source, in the order of the code that runs next, as sealed; none before batch 0."""
    if _args(context).action == "begin":
        return []
    if (starts := _starts(context)) is not None:
        return [start.offset_json for start in sorted(starts, key=lambda s: s.index)]
    return list(_args(context).offsets) or [p.after.offset_json for p in context.contents.positions]


def _read_back(context: Context, place: str, version: int | None, *, from_version: int | None) -> SeedResult:
    now = inspect_checkpoint(place)
    wanted = _wanted(context)
    offsets = [s.offset_json for s in now.sources]
    if now.version != version or offsets != wanted or now.blockers:
        raise Refused(
            f"Version {now.version} reads back with offsets {offsets}, planned: {wanted}. Roll back, then seal again.",
            code="not_as_sealed",
        )
    following = 0 if now.last_committed is None else now.last_committed + 1
    context.log(f"Read back: intact, next batch {following}, offsets as planned.")
    return SeedResult(
        version=version,
        from_version=from_version,
        query_id=now.query_id,
        last_committed=now.last_committed,
        last_planned=now.last_planned,
        offsets=tuple(offsets),
    )


def probe(step: Step) -> ProbeOutcome:
    """Decided from disk alone: only the rename makes anything visible to Spark."""
    place = checkpoint_of(step.recovery.flow)
    seen = publishing.probe_outcome(place, recovery=step.recovery.label)
    evidence = list(seen.evidence)
    if seen.in_place:
        report = inspect_checkpoint(place)
        if seen.published is not None:
            is_newest = report.version == seen.published
            evidence.append(saw(is_newest, f"Spark's newest version is {report.version}."))
        result = SeedResult(
            version=seen.published,
            from_version=None if seen.published is None else seen.published - 1,
            query_id=report.query_id,
            last_committed=report.last_committed,
            last_planned=report.last_planned,
            offsets=tuple(s.offset_json for s in report.sources),
        )
        return ProbeOutcome("done", evidence, result)
    return ProbeOutcome("unclear" if seen.unclear else "not_done", evidence)
