"""`manage.py cancel RECOVERY`: end an open recovery that has changed nothing."""

from argparse import ArgumentParser

from recovery.management.commands import _together
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.roles import Right
from recovery.workflow import actions, joint_actions
from recovery.workflow.selectors import joint_or_404, recovery_or_404


class Command(RepriseCommand):
    """Exit 0: cancelled; 1: it has changed something already; 2: there is no such recovery."""

    help = "Ends an open recovery that has changed nothing."
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12; J-3 for plans that run together.")
        parser.add_argument("--reason", default="", help="Why, for the audit log.")

    def answer(self, options: Options) -> CommandAnswer:
        if _together.names_joint(options["recovery"]):
            joint = joint_or_404(options["recovery"], self.actor)
            joint_actions.cancel_joint(joint_id=joint.pk, by=self.actor, reason=options["reason"])
            return _together.describe_state(joint)
        recovery = recovery_or_404(options["recovery"], self.actor)
        actions.cancel(recovery_id=recovery.pk, by=self.actor, reason=options["reason"])
        recovery.refresh_from_db()
        return CommandAnswer(
            {"recovery": recovery.label, "state": recovery.state}, f"{recovery.label} is cancelled."
        )
