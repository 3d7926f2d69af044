"""`manage.py skip RECOVERY --reason TEXT`: skip the step at which a recovery stands, where that is allowed."""

from argparse import ArgumentParser

from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.roles import Right
from recovery.workflow import actions
from recovery.workflow.moves import state_label
from recovery.workflow.selectors import recovery_or_404


class Command(RepriseCommand):
    """Exit 0: skipped; 1: this step is never skipped, or the recovery does not stand still; 2: there is no such."""

    help = (
        "Skips the step at which a recovery needs attention, if that is allowed. A recovery without "
        "its proof ends as unproven, never as succeeded."
    )
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12.")
        parser.add_argument("--reason", required=True, help="Why, for the audit log and its reviewer.")

    def answer(self, options: Options) -> CommandAnswer:
        recovery = recovery_or_404(options["recovery"], self.actor)
        step = actions.skip_step(recovery_id=recovery.pk, reason=options["reason"], by=self.actor)
        recovery.refresh_from_db()
        data = {"recovery": recovery.label, "state": recovery.state, "skipped": step.kind}
        return CommandAnswer(
            data, f"Step {step.kind} is skipped. {recovery.label} is {state_label(recovery.state)}."
        )
