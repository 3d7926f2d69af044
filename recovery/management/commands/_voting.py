"""What `approve` and `reject` share."""

from argparse import ArgumentParser
from typing import Any, ClassVar

from recovery.approvals import actions
from recovery.approvals.joint_actions import vote_on_joint
from recovery.approvals.selectors import read_approvals
from recovery.management.commands import _acting, _together
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.models import Plan, Recovery
from recovery.people.roles import Right
from recovery.workflow import by_hand
from recovery.workflow.selectors import joint_or_404, recovery_or_404


class VoteCommand(RepriseCommand):
    """`{recovery, state, plan_hash, vote, approvals}`."""

    right = Right.APPROVE
    choice: ClassVar[str] = ""

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12; J-3 for plans that run together.")
        parser.add_argument("--reason", required=True, help="Why, for the audit log.")
        _acting.plan_hash_option(parser)

    def answer(self, options: Options) -> CommandAnswer:
        if _together.names_joint(options["recovery"]):
            return self._vote_together(options)
        recovery = recovery_or_404(options["recovery"], self.actor)
        request = actions.cast_vote(
            recovery_id=recovery.pk,
            choice=self.choice,
            reason=options["reason"],
            plan_hash=options["plan"],
            by=self.actor,
        )
        recovery.refresh_from_db()
        data = self._voted(recovery, request.plan)
        word = "Approved" if self.choice == "approve" else "Rejected"
        return CommandAnswer(
            data, f"{word} plan {request.plan.hash[:8]}. {_acting.awaited(recovery, request.plan)}".rstrip()
        )

    def _voted(self, recovery: Recovery, plan: Plan) -> dict[str, Any]:
        return {
            "recovery": recovery.label,
            "state": recovery.state,
            "plan_hash": plan.hash,
            "vote": self.choice,
            "approvals": read_approvals(recovery, plan),
        }

    def _vote_together(self, options: Options) -> CommandAnswer:
        joint = joint_or_404(options["recovery"], self.actor)
        vote_on_joint(
            joint_id=joint.pk,
            choice=self.choice,
            reason=options["reason"],
            joint_hash=options["plan"],
            by=self.actor,
        )
        word = "Approved" if self.choice == "approve" else "Rejected"
        then = "" if self.choice == "reject" else f" {_together.describe_wait(joint)}"
        return CommandAnswer(
            by_hand.describe_joint(joint, self._voted), f"{word} {joint.label} {joint.hash[:8]}.{then}"
        )
