"""What pages do with a recovery whose plan runs together with others: every act is of all of them, and every page says
so. Which door is taken is decided here alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from console.presenters import verifying, wizard
from console.presenters.status import Badge
from recovery.approvals import actions as approving
from recovery.approvals import joint_actions as approving_together
from recovery.contracts.joint import JointBody
from recovery.contracts.names import name_strategy
from recovery.models import JointPlan, Plan, Recovery
from recovery.people.roles import Actor
from recovery.planning import actions as planning
from recovery.workflow import actions, joining, joint_actions
from recovery.workflow.selectors import plan_of, recovery_or_404


@dataclass(frozen=True)
class JointRow:
    """One of the plans: its recovery, flow and forecast. `here`: it is the page's own."""

    label: str
    flow: str
    strategy: str
    forecast: list[wizard.ForecastNumber]
    badge: Badge
    href: str
    here: bool


@dataclass(frozen=True)
class JointPanel:
    """The joint plan that a page's plan is part of. `emptied`: the tables that its update empties, short."""

    label: str
    hash: str
    rows: list[JointRow]
    tables: tuple[str, ...]
    emptied: tuple[str, ...]


def panel_of(plan: Plan | None) -> JointPanel | None:
    """None where the plan runs alone."""
    joint = joining.joint_of_plan(plan)
    if joint is None or plan is None:
        return None
    rows = [
        JointRow(
            label=member.recovery.label,
            flow=member.recovery.flow.short,
            strategy=name_strategy(member.contents.strategy),
            forecast=wizard.forecast_view(member.contents.forecast),
            badge=verifying.proof_badge(member.recovery),
            href=reverse("review", args=[member.recovery_id]),
            here=member.pk == plan.pk,
        )
        for member in joining.plans_of(joint)
    ]
    emptied = tuple(table.rpartition(".")[2] for table in joint.contents.full_refresh)
    return JointPanel(joint.label, joint.hash, rows, joint.contents.tables, emptied)


def contents_of(plan: Plan) -> JointBody | None:
    """What the joint plan in force fixes that this plan is part of; None: it runs alone."""
    joint = joining.joint_of_plan(plan)
    return None if joint is None else joint.contents


@dataclass(frozen=True)
class JoinOffer:
    """Plans of the same pipeline that wait too, with which this one could be sealed together."""

    others: list[Recovery]


def offer_join(recovery: Recovery) -> JoinOffer | None:
    """None if no other plan of the pipeline waits, or this one has joined others. Whether they can run together is
    checked when they are sealed."""
    plan = plan_of(recovery)
    if recovery.state != "planned" or plan is None or plan.joint is not None:
        return None
    waiting = Recovery.objects.filter(flow__pipeline=recovery.flow.pipeline_id, state="planned")
    rows = waiting.exclude(pk=recovery.pk).select_related("flow").order_by("pk")
    others = [
        row for row in rows if (waiting_plan := plan_of(row)) is not None and waiting_plan.joint is None
    ]
    return JoinOffer(others) if others else None


def seal_together(recovery_id: int, by: Actor, others: Sequence[str]) -> None:
    """Seal the plan together with those of the recoveries chosen on the page, in the order in which they were opened.

    Raises NotFound, and as `planning.join_plans`.
    """
    chosen = {recovery_or_404(label, by).pk for label in others}
    planning.join_plans(recovery_ids=sorted({recovery_id} | chosen), by=by)


def _bound(recovery_id: int, by: Actor) -> JointPlan | None:
    joint = _joint(recovery_id, by)
    return joint if joint is not None and joining.has_common_steps(joint) else None


def _joint(recovery_id: int, by: Actor) -> JointPlan | None:
    """Raises NotFound, also for a recovery that `by` may not see."""
    return joining.joint_of(recovery_or_404(recovery_id, by))


def execute(recovery_id: int, by: Actor, seen: str) -> None:
    """Start or resume it, or all that run together with it. `seen`: the hash that the page showed."""
    if (joint := _bound(recovery_id, by)) is not None:
        joint_actions.execute_joint(joint_id=joint.pk, joint_hash=seen, by=by)
    else:
        actions.execute(recovery_id=recovery_id, plan_hash=seen, by=by)


def roll_back(recovery_id: int, by: Actor, reason: str, seen: str) -> None:
    """Undo it, or all that ran together with it. `seen`: the hash that the page showed."""
    if (joint := _joint(recovery_id, by)) is not None:
        joint_actions.roll_back_joint(joint_id=joint.pk, by=by, reason=reason, joint_hash=seen)
    else:
        actions.roll_back(recovery_id=recovery_id, by=by, reason=reason, plan_hash=seen)


def cancel(recovery_id: int, by: Actor, reason: str) -> None:
    """End it; once they have begun, all that run together with it."""
    recovery = recovery_or_404(recovery_id, by)
    joint = joining.joint_of(recovery)
    if joint is not None and recovery.state == "needs_attention":
        joint_actions.cancel_joint(joint_id=joint.pk, by=by, reason=reason)
    else:
        actions.cancel(recovery_id=recovery_id, by=by, reason=reason)


def request_approval(recovery_id: int, by: Actor, reason: str, seen: str) -> None:
    """Ask for votes on the plan that was read, or on the joint one."""
    if (joint := _bound(recovery_id, by)) is not None:
        approving_together.request_joint_approval(joint_id=joint.pk, reason=reason, joint_hash=seen, by=by)
    else:
        approving.request_approval(recovery_id=recovery_id, reason=reason, plan_hash=seen, by=by)


def cast_vote(recovery_id: int, by: Actor, choice: str, reason: str, seen: str) -> None:
    """Vote on the plan that was read, or on the joint one."""
    if (joint := _bound(recovery_id, by)) is not None:
        approving_together.vote_on_joint(
            joint_id=joint.pk, choice=choice, reason=reason, joint_hash=seen, by=by
        )
    else:
        approving.cast_vote(recovery_id=recovery_id, choice=choice, reason=reason, plan_hash=seen, by=by)


def break_glass(recovery_id: int, by: Actor, reason: str, seen: str) -> None:
    """Run the plan that was read, or all that run together, without enough votes."""
    if (joint := _bound(recovery_id, by)) is not None:
        approving_together.break_glass_for_joint(joint_id=joint.pk, reason=reason, joint_hash=seen, by=by)
    else:
        approving.break_glass(recovery_id=recovery_id, reason=reason, plan_hash=seen, by=by)
