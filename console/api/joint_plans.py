"""Plans of several flows of one pipeline, sealed to run as one: what `plan --flow A --flow B` does."""

from console.api import fields
from console.api.base import Body
from console.api.recoveries import describe_votes
from recovery.models import JointPlan, Plan, Recovery
from recovery.people.roles import Actor
from recovery.planning import actions as planning
from recovery.workflow import by_hand
from recovery.workflow.selectors import joint_or_404, recovery_or_404


def join_plans(body: Body, by: Actor) -> tuple[int, Body]:
    """{recoveries: ["R-1", "R-2"]}: seal their plans together, to be approved, started and rolled back as one.

    Steps run in the order in which the recoveries are named. Raises as `planning.actions.join_plans`.
    """
    fields.allow_only(body, ("recoveries",))
    members = [recovery_or_404(label, by) for label in fields.read_texts(body, "recoveries")]
    return 201, describe_joint(planning.join_plans(recovery_ids=[member.pk for member in members], by=by))


def show_joint(body: Body, by: Actor, joint: str) -> tuple[int, Body]:
    """Its hash, and each recovery with its plan as `plan --json` prints it, its votes and its state."""
    fields.allow_only(body, ())
    return 200, describe_joint(joint_or_404(joint, by))


def describe_joint(joint: JointPlan) -> Body:
    """The joint plan, with each recovery, its plan, state and votes."""

    def describe_plan(recovery: Recovery, plan: Plan) -> Body:
        shown = by_hand.planned(recovery, plan)
        return {**shown, "state": recovery.state, "approvals": describe_votes(recovery, plan)}

    return dict(by_hand.describe_joint(joint, describe_plan))
