"""Skips the step at which a recovery stands, for a reason, where the table allows it. Inside an audited try."""

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from recovery.contracts.choices import Halt
from recovery.contracts.step_notes import SkipNote, StepNotes
from recovery.errors import Refused, RepriseError
from recovery.models import Recovery, Step
from recovery.people.roles import Actor
from recovery.workflow import engine, joining, studies
from recovery.workflow.moves import only_in, step_to
from recovery.workflow.starting import may_go_on, stuck
from recovery.workflow.steps import rollback
from recovery.workflow.steps.rollback import RollbackRefusal
from recovery.workflow.strangers import find_foreign_batches
from recovery.workflow.transitions import SKIPS


@dataclass(frozen=True)
class SkippedStep:
    """The step, and what the audit log says of it."""

    step: Step
    says: str
    before: dict[str, Any]
    after: dict[str, Any]


def skip(recovery: Recovery, *, reason: str, by: Actor, no_way_back: bool) -> SkippedStep:
    """In this actor's name, under the recovery's lock. The step is skipped under its fence, then the next one begins;
    without a next one, and without a rerun, the recovery ends without proof. `no_way_back`: as `has_no_way_back` was
    asked before the lock."""
    step = _skippable(recovery, no_way_back=no_way_back)
    if not reason:
        raise Refused(
            f"Give a reason for skipping step {step.kind}: others review it later.", code="no_reason"
        )
    before = {"step": step.kind, "state": step.state, "problem": step.problem}
    if step.state == "done":  # it was measured and does not hold: what is skipped is to measure again
        step = engine.another_verification(step)
    _mark(step, reason, by)
    following = None if SKIPS[step.kind].ends else joining.next_step(step)
    if following is not None:
        for plan in joining.plans_together(step.plan) if step.plan else ():
            studies.set_halt(plan.recovery, Halt())
        joining.resume_members(step)
        engine.wake(following)
        recovery.refresh_from_db()
    else:
        recovery.steps.filter(plan=step.plan, state="pending").update(
            state="skipped", ended_at=timezone.now()
        )
        engine.end(recovery, "unproven", f"{_without_proof(recovery)} {engine.describe_skip(step)}")
    after = {"step": step.kind, "state": "skipped", "recovery": recovery.state}
    return SkippedStep(step, f"Step {step.kind} skipped: {reason}", before, after)


def find_refusal(recovery: Recovery, *, no_way_back: bool | None = None) -> str | None:
    """Why the step at which it stands cannot be skipped, in one sentence; None when it can. Reads only.

    `no_way_back`: what `has_no_way_back` answered; None: it is asked."""
    if no_way_back is None:
        no_way_back = has_no_way_back(recovery)
    try:
        _skippable(recovery, no_way_back=no_way_back)
    except Refused as refused:
        return refused.sentence
    return None


def has_no_way_back(recovery: Recovery) -> bool:
    """Whether others have started its stream, and it can no longer be rolled back. Asks API and storage.

    While the stream runs that is open: once it is stopped, what it has committed decides."""
    try:
        return is_started_by_others(recovery) and bars_way_back(rollback.find_refusal(recovery))
    except RepriseError:
        return False


def bars_way_back(refused: RollbackRefusal | None) -> bool:
    """Whether a rollback that is refused so will stay refused."""
    return refused is not None and refused.kind == "final"


def is_started_by_others(recovery: Recovery) -> bool:
    """Whether it is at a rerun that failed, and its checkpoint is not as its plan left it: the rerun would fail again.
    Asks the storage; False where that does not answer."""
    if recovery.state != "needs_attention" or joining.joint_of(recovery) is not None:
        return False
    try:
        step = stuck(recovery)
        if step.kind != "rerun" or step.state != "failed" or step.plan is None:
            return False
        flow = recovery.flow
        return flow.pipeline.workspace.has_streams and find_foreign_batches(flow, step.plan, step) is not None
    except RepriseError:
        return False


def _skippable(recovery: Recovery, *, no_way_back: bool) -> Step:
    only_in(recovery, "needs_attention")
    step = stuck(recovery)
    joint = joining.joint_of(recovery)
    if joint is not None and joining.has_common_steps(joint) and (at := joining.stuck_step(joint)) != step:
        raise Refused(
            f"{joint.label} is at step {at.kind} of {at.recovery.label}; only that step can be skipped.",
            code="joint",
        )
    rule = SKIPS[step.kind]
    if not rule.may and not (no_way_back and step.kind == "rerun" and step.state == "failed"):
        raise Refused(f"Step {step.kind} is never skipped. {rule.because}", code="not_skippable")
    if recovery.steps.filter(state="running").exists() or _undoing(recovery):
        raise Refused("A step is running. Wait until it ends, then skip.", code="step_running")
    may_go_on(recovery, step, then="skip")
    return step


def _undoing(recovery: Recovery) -> bool:
    return recovery.steps.filter(kind="rollback", state="pending", woken_at__isnull=False).exists()


def _mark(step: Step, reason: str, by: Actor) -> None:
    now = timezone.now()
    noted = StepNotes(skipped=SkipNote(by=by.name, reason=reason, at=now.isoformat()))
    line = [now.isoformat(), f"Skipped by {by.name}: {reason}"]
    log = [*step.log, line]
    if not step_to(step, "skipped", result=noted.lay_over(step.result), log=log, woken_at=None):
        raise Refused(f"Step {step.kind} changed a moment ago. Reload the page.", code="lost_race")


def _without_proof(recovery: Recovery) -> str:
    proof = recovery.proof
    if failed := proof.unproven if proof else ():
        return f"When last measured, not proven were: {', '.join(failed)}."
    return "Nothing was measured."
