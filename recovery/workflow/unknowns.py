"""What a person can do about a step whose end no one saw: stop its update and prove, or say what they know."""

import time
from typing import Final

from django.db import transaction
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.names import StepKind
from recovery.contracts.probes import read_evidence
from recovery.contracts.step_notes import Statement, StepInQuestion, StepNotes, StopWish
from recovery.errors import Refused, RepriseError
from recovery.models import Step
from recovery.people.roles import Actor
from recovery.pipelines.workspaces import client_for
from recovery.workflow import broker, engine
from recovery.workflow.flow_snapshot import find_active_update
from recovery.workflow.journal import trying
from recovery.workflow.moves import get, lock, only_in
from recovery.workflow.probe_questions import started_update
from recovery.workflow.starting import stuck

STOP_SECONDS: Final = 60.0
LONGEST: Final = 2000


def stop_and_prove(*, recovery_id: int, by: Actor) -> Step:
    """Have a worker stop the update of an unknown step, wait until none is active, and read again what it did.

    Safe to ask for twice. Raises Denied; Refused where no step is unknown, or no update of it is known; Unreachable.
    """
    from recovery.workflow import tasks

    recovery = get(recovery_id)
    with trying("step.stop", recovery, by) as attempted:
        broker.check()
        step = _hold_unknown(recovery_id)
        update = find_unknown_update(step)
        if not update:
            raise Refused(
                "It is not known which run this step started, so none is stopped: it could be someone else's.",
                code="no_update",
            )
        run = recovery.flow.pipeline.workspace.run_noun
        _note_on(step, StepNotes(stopping=StopWish(by=by.name, at=timezone.now().isoformat())))
        broker.send_on_commit(tasks.stop_and_prove, step.pk, step.fence)
        attempted.done(f"Stop of {run} {update} asked for, then proof of what step {step.kind} did.")
    return step


def say_known(*, recovery_id: int, says: str, by: Actor) -> Step:
    """Record what somebody knows of an unknown step: a statement with their name, beside the evidence.

    It proves and moves nothing; it lets a person resume where the probe has not answered.
    Raises Denied; Refused without words, and where no step is unknown.
    """
    recovery = get(recovery_id)
    text = " ".join(says.split())[:LONGEST]
    with trying("step.statement", recovery, by, reason=text) as attempted:
        step = _hold_unknown(recovery_id)
        if not text:
            raise Refused("Write what you saw, and where: others review it later.", code="no_reason")
        statement = Statement(by=by.name, at=timezone.now().isoformat(), says=text)
        _note_on(step, StepNotes(statements=(*step.notes.statements, statement)))
        attempted.done(
            f"Of step {step.kind}, a statement and no proof: {text}", after=codec.to_json(statement)
        )
    step.refresh_from_db()
    return step


def _note_on(step: Step, notes: StepNotes) -> None:
    Step.objects.filter(pk=step.pk).update(result=notes.lay_over(step.result))


def find_unknown_update(step: Step) -> str:
    """The update that an unknown step has started; "" where none is known."""
    return started_update(step) if step.state == "unknown" else ""


def find_stop_wish(step: Step) -> StopWish | None:
    """Who asked for the stop of an unknown step's update, and when, while it is not known what came of it."""
    return step.notes.stopping if step.state == "unknown" else None


def carry_out(step_id: int, fence: int) -> None:
    """A worker's part of `stop_and_prove`. What cannot be stopped or read is what the probe then says."""
    try:
        _stop_and_read(step_id, fence)
    finally:
        with transaction.atomic():
            held = Step.objects.select_for_update().get(pk=step_id)
            held.result.pop("stopping", None)
            Step.objects.filter(pk=step_id).update(result=held.result)


def _stop_and_read(step_id: int, fence: int) -> None:
    step = Step.objects.select_related("recovery__flow__pipeline__workspace").get(pk=step_id)
    if step.state != "unknown" or step.fence != fence:
        return
    pipeline = step.recovery.flow.pipeline
    try:
        client = client_for(pipeline.workspace)
        active = find_active_update(client.get_pipeline(pipeline.pipeline_id))
        if active == find_unknown_update(step):
            client.stop(pipeline.pipeline_id)
        until = time.monotonic() + STOP_SECONDS
        while active == find_unknown_update(step) and time.monotonic() < until:
            time.sleep(0.5)
            active = find_active_update(client.get_pipeline(pipeline.pipeline_id))
    except RepriseError:
        pass  # the probe asks the same API, and says so
    engine.probe_step(step_id, fence)


def _hold_unknown(recovery_id: int) -> Step:
    """The unknown step of a recovery, locked, so that what its probe finds meanwhile is kept. The step is locked before
    its recovery, as when a step ends."""
    recovery = get(recovery_id)
    only_in(recovery, "needs_attention")
    step = Step.objects.select_for_update().get(pk=stuck(recovery).pk)
    only_in(lock(recovery_id), "needs_attention")
    if step.state != "unknown":
        raise Refused(f"Step {step.kind} is {step.state}, not unknown.", code="not_unknown")
    return step


def describe_step(step: Step) -> StepInQuestion:
    """Probe, evidence and statements of a step, for programs."""
    return StepInQuestion(
        step=StepKind(step.kind),
        state=step.state,
        evidence=read_evidence(step.evidence),
        probe=step.notes.probe,
        statements=step.notes.statements,
    )
