"""What is done with a sealed plan, that of R-n or the joint one of J-n: ask for votes, vote, start, roll back, cancel.

Every act of J-n is of all its plans, or of none. What takes workers some time answers 202: ask again with GET.
"""

from console.api import fields
from console.api.base import Body
from console.api.joint_plans import describe_joint
from console.api.recoveries import describe_recovery
from recovery.approvals import actions as approving
from recovery.approvals import joint_actions as approving_together
from recovery.models import JointPlan, Recovery
from recovery.people.roles import Actor
from recovery.workflow import actions, joint_actions
from recovery.workflow.selectors import joint_or_404, recovery_or_404

Planned = Recovery | JointPlan


def request_votes(body: Body, by: Actor, label: str = "", joint: str = "") -> tuple[int, Body]:
    """{plan_hash, reason}: ask the people whom the environment's rule names for their votes on the plan of this hash.

    Raises as `request_approval` and `request_joint_approval`.
    """
    fields.allow_only(body, ("plan_hash", "reason"))
    seen, reason = fields.read_text(body, "plan_hash"), fields.read_text(body, "reason", "")
    planned = _find_planned(label, joint, by)
    if isinstance(planned, JointPlan):
        approving_together.request_joint_approval(joint_id=planned.pk, reason=reason, joint_hash=seen, by=by)
    else:
        approving.request_approval(recovery_id=planned.pk, reason=reason, plan_hash=seen, by=by)
    return 201, _describe_planned(planned)


def cast_vote(body: Body, by: Actor, label: str = "", joint: str = "") -> tuple[int, Body]:
    """{choice, plan_hash, reason}: approve or reject the plan of this hash. The vote signs it; one on another plan is
    refused (`stale_plan`).

    Raises as `cast_vote` and `vote_on_joint`.
    """
    fields.allow_only(body, ("choice", "plan_hash", "reason"))
    choice, seen, reason = (fields.read_text(body, name) for name in ("choice", "plan_hash", "reason"))
    planned = _find_planned(label, joint, by)
    if isinstance(planned, JointPlan):
        approving_together.vote_on_joint(
            joint_id=planned.pk, choice=choice, reason=reason, joint_hash=seen, by=by
        )
    else:
        approving.cast_vote(recovery_id=planned.pk, choice=choice, reason=reason, plan_hash=seen, by=by)
    return 200, _describe_planned(planned)


def start_run(body: Body, by: Actor, label: str = "", joint: str = "") -> tuple[int, Body]:
    """{plan_hash}: run the plan of this hash, or resume it at the step that failed or is unknown. Once the update of a
    joint plan has run, each recovery is resumed on its own (`resume_member`).

    Raises as `execute` and `execute_joint`.
    """
    fields.allow_only(body, ("plan_hash",))
    seen, planned = fields.read_text(body, "plan_hash"), _find_planned(label, joint, by)
    if isinstance(planned, JointPlan):
        joint_actions.execute_joint(joint_id=planned.pk, joint_hash=seen, by=by)
    else:
        actions.execute(recovery_id=planned.pk, plan_hash=seen, by=by)
    return 202, _describe_planned(planned)


def roll_back(body: Body, by: Actor, label: str = "", joint: str = "") -> tuple[int, Body]:
    """{plan_hash, reason}: undo what the plan of this hash has changed; of a joint plan the last one first, and the
    source with the first one.

    Raises as `roll_back` and `roll_back_joint`.
    """
    fields.allow_only(body, ("plan_hash", "reason"))
    seen, reason = (fields.read_text(body, name) for name in ("plan_hash", "reason"))
    planned = _find_planned(label, joint, by)
    if isinstance(planned, JointPlan):
        joint_actions.roll_back_joint(joint_id=planned.pk, by=by, reason=reason, joint_hash=seen)
    else:
        actions.roll_back(recovery_id=planned.pk, by=by, reason=reason, plan_hash=seen)
    return 202, _describe_planned(planned)


def cancel_planned(body: Body, by: Actor, label: str = "", joint: str = "") -> tuple[int, Body]:
    """{reason}: end a recovery, or all of a joint plan, as long as nothing was changed.

    Raises as `cancel` and `cancel_joint`.
    """
    fields.allow_only(body, ("reason",))
    reason, planned = fields.read_text(body, "reason"), _find_planned(label, joint, by)
    if isinstance(planned, JointPlan):
        joint_actions.cancel_joint(joint_id=planned.pk, by=by, reason=reason)
    else:
        actions.cancel(recovery_id=planned.pk, by=by, reason=reason)
    return 200, _describe_planned(planned)


def _find_planned(label: str, joint: str, by: Actor) -> Planned:
    """Raises NotFound, also for what `by` may not see."""
    return joint_or_404(joint, by) if joint else recovery_or_404(label, by)


def _describe_planned(planned: Planned) -> Body:
    planned.refresh_from_db()
    return describe_joint(planned) if isinstance(planned, JointPlan) else describe_recovery(planned)
