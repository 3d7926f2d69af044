"""`manage.py handover RECOVERY [--to NAME]`: another owner for an open recovery; without a name, oneself."""

from argparse import ArgumentParser

from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.roles import Right
from recovery.workflow import actions
from recovery.workflow.selectors import recovery_or_404


class Command(RepriseCommand):
    """Exit 0: it has the new owner; 1: refused (not yours to give, no one of that name, no reason); 2: no such."""

    help = (
        "Hands your open recovery to another person who may recover there. Without --to, takes over "
        "someone else's, with a reason. Notifies both owners."
    )
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12.")
        parser.add_argument("--to", default="", help="The new owner. Default: you.")
        parser.add_argument("--reason", default="", help="Why, for the audit log. Required to take over.")

    def answer(self, options: Options) -> CommandAnswer:
        recovery = recovery_or_404(options["recovery"], self.actor)
        to = options["to"] or self.actor.name
        actions.hand_over(recovery_id=recovery.pk, to=to, reason=options["reason"], by=self.actor)
        data = {"recovery": recovery.label, "owner": to, "was": recovery.owner}
        return CommandAnswer(data, f"{recovery.label} is {to}'s now; it was {recovery.owner}'s.")
