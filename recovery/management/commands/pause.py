"""`manage.py pause RECOVERY`: let the step that runs end, and begin no further one."""

from argparse import ArgumentParser

from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.roles import Right
from recovery.workflow import actions
from recovery.workflow.selectors import recovery_or_404


class Command(RepriseCommand):
    """Exit 0: no step begins any more; 1: it does not run, or is being measured already; 2: there is no such."""

    help = (
        "Pauses a running recovery: the current step ends by itself and no other begins. execute "
        "resumes it. To stop its update at once, use stop."
    )
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12.")

    def answer(self, options: Options) -> CommandAnswer:
        recovery = recovery_or_404(options["recovery"], self.actor)
        actions.pause_run(recovery_id=recovery.pk, by=self.actor)
        says = (
            f"{recovery.label} begins no further step. Resume it with: bin/manage execute {recovery.label}."
        )
        return CommandAnswer({"recovery": recovery.label, "state": recovery.state, "paused": True}, says)
