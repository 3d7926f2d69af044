"""Runs one attempt of one step, and decides what comes after it. Called by tasks only."""

import logging
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from recovery import reach
from recovery.approvals.selectors import glass_over
from recovery.audit.actions import append_entry
from recovery.contracts import codec
from recovery.contracts.measured import Measured
from recovery.contracts.results import StepResult, VerifyResult
from recovery.contracts.step_notes import StepNotes
from recovery.errors import InputMissing, Interrupted, OutcomeUnknown, RepriseError, Unreachable
from recovery.models import Plan, Recovery, Step
from recovery.people.roles import SYSTEM
from recovery.pipelines.errors import is_passing
from recovery.pipelines.events import when
from recovery.pipelines.tasks import look_at_flow, poll_workspace
from recovery.verification.words import headline
from recovery.workflow import broker, joining, probing, repeating, watches
from recovery.workflow.beat import FenceLost, Watch
from recovery.workflow.journal import note
from recovery.workflow.moves import claim, halt_of, move, step_to
from recovery.workflow.steps import (
    backup,
    deduplicate,
    fill,
    patch,
    refresh,
    rerun,
    restore,
    rollback,
    seed,
    stop,
    table_backup,
    verify,
)
from recovery.workflow.steps.base import (
    Context,
    PlanVoid,
    ProbeOutcome,
    StepModule,
    StepWait,
    WaitingStepModule,
    saw,
)

log = logging.getLogger(__name__)

KINDS: Mapping[str, StepModule] = {
    "stop": stop,
    "backup": backup,
    "table-backup": table_backup,
    "patch": patch,
    "restore": restore,
    "seed": seed,
    "rerun": rerun,
    "fill": fill,
    "deduplicate": deduplicate,
    "refresh": refresh,
    "verify": verify,
    "rollback": rollback,
}
WAITING_KINDS: Mapping[str, WaitingStepModule] = {
    "stop": stop,
    "rerun": rerun,
    "refresh": refresh,
    "verify": verify,
}
"""Those that may wait for an update."""
KEPT: Final = frozenset(
    {
        "sink_files",
        "sink_marks",
        "others",
        "measured",
        "watched",
        "before_further",
        "listed",
        "listed_together",
    }
)
"""What of a step's result its audit entry does not repeat."""
LOOK_SECONDS: Final = 10.0
"""How long one answer may take of what a step waits for."""


def run_step(step_id: int, fence: int) -> None:
    """Claim the step, act under a heartbeat, record how it ended.

    Three ends: done or failed (seen), unknown (not seen, or a bug of ours in the middle of an act).
    """
    kind = KINDS[Step.objects.values_list("kind", flat=True).get(pk=step_id)]
    worker = f"{socket.gethostname()}:{os.getpid()}"
    deadline = timezone.now() + timedelta(seconds=kind.SECONDS)
    with transaction.atomic():
        if _halted(step_id, fence):
            return
        step = claim(step_id, fence, worker=worker, deadline=deadline)
        if step is None:
            return
        if step.kind == "verify" and step.recovery.state == "running":
            move(step.recovery, "verifying")
        _audit(step, "step.begin", "done", f"Attempt {step.attempt} of step {step.kind} began.")
    _attempt(step, kind.run)


def go_on_with_step(step_id: int, fence: int) -> None:
    """What the step waited for has ended: read back, and record how the step ended."""
    kind = WAITING_KINDS[Step.objects.values_list("kind", flat=True).get(pk=step_id)]
    worker = f"{socket.gethostname()}:{os.getpid()}"
    deadline = timezone.now() + timedelta(seconds=kind.SECONDS)
    step = watches.take(step_id, fence, worker=worker, deadline=deadline)
    if step is not None:
        ended = watches.read_watch(step).ended
        _attempt(step, lambda context: kind.go_on(context, ended))


def _attempt(step: Step, act: Callable[[Context], StepResult | StepWait]) -> None:
    watch = Watch(step)
    try:
        with watch, reach.reading(step.recovery.flow.pipeline.workspace):
            result = act(Context(step, watch))
            if isinstance(result, StepWait):
                watches.begin(step)
    except FenceLost as lost:
        log.warning("step %s: %s", step.pk, lost.sentence)
    except PlanVoid as void:
        void_plan(step, void)
    except OutcomeUnknown as unknown:
        to_unknown(step, unknown.sentence)
    except RepriseError as failure:
        _failed(step, failure, acted=watch.acted)
    except Exception as bug:
        _fault(step, bug)
    else:
        if not isinstance(result, StepWait):
            finish(step, result)


def _fault(step: Step, bug: Exception) -> None:
    log.exception("step %s", step.pk)
    says = f"A fault in Reprise ended the step ({type(bug).__name__}: {bug}). It may or may not have acted."
    to_unknown(step, says)


def look_at_step(step_id: int, fence: int) -> None:
    """One short look at what a step waits for; it goes on when that has ended, else is looked at again."""
    step = watches.lease(step_id, fence)
    if step is None:
        return
    try:
        context = Context(step, Watch(step), timeout=LOOK_SECONDS)
        ended = watches.read_watch(step).ended or WAITING_KINDS[step.kind].find_end(context)
    except FenceLost as lost:
        log.warning("step %s: %s", step.pk, lost.sentence)
    except (Unreachable, OutcomeUnknown) as silence:
        _unanswered(step, silence)
    except RepriseError as failure:
        if is_passing(failure):
            _unanswered(step, failure)
        else:
            _failed(step, failure)
    except Exception as bug:
        _fault(step, bug)
    else:
        watched = codec.change(watches.read_watch(step), silent_since="")
        if ended:
            watches.end(step, watched, ended)
        else:
            watches.rearm(step, watched)


def _unanswered(step: Step, silence: RepriseError) -> None:
    """Not answered is no answer: look again, for so long; then no one knows, and a probe asks on."""
    now, watched = timezone.now(), watches.read_watch(step)
    if not watched.silent_since:
        Watch(step).log(f"{silence.sentence} It is asked again.")
        watched = codec.change(watched, silent_since=now.isoformat())
    if watches.measure_silence(watched, now) > watches.GIVEN_UP:
        noun, since = step.recovery.flow.pipeline.workspace.run_noun, when(watched.silent_since) or now
        to_unknown(
            step,
            f"The {noun} has not answered since {since.astimezone(UTC):%H:%M:%S} UTC: {silence.sentence}",
        )
    else:
        watches.rearm(step, watched)


def _halted(step_id: int, fence: int) -> bool:
    """Somebody stopped or paused the run: the plan's next step is not begun. It waits, pending, for who resumes."""
    waiting = Step.objects.select_related("recovery__flow").filter(pk=step_id, fence=fence, state="pending")
    step = waiting.exclude(plan=None).exclude(kind="rollback").first()
    why = _held_back(step) if step is not None else ""
    if step is None or not why:
        return False
    # else the reaper, or the sweep of a beginning that is due, would wake it again and again
    Step.objects.filter(pk=step.pk).update(woken_at=None, look_at=None)
    if step.recovery.state in ("running", "verifying"):
        says = f"{why} before step {step.kind}. That step and those after it did not begin."
        move(step.recovery, "needs_attention", reason=says)
        note("recovery.halt", step.recovery, says, after={"state": "needs_attention"})
        _rest_together(step)
    return True


def _held_back(step: Step) -> str:
    """Who or what stopped or paused the run; empty when nothing did. What only measures has no time limit."""
    if (halt := halt_of(step.recovery_id)).by:
        return f"{halt.by} {'paused' if halt.when == 'step' else 'stopped'} the run"
    if step.kind != "verify" and (over := glass_over(step.plan)):
        return f"Break-glass ended at {over:%Y-%m-%d %H:%M} UTC,"
    return ""


def finish(step: Step, result: StepResult) -> None:
    """done, and what follows: the next step, or the end of the recovery. One transaction."""
    with transaction.atomic():
        if not step_to(step, "done", result=result.lay_over(step.result), problem="", problem_code=""):
            return
        recovery = Recovery.objects.get(pk=step.recovery_id)
        brief = {name: kept for name, kept in step.result.items() if name not in KEPT}
        _audit(step, "step.run", "done", f"Step {step.kind} is done.", after=brief)
        if step.plan is None:
            return
        if step.kind == "rollback":
            end(recovery, "rolled_back", "Rolled back: what could be undone was undone.")
            if (before := joining.next_rollback(step)) is not None:
                wake(before)
            return
        if step.kind == "verify":
            _conclude(recovery, step)
        if (following := joining.next_step(step)) is not None:
            if step.kind != "verify":
                joining.resume_members(step)
            wake(following)


def _conclude(recovery: Recovery, step: Step) -> None:
    """Only measured proof ends a recovery as succeeded."""
    proof = codec.read(VerifyResult, step.result).measured
    measured = codec.to_read_json(proof) if proof else {}
    if proof and proof.verified:
        says = [
            "Every criterion of the plan holds.",
            *_accepted(proof),
            *map(describe_skip, _skipped_of(step)),
        ]
        end(recovery, "succeeded", " ".join(says), measured=measured)
        return
    failed = proof.unproven if proof else ()
    reason = f"Not proven: {', '.join(failed) or 'no criterion'}."
    move(recovery, "needs_attention", measured=measured, reason=reason)
    says_failed = f"Verification did not hold: {', '.join(failed)}."
    note("recovery.end", recovery, says_failed, outcome="failed", after={"failed": [*failed]})


def _accepted(proof: Measured) -> list[str]:
    """What a proof that holds does not say: rows that are there twice, or lost, as accepted or since before."""
    claimed = headline(proof)
    return [] if claimed.is_plain else [claimed.says]


def _skipped_of(step: Step) -> list[Step]:
    """The steps of the same plan that people skipped; a proof that was skipped has been made good by this one."""
    steps = Step.objects.filter(plan=step.plan, state="skipped").exclude(kind="verify")
    return [s for s in steps if s.notes.skipped is not None]


def describe_skip(step: Step) -> str:
    """`Step verify was skipped by ada: <reason>.`, of a step that a person skipped."""
    noted = step.notes.skipped
    assert noted is not None, "noted when it was skipped"
    return f"Step {step.kind} was skipped by {noted.by}: {noted.reason}{'' if noted.reason[-1:] in '.!?' else '.'}"


def end(recovery: Recovery, state: str, says: str, **values: Any) -> None:
    """Move a recovery into a state that ends it, and say so."""
    before = recovery.state
    move(recovery, state, reason=says, **values)
    note("recovery.end", recovery, says, before={"state": before}, after={"state": state})
    # the flow's page shall not call it failed until the next poll, nor show what waited before
    broker.send_on_commit(poll_workspace, recovery.flow.pipeline.workspace_id)
    broker.send_on_commit(look_at_flow, recovery.flow_id)


def void_plan(step: Step, void: PlanVoid) -> None:
    """The plan is void for good; the recovery goes back to where a new one can be sealed."""
    with transaction.atomic():
        if not step_to(step, "failed", problem=void.sentence, problem_code=void.code):
            return
        drift, now = [d.as_dict() for d in void.drift], timezone.now()
        assert step.plan is not None, "only a step of a plan finds drift"
        Plan.objects.filter(pk=step.plan.pk, voided_at=None).update(voided_at=now, drift=drift)
        step.recovery.steps.filter(plan=step.plan, state="pending").update(state="skipped", ended_at=now)
        move(step.recovery, "diagnosing", reason=void.sentence)
        joining.void_with_others(step.plan, void.sentence)
        _audit(step, "plan.void", "done", void.sentence, after={"drift": drift})


def to_unknown(step: Step, says: str) -> bool:
    """No one saw how the step ended: unknown, and a probe is woken. A person is called now; of a step that may go on by
    itself, once the probe did not prove that it can."""
    with transaction.atomic():
        if not step_to(step, "unknown", problem=says):
            return False
        if not (repeating.is_harmless(step, acted=True) and repeating.may_repeat(step)):
            _call_person(step, f"Step {step.kind} is unknown: {says}")
        _audit(step, "step.unknown", "unknown", f"Step {step.kind} is unknown: {says}")
        from recovery.workflow import tasks

        broker.send_on_commit(tasks.probe_step, step.pk, step.fence)
    return True


def _call_person(step: Step, reason: str) -> None:
    recovery = Recovery.objects.get(pk=step.recovery_id)
    if step.plan is not None and recovery.state in ("running", "verifying"):
        move(recovery, "needs_attention", reason=reason)
        _rest_together(step)


def _rest_together(step: Step) -> None:
    """The step's recovery needs attention: what runs together with it waits too; a proof lets the next one begin."""
    if step.kind != "verify":
        joining.hold_members(step)
    elif (following := joining.next_step(step)) is not None:
        wake(following)


def _failed(step: Step, failure: RepriseError, *, acted: bool = True) -> None:
    """Seen to have failed. It begins again by itself where it was cut off, or where something did not answer."""
    with transaction.atomic():
        if not step_to(step, "failed", problem=failure.sentence, problem_code=failure.code):
            return
        _audit(step, "step.run", "failed", f"Step {step.kind} failed: {failure.sentence}")
        why = _passing(failure)
        if why and repeating.is_harmless(step, acted=acted) and repeating.repeat(step, why):
            return
        _call_person(step, failure.sentence)


def _passing(failure: RepriseError) -> repeating.RepeatReason | None:
    """Why a failure may be over by itself; None where it is not."""
    if isinstance(failure, Interrupted):
        return repeating.RepeatReason.CUT
    if isinstance(failure, InputMissing):
        return None
    silent = isinstance(failure, Unreachable) or is_passing(failure)
    return repeating.RepeatReason.NO_ANSWER if silent else None


def probe_step(step_id: int, fence: int) -> None:
    """Find out what an unknown step did. Reads only; moves the step only where it is proven."""
    step = Step.objects.select_related("recovery__flow__pipeline__workspace", "plan").get(pk=step_id)
    if step.state != "unknown" or step.fence != fence:
        return
    began = timezone.now()
    try:
        with reach.reading(step.recovery.flow.pipeline.workspace):
            seen = KINDS[step.kind].probe(step)
    except RepriseError as failure:
        seen = ProbeOutcome("unclear", [saw(None, f"Could not be found out: {failure.sentence}")])
    moves = seen.outcome in ("done", "again", "repeat")  # by itself: no one has to judge it by more
    probe = StepNotes() if moves else StepNotes(probe=probing.probe_of(step, began, seen.evidence))
    with transaction.atomic():
        held = Step.objects.select_for_update().filter(pk=step_id, fence=fence, state="unknown").first()
        if held is None:
            return
        evidence = [codec.to_json(line) for line in seen.evidence]
        news = held.evidence != evidence
        read = (seen.result or StepResult()).lay_over(held.result)
        Step.objects.filter(pk=step_id).update(evidence=evidence, result=probe.lay_over(read))
        step.refresh_from_db()
        if news:
            _audit(
                step,
                "step.probe",
                "done",
                f"Probe of step {step.kind}: {seen.outcome.replace('_', ' ')}.",
                after={"evidence": evidence},
            )
    if seen.outcome == "done":
        finish(step, StepResult())
    elif seen.outcome == "again" and step.kind in repeating.STARTING:
        retry_step(step)  # its update runs: it is only looked at
    elif not (seen.outcome in ("again", "repeat") and repeating.repeat(step, _why_again(step, seen))):
        with transaction.atomic():
            _call_person(step, f"Step {step.kind} is unknown: {step.problem}")


def _why_again(step: Step, seen: ProbeOutcome) -> repeating.RepeatReason:
    if step.kind not in repeating.STARTING:
        return repeating.RepeatReason.SILENT
    return repeating.RepeatReason.CUT if seen.cut else repeating.RepeatReason.NOT_STARTED


def retry_step(step: Step) -> None:
    """unknown or failed -> pending, and wake it. Only for steps that a probe or a person cleared."""
    with transaction.atomic():
        if not step_to(step, "pending", ended_at=None, repeats=[]):
            return
        if step.plan is not None and step.kind != "rollback":
            joining.resume_members(step)
        wake(step)


def wake(step: Step) -> None:
    """Tell a worker, once the transaction is committed. A lost wake-up is repeated by the reaper."""
    from recovery.workflow import tasks

    Step.objects.filter(pk=step.pk).update(woken_at=timezone.now())
    broker.send_on_commit(tasks.run_step, step.pk, step.fence)


def _audit(step: Step, action: str, outcome: str, says: str, after: Mapping[str, Any] | None = None) -> None:
    append_entry(
        action=action,
        outcome=outcome,
        by=SYSTEM,
        target_kind="step",
        target=f"{step.kind} #{step.pk}, attempt {step.attempt}",
        recovery=step.recovery.label,
        says=says,
        after=dict(after) if after is not None else None,
    )


def repeat_verification(step: Step) -> None:
    """Measure again after a verification that did not hold: a new verify step of the same plan."""
    with transaction.atomic():
        following = another_verification(step)
        move(Recovery.objects.get(pk=step.recovery_id), "running")
        wake(following)


def another_verification(step: Step) -> Step:
    """A further verify step of the same plan, pending. Inside the caller's transaction."""
    number = Step.objects.filter(recovery=step.recovery_id).count() + 1
    return Step.objects.create(
        recovery_id=step.recovery_id,
        plan=step.plan,
        ordinal=number,
        kind="verify",
        says=step.says,
        args=step.args,
        idempotency_key=f"verify-{step.recovery_id}-{number}",
    )
