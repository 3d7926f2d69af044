"""What `bin/manage --help` shows: our commands, by what they are for, each with its own line."""

from collections.abc import Mapping
from typing import Final

from django.core.management import ManagementUtility, load_command_class

APP: Final = "recovery"
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "See what is wrong": ("flows", "diagnose", "inspect"),
    "Recover": ("stop", "plan", "recover", "execute", "pause", "rollback", "skip", "cancel", "handover", "refresh"),
    "Approve and audit": ("request", "approve", "reject", "audit"),
    "Set up": ("adopt", "workspace", "token", "administrator", "backups", "serve_pipelines"),
}  # fmt: skip


class CommandLine(ManagementUtility):
    """Django's, without its own commands in the help: some of them, as `flush`, empty the database."""

    def main_help_text(self, commands_only: bool = False) -> str:
        """The overview; only the names of all commands, Django's too, where a shell completes them."""
        return super().main_help_text(commands_only=True) if commands_only else write_overview()


def write_overview() -> str:
    """All groups, and where to read on."""
    lines = ["bin/manage COMMAND [--json] …    (bin/manage COMMAND --help: its options)"]
    for title, names in GROUPS.items():
        lines += ["", title]
        lines += [f"  {name:<16} {_read_first_sentence(name)}" for name in names]
    return "\n".join([*lines, "", "You act as the owner of the token in REPRISE_TOKEN. See docs/guide.md."])


def _read_first_sentence(name: str) -> str:
    return f"{load_command_class(APP, name).help.partition('. ')[0].rstrip('.')}."
