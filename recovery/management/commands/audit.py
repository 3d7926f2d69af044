"""`manage.py audit verify|export`: is the log whole, and what is in it."""

import io
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, TextIO, cast

from recovery.audit.actions import export, verify
from recovery.errors import Refused
from recovery.management.commands._base import Answer, RepriseCommand
from recovery.people.roles import Right


class Command(RepriseCommand):
    """verify: exit 1 on a broken chain. export: the log on stdout or in a new file (mode 0600)."""

    help = "Checks or exports the audit log."
    right = Right.READ_AUDIT

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("act", choices=["verify", "export"])
        parser.add_argument("--format", choices=["csv", "json"], default="csv", help="Of the export.")
        parser.add_argument("--output", help="A file that is not there yet; else stdout.")

    def answer(self, options: dict[str, Any]) -> Answer:
        if options["act"] == "verify":
            return self.verified()
        return self.exported(options["format"], options["output"])

    def verified(self) -> Answer:
        """The chain, checked from the first entry to the last."""
        found = verify(by=self.actor)
        if found["ok"]:
            return Answer(
                found, f"The audit log is whole: {found['entries']} entries, head {found['head'][:12]}."
            )
        lines = [
            f"The audit log is NOT whole: {len(found['problems'])} problems in {found['entries']} entries."
        ]
        lines += [f"  {p['says']}" for p in found["problems"]]
        lines.append("Keep this database as it is, and call whoever is responsible for the audit.")
        return Answer(found, "\n".join(lines), exit_code=1)

    def exported(self, fmt: str, output: str | None) -> Answer:
        """The log. With --json and no --output, the one object on stdout holds the entries."""
        if output is None and self.as_json:
            buffer = io.StringIO()
            count = export(fmt="json", stream=buffer, by=self.actor)
            return Answer({"format": "json", "count": count, "entries": json.loads(buffer.getvalue())}, "")
        if output is None:
            raw = cast(TextIO, self.stdout._out)  # the wrapper's own write() would add line ends
            export(fmt=fmt, stream=raw, by=self.actor)
            return Answer({}, "")
        file = Path(output).expanduser()
        try:
            file.touch(mode=0o600, exist_ok=False)
        except FileExistsError as error:
            raise Refused(
                f"{file} is already there. Name another file: an export never overwrites."
            ) from error
        except OSError as error:
            raise Refused(f"{file} cannot be written: {error.strerror}.") from error
        try:
            with file.open("w", encoding="utf-8", newline="") as stream:
                count = export(fmt=fmt, stream=stream, by=self.actor)
        except BaseException:
            file.unlink(missing_ok=True)  # half a log must not be taken for a whole one
            raise
        return Answer(
            {"format": fmt, "file": str(file), "count": count}, f"Exported {count} entries to {file}."
        )
