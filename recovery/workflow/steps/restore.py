"""restore: put the flow's table back to what it held after an earlier batch, before the checkpoint goes back too.

A file table gets its log of then (`checkpoints.earlierlog`: prepared beside, two renames). A Delta table gets a commit
that Spark makes (RESTORE), and that names its version: whether it was made is read from the table's log, before it is
asked for and after. In this order a crash between this step and the next is loud: an update would fail on the table, or
leave a gap; with the checkpoint first, a file table would pass the new batches over in silence.
"""

from typing import Any

from recovery.checkpoints import earlierlog
from recovery.checkpoints.earlierlog import LogState
from recovery.contracts import codec
from recovery.contracts.plan import PlanBody
from recovery.contracts.results import RestoreResult
from recovery.contracts.steps import RestoreArgs
from recovery.errors import OutcomeUnknown, Refused, Unreachable
from recovery.models import Step
from recovery.sinks.live import earlier
from recovery.sinks.live import reading as sinks
from recovery.strategies.common import plural
from recovery.verification.evidence import data_files
from recovery.workflow import backups, noted_files, whole
from recovery.workflow.flow_snapshot import FlowSnapshot, read_flow_snapshot
from recovery.workflow.steps.base import Context, ProbeOutcome, saw

SECONDS = 1800


def run(context: Context) -> RestoreResult:
    """Put it back, unless an attempt before has; read back. Raises Refused where the table has moved since the seal."""
    args, contents = codec.read(RestoreArgs, context.step.args), context.contents
    if args.kind == "delta":
        _restore_delta(context, args)
    else:
        _restore_files(context, args)
    snapshot = read_flow_snapshot(context.flow, known=contents.table_places)
    result = _read_back(context.step, snapshot, args)
    version = "" if result.sink_version is None else f", as version {result.sink_version}"
    context.log(
        f"Read back: the table holds batch {args.batch} as its newest one{version}. "
        f"{plural(result.removed_files, 'data file')} left it."
    )
    return result


def _restore_files(context: Context, args: RestoreArgs) -> None:
    place, label = context.contents.table_place, context.recovery.label
    state = earlierlog.find_state(place, recovery=label)
    if state is LogState.IN_PLACE:
        context.log("The table's log of then is in place already.")
        return
    if state is not LogState.HALF:
        _require_as_sealed(context)
    plan = (
        _plan_of_half(place, args)
        if state is LogState.HALF
        else earlierlog.plan_earlier_log(place, args.batch)
    )
    context.watch.guard()
    earlierlog.put_back(plan, recovery=label, guard=context.watch.guard)
    context.log(
        f"Two renames: the log that named {plural(args.removed_files, 'further data file')} is whole in "
        f".reprise-{label}-log-before; the files themselves stay where they are."
    )


def _plan_of_half(place: str, args: RestoreArgs) -> earlierlog.EarlierLog:
    """Enough of the plan to complete a swap that died between its renames: the log of then is prepared."""
    return earlierlog.EarlierLog(place, args.batch, args.batch, (), (), (), "")


def _require_as_sealed(context: Context) -> None:
    contents = context.contents
    now = sinks.read_table(contents.table_place, query_id=_query_id(context.flow, contents)).fingerprint
    if now != contents.preconditions.sink.fingerprint:
        raise Refused(
            "The table has changed since the plan was sealed. It was left alone. Seal a new plan.",
            code="stale",
        )


def _query_id(flow: Any, contents: PlanBody) -> str | None:
    return read_flow_snapshot(flow, known=contents.table_places).checkpoint.query_id


def _restore_delta(context: Context, args: RestoreArgs) -> None:
    contents = context.contents
    version, after = args.version, args.sealed_version
    assert version is not None, "a Delta table has versions"
    assert after is not None, "a Delta table has versions"
    if (made := earlier.put_back_to(contents.table_place, version=version, after=after)) is not None:
        context.log(f"Version {made} of the table is the RESTORE already.")
        return
    _require_as_sealed(context)
    context.watch.guard()
    try:
        backups.ask_restore(context.flow, contents, version)
    except Unreachable as silence:
        if earlier.put_back_to(contents.table_place, version=version, after=after) is None:
            raise OutcomeUnknown(
                f"Whether the table was put back is not known: {silence.sentence}"
            ) from silence
    context.log(f"Spark put the table back to version {version}, in a commit of its own.")


def _read_back(step: Step, snapshot: FlowSnapshot, args: RestoreArgs) -> RestoreResult:
    """Raises OutcomeUnknown where the table is not as it was to be put back."""
    contents = step.plan.contents if step.plan else None
    assert contents is not None, "only a plan restores"
    if args.kind == "delta":
        assert args.version is not None and args.sealed_version is not None, "a Delta table has versions"  # noqa: PT018
        made = earlier.put_back_to(contents.table_place, version=args.version, after=args.sealed_version)
        if made is None:
            raise OutcomeUnknown("The table's log has no commit of the RESTORE.", code="not_restored")
        files: tuple[str, ...] = ()
    else:
        made, files = None, data_files(snapshot.sink)
        if snapshot.sink.head != args.batch or snapshot.sink.findings:
            raise OutcomeUnknown(
                f"The table's log reads back with batch {snapshot.sink.head}, planned was {args.batch}.",
                code="not_restored",
            )
    return RestoreResult(
        batch=args.batch,
        removed_files=args.removed_files,
        sink_version=made,
        noted_files=noted_files.keep(step, files, whole.mark_files(snapshot), place=snapshot.table_place),
    )


def undo_refusal(step: Step, *, label: str) -> str | None:
    """Why the table can no longer be put back to what it held before; None when it can, or is. Reads only."""
    args, contents = codec.read(RestoreArgs, step.args), _contents(step)
    if args.kind == "files":
        return earlierlog.undo_refusal(contents.table_place, recovery=label)
    made, sealed = _made(step), args.sealed_version
    if made is None or sealed is None:
        return None
    try:
        earlier.put_back_to(contents.table_place, version=sealed, after=made)
    except Refused:
        return f"The table was written after version {made}; putting it back would lose or double rows."
    return None


def has_changed(step: Step) -> bool:
    """Whether the table was put back, or is half put back, whatever is known of the step. Reads only."""
    args = codec.read(RestoreArgs, step.args)
    if args.kind == "delta":
        return _made(step) is not None
    state = earlierlog.find_state(_contents(step).table_place, recovery=step.recovery.label)
    return state in (LogState.HALF, LogState.IN_PLACE, LogState.UNDONE)


def _made(step: Step) -> int | None:
    """The version that the RESTORE has made; None: it has made none, or something else was written in its place."""
    args, made = codec.read(RestoreArgs, step.args), step.result.get("sink_version")
    if isinstance(made, int):
        return made
    assert args.version is not None and args.sealed_version is not None, "a Delta table has versions"  # noqa: PT018
    try:
        return earlier.put_back_to(
            _contents(step).table_place, version=args.version, after=args.sealed_version
        )
    except Refused:
        return None


def undo(context: Context, step: Step) -> None:
    """Put the table back to what it held before this recovery; nothing where it is."""
    args, contents = codec.read(RestoreArgs, step.args), _contents(step)
    context.watch.guard()
    if args.kind == "files":
        earlierlog.undo_put_back(
            contents.table_place, recovery=context.recovery.label, guard=context.watch.guard
        )
        context.log("The table's earlier log is in use again.")
        return
    made, version = _made(step), args.sealed_version
    assert made is not None and version is not None, "only a table that was put back is undone"  # noqa: PT018
    if earlier.put_back_to(contents.table_place, version=version, after=made) is None:
        backups.ask_restore(context.flow, contents, version)
        if earlier.put_back_to(contents.table_place, version=version, after=made) is None:
            raise OutcomeUnknown(
                "The table's log has no commit that puts it back to what it held before.", code="not_restored"
            )
    context.log(f"The table holds what version {version} held.")


def _contents(step: Step) -> PlanBody:
    assert step.plan is not None, "only a plan restores"
    return step.plan.contents


def probe(step: Step) -> ProbeOutcome:
    """Decided from the table's log alone."""
    args, contents = codec.read(RestoreArgs, step.args), _contents(step)
    label = step.recovery.label
    if args.kind == "files":
        state = earlierlog.find_state(contents.table_place, recovery=label)
        done, says = state is LogState.IN_PLACE, f"The log of then is {state.value.replace('-', ' ')}."
    else:
        assert args.version is not None and args.sealed_version is not None, "a Delta table has versions"  # noqa: PT018
        try:
            made = earlier.put_back_to(contents.table_place, version=args.version, after=args.sealed_version)
        except Refused as refusal:
            return ProbeOutcome("unclear", [saw(False, refusal.sentence)])
        done = made is not None
        says = (
            f"Version {made} is the RESTORE." if done else f"Version {args.sealed_version} is the newest one."
        )
    evidence = [saw(True, says)]
    if not done:
        return ProbeOutcome("not_done", evidence)
    snapshot = read_flow_snapshot(step.recovery.flow, known=contents.table_places)
    return ProbeOutcome("done", evidence, _read_back(step, snapshot, args))
