"""Begins a sealed plan, or resumes it at the step where it stands; so too plans that run together. Called inside an
audited try, by a person's act."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from recovery.approvals import selectors
from recovery.contracts.choices import Halt
from recovery.errors import Refused
from recovery.models import JointPlan, Plan, Recovery, Step
from recovery.notify.actions import announce_event
from recovery.people.roles import Actor
from recovery.workflow import engine, joining, probing, studies
from recovery.workflow.moves import move, only_in
from recovery.workflow.selectors import plan_of
from recovery.workflow.transitions import WAITS


@dataclass(frozen=True)
class StartedRun:
    """What the audit log says of it."""

    says: str
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


def start(recovery: Recovery, *, by: Actor) -> StartedRun:
    """In this actor's name. Raises Refused when there is no plan in force, when the environment's rules do not let it
    run now, when the fate of the step where it stands is still being found out, and while its plan has something left
    to do together with others."""
    joining.refuse_alone(recovery)
    if (joint := joining.joint_of(recovery)) is not None:
        joining.refuse_undoing(joint)
        joining.refuse_second_at_once(recovery)
    return _resume(recovery, by) if recovery.state == "needs_attention" else _begin(recovery, by)


def require_plan(recovery: Recovery, *, seen: str | None = None) -> Plan:
    """The plan in force. `seen`: as for `joining.refuse_unseen`. Raises Refused where there is none, or it is another
    than was looked at."""
    plan = selectors.plan_in_force(recovery)
    if plan is None:
        raise Refused(f"{recovery.label} has no plan in force. Seal one first.", code="no_plan")
    joining.refuse_unseen(recovery, seen)
    return plan


def _begin(recovery: Recovery, by: Actor) -> StartedRun:
    plan, started = _set_running(recovery, by)
    first = recovery.steps.filter(plan=plan, state="pending").first()
    assert first is not None, "a sealed plan has steps"
    engine.wake(first)
    return started


def _set_running(recovery: Recovery, by: Actor) -> tuple[Plan, StartedRun]:
    only_in(recovery, *sorted(WAITS, reverse=True))
    plan = require_plan(recovery)
    before = recovery.state
    move(recovery, "running")  # its guard asks the environment's rules
    studies.set_halt(recovery, Halt())
    announce_event(event="recovery.started", recovery=recovery, by=by)
    after = {"state": "running", "plan": plan.hash}
    return plan, StartedRun(f"Plan {plan.hash[:8]} started.", {"state": before}, after)


def start_together(joint: JointPlan, members: Sequence[Recovery], *, by: Actor) -> list[StartedRun]:
    """Begin the plans of a joint one, or resume them at the step at which all of them stand. `members`: their
    recoveries, locked. Raises Refused as `start` does, for any of them; `resume_member` once the update has run: each
    is measured on its own then."""
    joining.refuse_undoing(joint)
    if all(recovery.state in WAITS for recovery in members):
        started = [_set_running(recovery, by)[1] for recovery in members]
        engine.wake(joining.steps_of(joint)[0])
        return started
    if not joining.has_common_steps(joint):
        raise Refused(
            f"The update of {joint.label} has run, and each of its plans is proven on its own. Resume the recovery "
            "whose proof is missing.",
            code="resume_member",
        )
    for recovery in members:
        only_in(recovery, "needs_attention")
    step = joining.stuck_step(joint)
    for recovery in members:
        may_go_on(recovery, step, then="resume")
        studies.set_halt(recovery, Halt())
    was = {"step": step.kind, "state": step.state, "evidence": step.evidence}
    if step.state == "pending":
        joining.resume_members(step)
        engine.wake(step)
    else:
        engine.retry_step(step)
    for recovery in members:
        recovery.refresh_from_db()
        facts = {"resumed_at": step.kind}
        announce_event(event="recovery.started", recovery=recovery, facts=facts, by=by)
    says = f"Resumed at step {step.kind} of {step.recovery.label}, which was {was['state']}."
    return [StartedRun(says, was) for _ in members]


def _resume(recovery: Recovery, by: Actor) -> StartedRun:
    step = stuck(recovery)
    may_go_on(recovery, step, then="resume")
    was = {"step": step.kind, "state": step.state, "evidence": step.evidence}
    studies.set_halt(recovery, Halt())
    if step.state == "done":
        engine.repeat_verification(step)
    elif step.state == "pending":
        move(recovery, "running")
        engine.wake(step)
    else:
        engine.retry_step(step)
    if step.kind != "rollback":
        recovery.refresh_from_db()
        announce_event(event="recovery.started", recovery=recovery, facts={"resumed_at": step.kind}, by=by)
    return StartedRun(f"Resumed at step {step.kind}, which was {was['state']}.", was)


def may_go_on(recovery: Recovery, step: Step, *, then: str) -> None:
    """Refused while no one knows what the step has done, and where the environment's rules do not let the recovery's
    plan run."""
    if not probing.is_answered(step):
        raise Refused(
            f"Step {step.kind} is unknown and its probe has not answered yet. Wait for it, then {then}.",
            code="probe_open",
        )
    plan = plan_of(recovery)
    if plan is not None and step.kind != "verify" and (no := selectors.run_refusal(recovery, plan)):
        raise Refused(no.says, code=no.code)


def stuck(recovery: Recovery) -> Step:
    """The step at which a recovery that needs attention stands. Raises Refused where there is none."""
    steps = recovery.steps.filter(plan=plan_of(recovery)).exclude(kind="rollback", state="pending")
    found = (
        steps.filter(state__in=("failed", "unknown")).first()
        or steps.filter(state="pending").first()
        or steps.filter(kind="verify", state="done").last()
    )
    if found is None:
        raise Refused(f"{recovery.label} has no step to resume.", code="nothing_stuck")
    return found
