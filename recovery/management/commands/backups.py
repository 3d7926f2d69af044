"""`manage.py backups list|remove`: copies of tables that recoveries have made before they emptied them."""

from argparse import ArgumentParser

from recovery.contracts import codec
from recovery.contracts.results import ListedBackup
from recovery.management.commands._base import (
    CommandAnswer,
    Options,
    RepriseCommand,
    add_common_options,
    table,
)
from recovery.people.roles import Right
from recovery.workflow import backup_actions
from recovery.workflow.selectors import recovery_or_404


class Command(RepriseCommand):
    """`list`: `{backups}`; `remove`: `{recovery, removed}`. Exit 1: it stays, and why; 2: there is none."""

    help = "Lists and removes the backups of tables."
    right = Right.VIEW

    def add_options(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="list|remove")
        add_common_options(acts.add_parser("list", help="List all backups and what they hold."))
        gone = acts.add_parser(
            "remove", help="Remove the backups of a recovery that has ended and was signed off."
        )
        gone.add_argument("recovery", help="R-12 or 12.")
        gone.add_argument("--reason", default="", help="Why, for the audit log.")
        add_common_options(gone)

    def answer(self, options: Options) -> CommandAnswer:
        if options["act"] == "list":
            found = backup_actions.list_backups(self.actor)
            return CommandAnswer({"backups": [codec.to_json(one) for one in found]}, _lines(found))
        recovery = recovery_or_404(options["recovery"], self.actor)
        removed = backup_actions.remove_backups(
            recovery_id=recovery.pk, by=self.actor, reason=options["reason"]
        )
        return CommandAnswer(
            {"recovery": recovery.label, "removed": removed}, f"Removed {', '.join(removed)}."
        )


def _lines(found: list[ListedBackup]) -> str:
    names = ("recovery", "table", "rows", "at", "place", "stays")
    return table(names, [[getattr(one, name) for name in names] for one in found]) if found else "No backups."
