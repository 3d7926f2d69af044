"""`manage.py rollback RECOVERY`: undo what can be undone."""

from argparse import ArgumentParser

from recovery.management.commands import _acting, _together
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.roles import Right
from recovery.workflow import actions, by_hand, joint_actions
from recovery.workflow.joining import plans_of
from recovery.workflow.selectors import joint_or_404, recovery_or_404


class Command(RepriseCommand):
    """Exit 0: rolled back; 1: it cannot be undone any more, and why; 2: something is away."""

    help = "Undoes the reset and restores the source, while the table has not moved past it."
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12; J-3 for plans that run together.")
        _acting.plan_hash_option(parser)
        parser.add_argument("--reason", default="", help="Why, for the audit log.")
        parser.add_argument("--timeout", type=float, default=300.0, help="Longest wait, in seconds.")

    def answer(self, options: Options) -> CommandAnswer:
        if _together.names_joint(options["recovery"]):
            return self._roll_back_together(options)
        recovery = recovery_or_404(options["recovery"], self.actor)
        actions.roll_back(
            recovery_id=recovery.pk,
            by=self.actor,
            reason=options["reason"],
            plan_hash=options["plan"],
        )
        recovery = by_hand.wait(recovery, say=_acting.say, timeout=options["timeout"])
        data = by_hand.summary(recovery)
        good = recovery.state == "rolled_back"
        return CommandAnswer(data, f"{recovery.label}: {recovery.reason}", exit_code=0 if good else 1)

    def _roll_back_together(self, options: Options) -> CommandAnswer:
        joint = joint_or_404(options["recovery"], self.actor)
        joint_actions.roll_back_joint(
            joint_id=joint.pk,
            by=self.actor,
            reason=options["reason"],
            joint_hash=options["plan"],
        )
        rested = [
            by_hand.wait(plan.recovery, say=_acting.say, timeout=options["timeout"])
            for plan in reversed(plans_of(joint))
        ]
        good = all(recovery.state == "rolled_back" for recovery in rested)
        return _together.describe_state(joint, exit_code=0 if good else 1)
