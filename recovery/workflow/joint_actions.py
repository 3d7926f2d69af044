"""The doors of plans that run together: start or resume, roll back, cancel. Keyword-only, `by=` who, ids not objects.

Each takes the locks of all recoveries, and does its act for all of them or for none, in one transaction, with a row of
the audit log for each.
"""

from recovery.errors import Refused, RepriseError
from recovery.models import JointPlan, Recovery, Step
from recovery.people.roles import Actor
from recovery.workflow import broker, engine, joining, starting
from recovery.workflow.actions import add_step, check_rollback
from recovery.workflow.journal import right_to_run, trying_together
from recovery.workflow.moves import move, only_in
from recovery.workflow.selectors import plan_of
from recovery.workflow.steps import rollback
from recovery.workflow.transitions import WAITS


def execute_joint(*, joint_id: int, joint_hash: str | None = None, by: Actor) -> None:
    """Run the plans of a joint one; or, when a step failed or is unknown, resume all of them at that step.

    `joint_hash`: the one that was looked at. Raises Refused as `actions.execute` does for any of them, and once the
    update has run (`resume_member`); Denied.
    """
    joint = JointPlan.objects.get(pk=joint_id)
    plans = joining.plans_of(joint)
    members = [plan.recovery for plan in plans]
    resuming = any(recovery.state == "needs_attention" for recovery in members)
    act = "recovery.resume" if resuming else "recovery.execute"
    with trying_together(act, members, by) as attempts:
        broker.check()
        held = joining.lock_members(joint)
        for plan in plans:
            by.check(right_to_run(plan), joint.pipeline.environment)
        joining.refuse_unseen(joint, joint_hash)
        started = starting.start_together(joint, held, by=by)
        for attempted, run in zip(attempts, started, strict=True):
            attempted.done(
                f"{run.says} Together, as {joint.label}.",
                before=run.before,
                after={**run.after, "joint": joint.hash},
            )


def roll_back_joint(*, joint_id: int, by: Actor, reason: str, joint_hash: str | None = None) -> Step:
    """Undo what can be undone of all plans, the last one first, as steps run by a worker. A rollback that did not end
    goes on. `joint_hash`: the one that was looked at. Answers the step that runs first.

    Raises Refused where one of them cannot be undone, or none has changed anything; Denied.
    """
    joint = JointPlan.objects.get(pk=joint_id)
    members = [plan.recovery for plan in joining.plans_of(joint)]
    refusals = {recovery.pk: _rollback_refusal(recovery) for recovery in members}  # asks API and storage
    with trying_together("recovery.rollback", members, by, reason=reason) as attempts:
        broker.check()
        held = joining.lock_members(joint)
        joining.refuse_unseen(joint, joint_hash)
        left = [recovery for recovery in held if recovery.state != "rolled_back"]
        for recovery in left:
            check_rollback(recovery, refusals[recovery.pk])
        if not any(rollback.has_changed(recovery) for recovery in left):
            raise Refused(f"{joint.label} has changed nothing that could be undone.", code="not_undoable")
        asked = Step.objects.filter(plan__joint=joint, kind="rollback", state="pending")
        asked.update(state="skipped")  # of a rollback that did not end: it is asked for again
        says = "Undo the reset; the source goes back with the first of the plans."
        steps = [add_step(recovery, "rollback", says, plan_of(recovery)) for recovery in left]
        engine.wake(steps[-1])
        why = reason or "no reason given"
        for attempted in attempts:
            attempted.done(f"Rollback of {joint.label} requested: {why}.", after={"joint": joint.hash})
    return steps[-1]


def _rollback_refusal(recovery: Recovery) -> str | None:
    """Why it cannot be undone. Of a flow that none of its steps has changed there is nothing to undo, until the shared
    update has written its table: then it would be called rolled back over rows that stay, or over an empty table."""
    plan, rerun = plan_of(recovery), joining.rerun_of(recovery)
    try:
        if plan is not None and rerun is not None and joining.may_have_emptied(plan, rerun):
            return (
                f"The shared update empties {plan.contents.dataset} and may have begun; nothing brings its rows back. "
                "Resume it."
            )
        if rollback.has_changed(recovery):
            refused = rollback.find_refusal(recovery)
            return refused.says if refused else None
        if rerun is None or rerun.state != "done":
            return None
        return "The shared update has run, and what it committed for this flow stays. Resume it, or skip its proof."
    except RepriseError as failure:
        return failure.sentence


def cancel_joint(*, joint_id: int, by: Actor, reason: str) -> None:
    """End the recoveries of a joint plan that has changed nothing. Raises Refused once something was changed."""
    joint = JointPlan.objects.get(pk=joint_id)
    members = [plan.recovery for plan in joining.plans_of(joint)]
    with trying_together("recovery.cancel", members, by, reason=reason) as attempts:
        held = joining.lock_members(joint)
        for recovery in held:
            only_in(recovery, *sorted(WAITS), "needs_attention")
        joining.void_joint(joint)
        for attempted, recovery in zip(attempts, held, strict=True):
            before = recovery.state
            recovery.steps.filter(state="pending").update(state="skipped")
            move(recovery, "cancelled", reason=reason)
            attempted.done(
                f"Cancelled with {joint.label}: {reason or 'no reason given'}.",
                before={"state": before},
                after={"state": "cancelled", "joint": joint.hash},
            )
