"""The doors of approval of plans that run together: one request, one vote, one broken glass, for all of them or none.

What is signed is the joint plan's hash. Each recovery keeps a request and votes of its own, so every check before its
run is the same as of a plan that runs alone. Keyword-only, `by=` who, ids not objects.
"""

from collections.abc import Sequence

from django.utils import timezone

from recovery.approvals import actions
from recovery.models import ApprovalRequest, JointPlan, Recovery
from recovery.people.roles import Actor, Right
from recovery.workflow import broker, joining, starting
from recovery.workflow.journal import trying_together


def request_joint_approval(
    *, joint_id: int, reason: str = "", joint_hash: str | None = None, by: Actor
) -> list[ApprovalRequest]:
    """Ask for votes on a joint plan. `joint_hash`: the one that was looked at. Raises as `actions.request_approval`."""
    joint, members = _found(joint_id)
    with trying_together("approval.request", members, by, reason=reason) as attempts:
        held, now = joining.lock_members(joint), timezone.now()
        joining.refuse_unseen(joint, joint_hash)
        return [
            actions.ask_for_votes(recovery, attempted, reason, now, by=by)
            for recovery, attempted in zip(held, attempts, strict=True)
        ]


def vote_on_joint(
    *, joint_id: int, choice: str, reason: str, joint_hash: str | None = None, by: Actor
) -> list[ApprovalRequest]:
    """Approve or reject a joint plan: it counts for each plan of it, or for none. One rejection gives all of them back
    to be changed. `joint_hash`: the one that was looked at. Raises as `actions.cast_vote`."""
    joint, members = _found(joint_id)
    act = "approval.reject" if choice == "reject" else "approval.vote"
    with trying_together(act, members, by, Right.APPROVE, reason=reason) as attempts:
        held = joining.lock_members(joint)
        joining.refuse_unseen(joint, joint_hash)
        voted = []
        for recovery, attempted in zip(held, attempts, strict=True):
            voted.append(actions.vote_on(recovery, attempted, choice, reason.strip(), by=by))
            if choice == "reject" and _is_void(joint):
                break  # the first rejection has taken all of them back
        return voted


def break_glass_for_joint(*, joint_id: int, reason: str, joint_hash: str | None = None, by: Actor) -> None:
    """Run (or resume) the plans of a joint one now, without enough votes. Raises as `actions.break_glass`."""
    joint, members = _found(joint_id)
    with trying_together("recovery.break_glass", members, by, Right.BREAK_GLASS, reason=reason) as attempts:
        broker.check()
        held, now = joining.lock_members(joint), timezone.now()
        joining.refuse_unseen(joint, joint_hash)
        before = [recovery.state for recovery in held]
        broken = [actions.put_glass(recovery, reason.strip(), now, by=by) for recovery in held]
        starting.start_together(joint, held, by=by)
        for (glass, missing), attempted, was in zip(broken, attempts, before, strict=True):
            actions.tell_glass(glass, missing, attempted, was=was, by=by)


def _found(joint_id: int) -> tuple[JointPlan, Sequence[Recovery]]:
    joint = JointPlan.objects.get(pk=joint_id)
    return joint, [plan.recovery for plan in joining.plans_of(joint)]


def _is_void(joint: JointPlan) -> bool:
    joint.refresh_from_db()
    return joint.voided_at is not None
