"""rerun: start one update, limited to this flow's table; when it has ended, read back how."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from django.utils import timezone

from recovery.checkpoints import inspect_checkpoint
from recovery.contracts import codec
from recovery.contracts.names import StepKind
from recovery.contracts.plan import PlanBody
from recovery.contracts.results import InputMark, UpdateResult
from recovery.contracts.step_notes import StepNotes
from recovery.contracts.steps import UpdateArgs
from recovery.errors import Interrupted, OutcomeUnknown, Refused, RepriseError
from recovery.models import Flow, Plan, Step
from recovery.pipelines.client import ActiveUpdate, PipelinesClient
from recovery.pipelines.events import ENDED, failure_of, was_cut
from recovery.pipelines.workspaces import client_for
from recovery.workflow import backups, joining, reviewed, strangers
from recovery.workflow.evidence import read_inputs, remade
from recovery.workflow.flow_snapshot import read_flow_snapshot
from recovery.workflow.own_updates import StartedUpdates, find_own, note_request
from recovery.workflow.places import checkpoint_of
from recovery.workflow.readers import Readers
from recovery.workflow.steps.base import Context, ProbeOutcome, StepWait, saw
from recovery.workflow.watches import read_watch

SECONDS = 6 * 3600


def run(context: Context) -> StepWait | UpdateResult:
    """Start at most one update, whatever happened before: what proves whose an update is, is kept before the start.

    Of plans that run together the first one starts it, for all of them; the others take it over once it has ended.
    """
    joint = joining.joint_of_plan(context.step.plan)
    if joint is None:
        return begin(context, _start)
    if (lead := joining.lead_of(joint)).pk != context.plan.pk:
        return _take_over(context, lead)
    if missing := joining.missing_before_update(joint):
        left = ", ".join(f"{step.kind} of {step.recovery.label}" for step in missing)
        raise Refused(f"Not done yet: {left}. Nothing was started.", code="before_update")
    return begin(context, _start)


def _take_over(context: Context, lead: Plan) -> UpdateResult:
    """The update of plans that run together, which the first one has started and read back."""
    step = lead.steps.filter(kind="rerun").last()
    noted = (
        codec.read(UpdateResult, step.result) if step is not None and step.state == "done" else UpdateResult()
    )
    if not noted.update_id:
        raise Refused(
            "The update that these plans share has not ended. Nothing was started.", code="before_update"
        )
    own = noted.listed_together.get(context.recovery.label)
    if own is None:
        raise Refused(
            "It was not noted what this flow's inputs held before the update, so its proof would have a gap. Roll "
            "back.",
            code="not_noted",
        )
    context.log(
        f"{context.run_noun.capitalize()} {noted.update_id} was started for this flow too; it is COMPLETED."
    )
    return codec.change(noted, listed=own, listed_together={})


def begin(context: Context, start: Callable[[Context], str]) -> StepWait:
    """Wait for the update of this step; `start` starts one where none was started."""
    if not (codec.read(UpdateResult, context.step.result).update_id or _started_before(context)):
        start(context)
    return StepWait()


def find_end(context: Context) -> str | None:
    """How the update of this step has ended; None while it runs."""
    return find_end_of(context, str(codec.read(UpdateResult, context.step.result).update_id))


def go_on(context: Context, ended: str) -> UpdateResult:
    """Read back. Raises Refused where the update did not complete."""
    update_id = str(codec.read(UpdateResult, context.step.result).update_id)
    if ended != "COMPLETED":
        cut = ended == "FAILED" and is_cut(context.client, context.pipeline_id, update_id)
        context.watch.keep(UpdateResult(update_id=None, ended=update_id))
        raise (Interrupted if cut else Refused)(_why(context, update_id, ended))
    context.log(f"{context.run_noun.capitalize()} {update_id} is COMPLETED. COMPLETED is not yet proof.")
    return UpdateResult(update_id=update_id, state=ended)


def _start(context: Context) -> str:
    contents = context.contents
    body = _selection(_asked(context))
    strangers.refuse_foreign_batches(context)
    if any(step.kind is StepKind.FILL for step in contents.steps):
        before = codec.read(UpdateResult, context.step.result)
        backups.refuse_moved_table(context.plan, may_have_run=before.may_have_run)
    together, there = {}, _list_inputs(context.flow, contents)
    if (joint := joining.joint_of_plan(context.step.plan)) is not None:
        body = _selection(joining.read_update(context.step))
        others = [plan for plan in joining.plans_of(joint) if plan.pk != context.plan.pk]
        together = {p.recovery.label: _list_inputs(p.recovery.flow, p.contents) for p in others}
    # last of all, and again at each attempt: who mended a cause may have mended it in the code
    reviewed.require_workspace_unchanged(
        contents, context.client, context.pipeline_id, so="Nothing was started."
    )
    return start(context, body, listed=there, together=together)


def _list_inputs(flow: Flow, contents: PlanBody) -> dict[str, InputMark]:
    """What is there now, which this update must read; what comes later it may read or not. Raises Refused."""
    readers = Readers(lambda: read_flow_snapshot(flow, known=contents.table_places))
    if changed := remade(contents, readers):
        raise Refused(
            f"Since the plan was sealed, {', '.join(changed)} was deleted or recreated, so its records are not "
            "those that the plan was made on. Nothing was started. Roll back, then make a new plan."
        )
    return read_inputs(contents, readers)


def _asked(context: Context) -> UpdateArgs:
    """Its arguments; without the reset where an update of an earlier attempt has made it: a further one would
    write once more what that update has written."""
    args, planned = codec.read(UpdateArgs, context.step.args), context.contents.preconditions.checkpoint
    if not args.reset or not codec.read(UpdateResult, context.step.result).updates:
        return args
    version = inspect_checkpoint(checkpoint_of(context.flow)).version
    if version is None or planned.version is None or version <= planned.version:
        return args
    context.log(f"An earlier attempt has made the empty version {version}; this update goes on with it.")
    return args.model_copy(update={"reset": ()})


def start(
    context: Context,
    body: Mapping[str, Any],
    *,
    listed: Mapping[str, InputMark] | None = None,
    together: Mapping[str, Mapping[str, InputMark]] | None = None,
) -> str:
    """Start the one update of this step. What is needed to find it again is kept before, with `listed`, what the inputs
    hold, where that matters, and `together`, those of other plans."""
    before = newest(context.client, context.pipeline_id)
    asked = note_request(body, timezone.now())
    noted = UpdateResult(newest_before=before, asked=asked, unnoted=True, unclear=())
    if listed is not None:
        noted = noted.model_copy(update={"listed": listed})
    if together:
        noted = noted.model_copy(update={"listed_together": together})
    context.watch.keep(noted)
    context.watch.guard()
    try:
        update_id = context.client.start_update(context.pipeline_id, **body)
    except OutcomeUnknown:
        raise
    except ActiveUpdate as other:
        context.watch.keep(UpdateResult(unnoted=False))
        raise Refused(
            f"{context.run_noun.capitalize()} {other.update_id} is already active, started by someone else. "
            "Stop it, then resume this step."
        ) from other
    except RepriseError:
        context.watch.keep(UpdateResult(unnoted=False))  # it is known that none was started
        raise
    _note(context, update_id)
    request = context.client.asks_of_people(context.pipeline_id, update_id)
    accepted = f"{context.run_noun.capitalize()} {update_id} accepted. Accepted is not yet success."
    context.log(request or accepted)  # what a person is asked to start was accepted by no one yet
    return update_id


def _note(context: Context, update_id: str) -> None:
    """This step's update now; those of attempts that failed stay in `updates`: their batches are the rerun's too."""
    context.watch.keep(codec.read(UpdateResult, context.step.result).note_update(update_id))


def _selection(args: UpdateArgs) -> dict[str, list[str]]:
    emptied = {"full_refresh_selection": list(args.full_refresh)} if args.full_refresh else {}
    reset = {"reset_checkpoint_selection": list(args.reset)} if args.reset else {}
    return selected(args.refresh) | emptied | reset


def selected(tables: Sequence[str]) -> dict[str, list[str]]:
    """What a start request says of the tables to update; nothing, where the whole pipeline shall run."""
    return {"refresh_selection": list(tables)} if tables else {}


def _started_before(context: Context) -> str | None:
    """The update that an earlier attempt of this step started but could not note down. Raises OutcomeUnknown where it
    is neither proven nor ruled out that one of those that appeared is it."""
    result = codec.read(UpdateResult, context.step.result)
    if not result.has_unnoted_start:
        return None
    found = find_own(context.client, context.pipeline_id, result)
    if found.own:
        _note(context, found.own)
        context.log(
            f"{context.run_noun.capitalize()} {found.own} was started by this step before; watching it."
        )
        return found.own
    if not found.proven and not _settled_by_a_person(result, found):
        raise OutcomeUnknown(_unclear(found, context.run_noun), code="whose_update")
    return None


def _settled_by_a_person(result: UpdateResult, found: StartedUpdates) -> bool:
    """Whether all that is unclear was shown as such before somebody let the step begin again: it is not waited for."""
    return bool(result.unclear) and set(found.unclear) <= set(result.unclear)


def _unclear(found: StartedUpdates, run_noun: str) -> str:
    """Why it is not known whether the step has started an update."""
    if not found.unclear:
        return f"There are more {run_noun}s since then than can be looked through."
    names = ", ".join(found.unclear)
    return f"Whether this step or someone else started {run_noun} {names} is neither proven nor ruled out."


def newest(client: PipelinesClient, pipeline_id: str) -> str | None:
    """Id of the newest update, None when there never was one."""
    updates = client.list_updates(pipeline_id, limit=1)
    return updates[0]["update_id"] if updates else None


def find_end_of(context: Context, update_id: str) -> str | None:
    """Ask the update (never the pipeline's state) how it ended; None while it runs. Say each change.

    When somebody stops the run meanwhile, the update is stopped here, and looked at until it has ended.
    """
    seen = read_watch(context.step)
    state = str(context.client.get_update(context.pipeline_id, update_id).get("state", ""))
    if state != seen.state:
        context.log(f"{context.run_noun.capitalize()} {update_id[:8]} {say_state(state)}.")
        seen = codec.change(seen, state=state)
        context.watch.keep(StepNotes(watched=seen))
    if state in ENDED:
        return state
    context.watch.guard()
    if not seen.stop_asked and (who := context.held_by):
        context.client.stop(context.pipeline_id)
        context.watch.keep(StepNotes(watched=codec.change(seen, stop_asked=True)))
        context.log(
            f"{who} stops the recovery: stop of {context.run_noun} {update_id[:8]} accepted. "
            "Accepted is not yet stopped."
        )
    return None


def say_state(state: str) -> str:
    """What is said of an update in this state: of a plain stream no resources are known, so none are spoken of."""
    return "has not begun yet" if state == "WAITING_FOR_RESOURCES" else f"is {state}"


def is_cut(client: PipelinesClient, pipeline_id: str, update_id: str) -> bool:
    """Did an update fail because what it ran on ended?"""
    return was_cut(client.events(pipeline_id, filter=f"update_id = '{update_id}'"))


def _why(context: Context, update_id: str, state: str) -> str:
    run = f"{context.run_noun.capitalize()} {update_id}"
    if state == "CANCELED":
        who = context.held_by or "someone"
        return f"{run} was stopped by {who} before it ended. Resume to start it again."
    events = list(context.client.events(context.pipeline_id, filter=f"update_id = '{update_id}'"))
    joint = joining.joint_of_plan(context.step.plan)
    flows = [context.flow.name] if joint is None else [one.flow for one in joint.contents.plans]
    causes = next((found for name in flows if (found := failure_of(events, name))), None)
    first = causes[-1].message.splitlines()[0][:300] if causes else "no cause is in its events"
    return f"{run} FAILED: {first}"


def probe(step: Step) -> ProbeOutcome:
    """An update of ours that runs or has ended is watched on; none started is proven by the list of updates."""
    flow = step.recovery.flow
    client = client_for(flow.pipeline.workspace)
    noted = codec.read(UpdateResult, step.result)
    update_id = noted.update_id
    if noted.has_unnoted_start:
        found = find_own(client, flow.pipeline.pipeline_id, noted)
        if not found.proven:
            unclear = UpdateResult(unclear=tuple(found.unclear) or ("more",))
            return ProbeOutcome(
                "unclear", [saw(None, _unclear(found, flow.pipeline.workspace.run_noun))], unclear
            )
        update_id = found.own or None
    # what a reset or a full refresh may have thrown away is a person's to judge
    harmless: Literal["not_done", "repeat"] = "not_done" if joining.read_update(step).is_reset else "repeat"
    if update_id is None:
        return ProbeOutcome(
            harmless, [saw(True, f"No {flow.pipeline.workspace.run_noun} was started by this step.")]
        )
    state = client.get_update(flow.pipeline.pipeline_id, update_id).get("state")
    run, of_update = (
        f"{flow.pipeline.workspace.run_noun.capitalize()} {update_id}",
        noted.note_update(update_id),
    )
    if state == "COMPLETED":
        return ProbeOutcome("done", [saw(True, f"{run} is COMPLETED.")], codec.change(of_update, state=state))
    if state in ENDED:
        cut = state == "FAILED" and is_cut(client, flow.pipeline.pipeline_id, update_id)
        return ProbeOutcome(
            harmless if cut else "not_done",
            [saw(True, f"{run} is {state}. Resuming starts a new one.")],
            codec.change(of_update, update_id=None, ended=update_id),
            cut=cut,
        )
    return ProbeOutcome(
        "again",
        [saw(True, f"{run} {say_state(str(state))}. It is watched on, not started again.")],
        of_update,
    )
