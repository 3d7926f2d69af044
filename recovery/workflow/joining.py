"""Plans that run together: which they are, the order of their steps, and how one that needs attention holds the
others.

All steps of a joint plan are one list: by kind, and of one kind in the order of the plans. So every plan has proven the
standstill before any changes something, every checkpoint is in place before the one update starts, and a step that
fails leaves what comes after it undone. After the update each plan is proven on its own: proofs come one after the
other, and one that does not hold keeps no other from being measured.
"""

from collections.abc import Mapping
from typing import Final

from django.utils import timezone

from recovery.approvals.selectors import plan_in_force
from recovery.contracts import codec
from recovery.contracts.names import StepKind
from recovery.contracts.results import UpdateResult
from recovery.contracts.steps import UpdateArgs
from recovery.errors import Refused
from recovery.models import JointPlan, Plan, Recovery, Step
from recovery.plans.values import Drift
from recovery.workflow.journal import note
from recovery.workflow.moves import lock, move, state_label

RANK: Final[Mapping[str, int]] = {kind.value: number for number, kind in enumerate(StepKind)}
"""The order in which kinds of steps run."""
OVER: Final = ("done", "skipped")
Place = tuple[int, int, int]


def joint_of_plan(plan: Plan | None) -> JointPlan | None:
    """The joint plan in force that a plan is part of; None: it runs alone."""
    joint = plan.joint if plan is not None else None
    return None if joint is None or joint.voided_at is not None else joint


def joint_of(recovery: Recovery) -> JointPlan | None:
    """The joint plan in force that the recovery's plan in force is part of."""
    return joint_of_plan(plan_in_force(recovery))


def plans_of(joint: JointPlan) -> list[Plan]:
    """In their order, with recovery, flow, pipeline and workspace."""
    rows = joint.plans.select_related("recovery__flow__pipeline__workspace", "joint")
    return list(rows.order_by("joint_ordinal"))


def plans_together(plan: Plan) -> list[Plan]:
    """Those that run with this plan, it among them; a plan that runs alone is the only one."""
    joint = joint_of_plan(plan)
    return [plan] if joint is None else plans_of(joint)


def signed_hash(plan: Plan) -> str:
    """The hash that a vote on this plan signs, and signed: that of its joint plan, also when that is void by now."""
    return plan.hash if plan.joint is None else plan.joint.hash


def refuse_unseen(planned: Recovery | JointPlan, seen: str | None) -> None:
    """Raise Refused (`stale_plan`) where another plan is in force than was looked at. `seen`: its hash, of a recovery
    its own plan's or its joint plan's, "" where none was in force; None: no one looked."""
    if isinstance(planned, JointPlan):
        now = [planned.hash]
    else:
        plan = plan_in_force(planned)
        now = [signed_hash(plan), plan.hash] if plan else [""]
    if seen is None or seen in now:
        return
    raise Refused(
        f"This is not the plan that you read: {now[0][:8] or 'none'} is in force now. Nothing was changed. Read it "
        "first.",
        code="stale_plan",
    )


def lead_of(joint: JointPlan) -> Plan:
    """The first plan: its rerun starts the one update."""
    return joint.plans.get(joint_ordinal=0)


def rerun_of(recovery: Recovery) -> Step | None:
    """The step that starts the update of the recovery's plan: of plans that run together, that of the first."""
    joint = joint_of(recovery)
    steps = recovery.steps if joint is None else lead_of(joint).steps
    return steps.filter(kind=StepKind.RERUN).first()


def read_update(step: Step) -> UpdateArgs:
    """What the update of this step is asked for: of plans that run together, by all of them."""
    joint = joint_of_plan(step.plan)
    if joint is None or step.kind != StepKind.RERUN:
        return codec.read(UpdateArgs, step.args)
    return UpdateArgs(refresh=joint.contents.refresh, full_refresh=joint.contents.full_refresh)


def may_have_emptied(plan: Plan, rerun: Step) -> bool:
    """Whether the update of this step has begun to empty the plan's table, or may have."""
    empties = plan.contents.dataset in read_update(rerun).full_refresh
    return empties and codec.read(UpdateResult, rerun.result).may_have_run


def lock_members(joint: JointPlan) -> list[Recovery]:
    """The recoveries in the order of their plans, held until the transaction ends. Raises Refused where the joint plan
    is void, or one of them has another plan in force by now."""
    members = [plan.recovery_id for plan in plans_of(joint)]
    held = {pk: lock(pk) for pk in sorted(members)}
    joint.refresh_from_db()
    if joint.voided_at is not None:
        raise Refused(
            f"{joint.label} is void because one of its plans is. Seal the plans again.", code="joint_void"
        )
    for pk in members:
        if joint_of(held[pk]) != joint:
            raise Refused(
                f"{held[pk].label} no longer has the plan that is part of {joint.label}, and is "
                f"{state_label(held[pk].state)}. Continue with it alone.",
                code="left_joint",
            )
    return [held[pk] for pk in members]


def steps_of(joint: JointPlan) -> list[Step]:
    """Every step but rollbacks, in the order in which they run."""
    rows = Step.objects.filter(plan__joint=joint).exclude(kind="rollback").select_related("plan", "recovery")
    return sorted(rows, key=_place)


def _place(step: Step) -> Place:
    assert step.plan is not None, "only steps of plans are in the list"
    return (RANK[step.kind], step.plan.joint_ordinal or 0, step.ordinal)


def has_common_steps(joint: JointPlan) -> bool:
    """Is something left that the plans do together? Afterwards each is only measured, on its own."""
    return any(step.state not in OVER for step in steps_of(joint) if step.kind != StepKind.VERIFY)


def refuse_alone(recovery: Recovery) -> None:
    """Raise Refused where the recovery's plan runs together with others: what is done with it is done with all."""
    joint = joint_of(recovery)
    if joint is not None and has_common_steps(joint):
        raise Refused(_together(recovery, joint), code="joint")


def refuse_undo_alone(recovery: Recovery) -> None:
    """As `refuse_alone`, of what takes back: the plans share the code, so it holds after the update too."""
    joint = joint_of(recovery)
    if joint is not None:
        raise Refused(_together(recovery, joint), code="joint")


def _together(recovery: Recovery, joint: JointPlan) -> str:
    others = [plan.recovery.label for plan in plans_of(joint) if plan.recovery_id != recovery.pk]
    return (
        f"The plan of {recovery.label} is part of {joint.label}, together with {', '.join(others)}. Use "
        f"{joint.label} instead, which does it for all of them."
    )


def refuse_second_at_once(recovery: Recovery) -> None:
    """Raise Refused while another plan of the joint one is being measured: each proof starts an update."""
    joint = joint_of(recovery)
    if joint is None:
        return
    if running := [r.label for r in _others(joint, recovery) if r.state in ("running", "verifying")]:
        raise Refused(
            f"{joint.label} is still being measured: {', '.join(running)}. Wait until that has ended, then resume.",
            code="member_runs",
        )


def refuse_undoing(joint: JointPlan) -> None:
    """Raise Refused where a rollback of the plans has begun and not ended."""
    steps = Step.objects.filter(plan__joint=joint, kind="rollback")
    if steps.exclude(state__in=OVER).exists():
        raise Refused(
            f"{joint.label} is being rolled back. To continue that, roll it back again.", code="undoing"
        )


def _others(joint: JointPlan, recovery: Recovery) -> list[Recovery]:
    return [plan.recovery for plan in plans_of(joint) if plan.recovery_id != recovery.pk]


def others_not_rolled_back(recovery: Recovery, joint: JointPlan) -> list[str]:
    """Labels of those whose plans run together with the recovery's, and are not taken back."""
    return [other.label for other in _others(joint, recovery) if other.state != "rolled_back"]


def next_step(step: Step) -> Step | None:
    """The step that begins when this one is done: of its own plan, or of those that run together with it.

    A proof is followed by the next one whose recovery still runs: one that needs attention waits for a person.
    """
    joint = joint_of_plan(step.plan)
    if joint is None:
        own = Step.objects.filter(recovery=step.recovery_id, plan=step.plan, state="pending")
        return own.filter(ordinal__gt=step.ordinal).order_by("ordinal").first()
    later = (s for s in steps_of(joint) if s.state == "pending" and _place(s) > _place(step))
    if step.kind == StepKind.VERIFY:
        later = (s for s in later if s.recovery.state == "running")
    return next(later, None)


def next_rollback(step: Step) -> Step | None:
    """The rollback that begins when this one is done: that of the plan before it."""
    joint = joint_of_plan(step.plan)
    if joint is None or step.plan is None:
        return None
    asked = Step.objects.filter(plan__joint=joint, kind="rollback", state="pending")
    return (
        asked.filter(plan__joint_ordinal__lt=step.plan.joint_ordinal).order_by("-plan__joint_ordinal").first()
    )


def resume_members(step: Step) -> None:
    """A step goes on: its recovery runs again where it stood, and with it those that wait for it. In the caller's
    transaction."""
    for recovery in _held_by(step):
        if recovery.state == "needs_attention":
            move(recovery, "running")


def hold_members(step: Step) -> None:
    """The recovery of this step needs attention: those that run together with it stand, and say for whom. In the
    caller's transaction."""
    reason = f"{step.recovery.label}, whose plan runs together with this one, is at step {step.kind}."
    for recovery in _held_by(step):
        if recovery.pk != step.recovery_id and recovery.state == "running":
            move(recovery, "needs_attention", reason=reason)


def _held_by(step: Step) -> list[Recovery]:
    """The recoveries that go no further than this step, its own among them."""
    joint = joint_of_plan(step.plan)
    together = joint is not None and step.kind not in (StepKind.VERIFY, StepKind.ROLLBACK)
    members = (
        [p.recovery_id for p in plans_of(joint)] if joint is not None and together else [step.recovery_id]
    )
    return [lock(pk) for pk in sorted(members)]


def stuck_step(joint: JointPlan) -> Step:
    """The step at which all of them stand. Raises Refused where there is none."""
    steps = steps_of(joint)
    stuck = next((s for s in steps if s.state in ("failed", "unknown")), None)
    stuck = stuck or next((s for s in steps if s.state == "pending"), None)
    if stuck is None:
        raise Refused(f"{joint.label} has no step to resume.", code="nothing_stuck")
    return stuck


def missing_before_update(joint: JointPlan) -> list[Step]:
    """Steps that have to be done before the one update starts, and are not."""
    return [s for s in steps_of(joint) if RANK[s.kind] < RANK[StepKind.RERUN] and s.state not in OVER]


def void_with_others(plan: Plan, says: str) -> None:
    """A plan is void, or its recovery has ended without running: so is the joint plan, and every other one of it. Their
    choices stay. In the caller's transaction."""
    joint = joint_of_plan(plan)
    if joint is None:
        return
    void_joint(joint)
    for other in plans_of(joint):
        if other.pk == plan.pk or other.voided_at is not None:
            continue
        recovery, now = lock(other.recovery_id), timezone.now()
        why = f"{plan.recovery.label}, whose plan was sealed together with this one: {says}"
        drift = [Drift("joint", planned=joint.hash, now="", says=why).as_dict()]
        Plan.objects.filter(pk=other.pk).update(voided_at=now, drift=drift)
        recovery.steps.filter(plan=other, state="pending").update(state="skipped", ended_at=now)
        move(recovery, "diagnosing", says=why, reason=why)
        note("plan.void", recovery, why, after={"drift": drift})


def void_joint(joint: JointPlan) -> None:
    """It holds no more. In the caller's transaction."""
    JointPlan.objects.filter(pk=joint.pk, voided_at=None).update(voided_at=timezone.now())
    joint.refresh_from_db()
