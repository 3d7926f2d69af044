"""stop: nothing of the pipeline runs, and nothing starts it again: no job, no continuous mode, no retry.

Under a plan it proves that this still is so, and that nothing has moved since the seal.
"""

from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.results import NotedFiles, StandstillResult, StoppedResult
from recovery.errors import NotFound, Refused
from recovery.models import Step
from recovery.pipelines import standstill, starters
from recovery.pipelines.events import when
from recovery.pipelines.starters import active_runs
from recovery.pipelines.workspaces import client_for
from recovery.plans.drift import compare
from recovery.plans.values import Drift
from recovery.verification.evidence import data_files
from recovery.workflow import holds, noted_files, topics, whole
from recovery.workflow.flow_snapshot import (
    FlowSnapshot,
    find_active_update,
    other_fingerprints,
    read_flow_snapshot,
)
from recovery.workflow.jobs_below import jobs_of_stop
from recovery.workflow.steps.base import Context, PlanVoid, ProbeOutcome, StepWait, saw

SECONDS = 120


def run(context: Context) -> StandstillResult | StepWait:
    """The early stop asks the API to stop; a plan's stop only proves that it still is stopped."""
    if context.step.plan is None:
        return _stop(context)
    contents = context.contents
    if not contents.is_runnable:
        raise PlanVoid([Drift("plan", "", "", "It was sealed by a release that did not note what it reads.")])
    snapshot = read_flow_snapshot(context.flow, known=contents.table_places)
    if drift := compare(contents.preconditions, snapshot.preconditions()):
        raise PlanVoid(drift)
    holds.prove(context.recovery, context.client)
    proof = context.client.prove_standstill(context.pipeline_id)
    context.log(
        f"Still stopped: {standstill.WORDS[proof]}. "
        f"Checkpoint, code and table are as sealed in {context.plan.hash[:8]}."
    )
    return StandstillResult(
        proved=("checkpoint", "code", "sink", "active_update"),
        others=other_fingerprints(snapshot),
        newest_update=snapshot.last_update,
        noted_files=_noted(context.step, snapshot),
        sink_version=snapshot.sink.version,
        topic=topics.note_ends(snapshot),
    )


def _noted(step: Step, snapshot: FlowSnapshot) -> NotedFiles:
    """The table's data files as they are now; a table that counts its commits tells them by its log."""
    files = data_files(snapshot.sink) if snapshot.sink.version is None else ()
    return noted_files.keep(step, files, whole.mark_files(snapshot), place=snapshot.table_place)


def _stop(context: Context) -> StepWait:
    """What starts it first: a job that fires, or a retry, after the update was stopped would be the next update."""
    begun = timezone.now()
    known = holds.pause(context.recovery, context.client, guard=context.watch.guard, log=context.log)
    context.watch.keep(
        StoppedResult(
            begun=begun.isoformat(),
            jobs=tuple(starter.says for starter in known.starters),
            jobs_unknown=known.why,
            jobs_below=jobs_of_stop(context.recovery.flow, known),
            stopped=None,
        )
    )
    return StepWait()


def find_end(context: Context) -> str | None:
    """Is the pipeline quiet: no update and no run of a job is active? Each update is asked to stop once.

    Raises Refused when the time is over.
    """
    stopped, active = codec.read(StoppedResult, context.step.result).stopped, _active(context)
    if active is not None and active != stopped:
        context.watch.guard()
        context.client.stop(context.pipeline_id)
        context.watch.keep(StoppedResult(stopped=active))
        context.log(
            context.client.asks_to_stop(context.pipeline_id)
            or f"Stop of {context.run_noun} {active} accepted. Accepted is not yet stopped."
        )
    starting = starters.known(context.client, context.pipeline_id).starters
    left = [f"{context.run_noun.capitalize()} {active}"] if active else active_runs(context.client, starting)
    if not left:
        return "quiet"
    context.watch.guard()
    if _seconds(context) > SECONDS - 10:
        raise Refused(
            f"Still active {SECONDS - 10} s after the stop began: {', '.join(left)}. Stop it where it runs, then stop "
            "again here.",
            code="still_active",
        )
    return None


def go_on(context: Context, ended: str) -> StoppedResult:
    """Read back how the update that was stopped last has ended."""
    stopped = codec.read(StoppedResult, context.step.result).stopped
    if stopped is None:
        proof = context.client.prove_standstill(context.pipeline_id)
        context.log(f"Nothing had to be stopped: {standstill.WORDS[proof]}.")
        return StoppedResult(was="idle", seconds=0.0, proof=proof.value)
    run, seconds = context.run_noun, round(_seconds(context), 1)
    try:
        update = context.client.get_update(context.pipeline_id, stopped)
    except NotFound:  # of a stream that no event log tells of, what runs is an update only while it runs
        proof = context.client.prove_standstill(context.pipeline_id)
        context.log(f"Read back: {standstill.WORDS[proof]}. {seconds} s.")
        return StoppedResult(was="running", update_id=stopped, seconds=seconds, proof=proof.value)
    context.log(f"Read back: {run} {stopped} is {update.get('state')}, no {run} is active. {seconds} s.")
    return StoppedResult(was="running", update_id=stopped, ended=update.get("state"), seconds=seconds)


def _seconds(context: Context) -> float:
    begun = when(codec.read(StoppedResult, context.step.result).begun)
    assert begun is not None, "written by this step, in ISO form"
    return (timezone.now() - begun).total_seconds()


def _active(context: Context) -> str | None:
    return find_active_update(context.client.get_pipeline(context.pipeline_id))


def probe(step: Step) -> ProbeOutcome:
    """Stopping twice does no harm; proven done when nothing is active and nothing that starts it is awake."""
    flow = step.recovery.flow
    if step.plan is not None:
        return ProbeOutcome("again", [saw(True, "This step only reads: running it again changes nothing.")])
    client = client_for(flow.pipeline.workspace)
    active = find_active_update(client.get_pipeline(flow.pipeline.pipeline_id))
    awake = starters.known(client, flow.pipeline.pipeline_id).awake
    seen = [
        saw(True, f"No {flow.pipeline.workspace.run_noun} is active.")
        if active is None
        else saw(True, f"{flow.pipeline.workspace.run_noun.capitalize()} {active} is still active."),
        *(saw(True, f"It can be started at any time by {starter.says}.") for starter in awake),
    ]
    return ProbeOutcome("repeat" if active or awake else "done", seen, StoppedResult(was="unknown"))
