"""`manage.py request RECOVERY`: ask the people whom the environment names for their votes on the sealed plan."""

from argparse import ArgumentParser
from typing import Any

from recovery.approvals import actions
from recovery.approvals.joint_actions import request_joint_approval
from recovery.approvals.selectors import read_approvals
from recovery.management.commands import _acting, _together
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.models import Plan, Recovery
from recovery.people.roles import Right
from recovery.workflow import by_hand
from recovery.workflow.selectors import joint_or_404, recovery_or_404


class Command(RepriseCommand):
    """Exit 0: asked; 1: refused (none is needed, asked already, no plan); 2: there is no such recovery."""

    help = "Asks for approval of a sealed plan."
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12; J-3 for plans that run together.")
        parser.add_argument("--reason", default="", help="What approvers should know: why, ticket, deadline.")

    def answer(self, options: Options) -> CommandAnswer:
        if _together.names_joint(options["recovery"]):
            joint = joint_or_404(options["recovery"], self.actor)
            request_joint_approval(joint_id=joint.pk, reason=options["reason"], by=self.actor)
            return CommandAnswer(by_hand.describe_joint(joint, _asked), _together.describe_wait(joint))
        recovery = recovery_or_404(options["recovery"], self.actor)
        request = actions.request_approval(recovery_id=recovery.pk, reason=options["reason"], by=self.actor)
        recovery.refresh_from_db()
        return CommandAnswer(_asked(recovery, request.plan), _acting.awaited(recovery, request.plan))


def _asked(recovery: Recovery, plan: Plan) -> dict[str, Any]:
    return {
        "recovery": recovery.label,
        "state": recovery.state,
        "plan_hash": plan.hash,
        "approvals": read_approvals(recovery, plan),
    }
