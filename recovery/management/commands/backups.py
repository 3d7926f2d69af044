"""`manage.py backups list|remove`: copies of tables that recoveries have made before they emptied them."""

from argparse import SUPPRESS, ArgumentParser
from typing import Any

from recovery.management.commands._base import Answer, RepriseCommand, table
from recovery.people.roles import Right
from recovery.workflow import backup_actions
from recovery.workflow.backup_actions import TableBackup
from recovery.workflow.selectors import recovery_or_404


class Command(RepriseCommand):
    """`list`: `{backups}`; `remove`: `{recovery, removed}`. Exit 1: it stays, and why; 2: there is none."""

    help = "Lists and removes the backups of tables."
    right = Right.VIEW

    def add_options(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="list|remove")
        _common(acts.add_parser("list", help="All backups, with what they hold."))
        gone = acts.add_parser("remove", help="Remove those of a recovery that has ended and was signed off.")
        gone.add_argument("recovery", help="R-12 or 12.")
        gone.add_argument("--reason", default="", help="Why, for the audit log.")
        _common(gone)

    def answer(self, options: dict[str, Any]) -> Answer:
        if options["act"] == "list":
            found = [_as_json(one) for one in backup_actions.list_backups(self.actor)]
            return Answer({"backups": found}, _listed(found))
        recovery = recovery_or_404(options["recovery"], self.actor)
        removed = backup_actions.remove_backups(
            recovery_id=recovery.pk, by=self.actor, reason=options["reason"]
        )
        return Answer({"recovery": recovery.label, "removed": removed}, f"Removed {', '.join(removed)}.")


def _common(parser: ArgumentParser) -> None:
    """What every command takes; a subcommand has a parser of its own."""
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help="One JSON object on stdout.")
    parser.add_argument(
        "--token-file", default=SUPPRESS, help="File with your access token, instead of REPRISE_TOKEN."
    )


def _as_json(one: TableBackup) -> dict[str, object]:
    kept = one.kept
    return {
        "recovery": one.recovery.label, "table": kept.table, "place": kept.place, "version": kept.version,
        "rows": kept.rows, "bytes": kept.bytes, "at": kept.at, "is_there": one.is_there, "stays": one.stays,
    }  # fmt: skip


def _listed(found: list[dict[str, object]]) -> str:
    names = ("recovery", "table", "rows", "at", "place", "stays")
    return table(names, [[one[name] for name in names] for one in found]) if found else "No backups."
