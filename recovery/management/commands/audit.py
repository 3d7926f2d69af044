"""`manage.py audit verify|export|review|pack|archive|keys`: is the log whole, what is in it, who looked at it."""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from recovery.audit import archiving, keys, log_operations, reviews
from recovery.audit.evidence import pack_evidence
from recovery.audit.listing import EntryFilter
from recovery.audit.tags import ACTIONS, OUTCOMES
from recovery.contracts import codec
from recovery.errors import Refused, WrongUse
from recovery.management.commands._base import (
    CommandAnswer,
    Options,
    RepriseCommand,
    add_common_options,
    table,
)
from recovery.names import shown
from recovery.people.roles import Right

HELP = {
    "verify": "Read the whole log and say whether it is unbroken; exit 1 when it is not. With --archive, check one.",
    "export": "The log, oldest first, on stdout or into a new file (mode 0600). The export is an entry itself.",
    "review": "What waits for review; with --sign and --note, sign one entry off.",
    "pack": "Everything about one recovery in one ZIP file that can be read and checked offline.",
    "archive": "Move old entries into a signed file. The log stays provable; this cannot be undone.",
    "keys": "The public keys that signed the log; with --renew, sign with a new one from now on.",
}


class Command(RepriseCommand):
    """One sub-command an act; each is an entry of the log."""

    help = "Checks, lists, exports and reviews the audit log."
    right = Right.READ_AUDIT

    def add_options(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
        subs = {}
        for name, words in HELP.items():
            sub = acts.add_parser(name, help=words, description=words)
            add_common_options(sub)
            subs[name] = sub
        subs["verify"].add_argument(
            "--archive", help="Check a file written by `audit archive` instead of the log."
        )
        self._export_options(subs["export"])
        subs["review"].add_argument("--sign", type=int, metavar="ENTRY", help="Sign this entry off.")
        subs["review"].add_argument("--note", default="", help="What you checked and what you concluded.")
        subs["review"].add_argument("--signed", action="store_true", help="List signed-off entries instead.")
        subs["pack"].add_argument("recovery", metavar="RECOVERY", help="R-7, or 7.")
        subs["pack"].add_argument("--output", required=True, help="A new file.")
        subs["archive"].add_argument(
            "--older-than", type=int, required=True, metavar="DAYS", help=f"At least {archiving.LEAST_DAYS}."
        )
        subs["archive"].add_argument(
            "--to", required=True, metavar="FOLDER", help="Folder for the file and its signature."
        )
        subs["keys"].add_argument("--renew", action="store_true", help="Make a new key and sign with it.")

    def _export_options(self, sub: ArgumentParser) -> None:
        sub.add_argument("--format", choices=["csv", "json"], default="csv")
        sub.add_argument("--output", help="A new file. Default: stdout.")
        sub.add_argument("--recovery", default="", help="Only entries of this recovery.")
        sub.add_argument("--who", default="", help="Only entries by this person or on their behalf.")
        sub.add_argument(
            "--action", choices=sorted(ACTIONS), default="", metavar="ACTION", help="recovery.execute, …"
        )
        sub.add_argument("--outcome", choices=list(OUTCOMES), default="")
        sub.add_argument("--environment", default="")
        sub.add_argument(
            "--from",
            default="",
            metavar="WHEN",
            help="First day or time, in UTC: 2026-11-21 or 2026-11-21T03:00.",
        )
        sub.add_argument("--to", default="", metavar="WHEN", help="Last day (included) or time, in UTC.")
        sub.add_argument("--text", default="", help="Only entries that contain this text.")

    def answer(self, options: Options) -> CommandAnswer:
        act: dict[str, Any] = {
            "verify": self.verified, "export": self.exported, "review": self.reviewed, "pack": self.packed,
            "archive": self.archived, "keys": self.keyring,
        }  # fmt: skip
        found: CommandAnswer = act[options["act"]](options)
        return found

    def verified(self, options: Options) -> CommandAnswer:
        """The chain, checked from the first entry to the last; or an archive of it."""
        if options["archive"]:
            return self._verified_archive(Path(options["archive"]).expanduser())
        found = log_operations.verify_chain(by=self.actor)
        if found["ok"]:
            signed = f" Signed up to entry {found['anchored']}." if found["anchored"] else " Not signed yet."
            text = f"The audit log is whole: {found['entries']} entries, head {found['head'][:12]}.{signed}"
            return CommandAnswer(found, text)
        lines = [
            f"The audit log is NOT whole: {len(found['problems'])} problems in {found['entries']} entries."
        ]
        lines += [f"  {shown(p['says'])}" for p in found["problems"]]
        lines.append("Keep this database as it is, and call the person responsible for the audit.")
        return CommandAnswer(found, "\n".join(lines), exit_code=1)

    def _verified_archive(self, file: Path) -> CommandAnswer:
        problems = archiving.check_archive(file)
        says = "\n".join(problems) or f"{file.name} is what was archived: its signature and its chain fit."
        return CommandAnswer(
            {"ok": not problems, "file": str(file), "problems": problems}, says, int(bool(problems))
        )

    def exported(self, options: Options) -> CommandAnswer:
        """The log. With --json and no --output, the one object on stdout holds the entries."""
        names = {"act": "action", "env": "environment", "q": "text"}
        given = {
            n: options[names.get(n, n)]
            for n in ("recovery", "who", "outcome", "act", "env", "from", "to", "q")
        }
        fmt, output = options["format"], options["output"]
        if output is None:
            fmt = "json" if self.as_json else fmt
            pieces = log_operations.export_log(fmt=fmt, by=self.actor, wanted=EntryFilter.from_query(given))
            if self.as_json:
                entries = json.loads("".join(pieces))
                return CommandAnswer({"format": "json", "count": len(entries), "entries": entries}, "")
            raw = cast(TextIO, self.stdout._out)  # the wrapper's own write() would add line ends
            for piece in pieces:
                raw.write(piece)
            return CommandAnswer({}, "")
        file = _new(output)
        count = _fill(
            file,
            lambda: log_operations.export_log(fmt=fmt, by=self.actor, wanted=EntryFilter.from_query(given)),
            fmt,
        )
        return CommandAnswer(
            {"format": fmt, "file": str(file), "count": count}, f"Exported {count} entries to {file}."
        )

    def reviewed(self, options: Options) -> CommandAnswer:
        """The queue, or one sign-off."""
        if options["sign"] is not None:
            made = reviews.sign_off(seq=options["sign"], note=options["note"], by=self.actor)
            data = {"entry": options["sign"], "by": made.by, "note": made.note, "at": made.at.isoformat()}
            return CommandAnswer(data, f"Entry {options['sign']} is signed off by {made.by}.")
        if options["note"]:
            raise WrongUse("A note belongs to a sign-off: name the entry with --sign.")
        items = [_item(q) for q in reviews.review_queue(self.actor, signed=options["signed"])]
        rows = [(i["entry"], i["why"], i["at"][:16].replace("T", " "), i["who"], i["says"]) for i in items]
        word = "signed off" if options["signed"] else "waiting"
        text = table(("ENTRY", "WHY", "TIME (UTC)", "WHO", "WHAT"), rows) if rows else f"Nothing is {word}."
        return CommandAnswer({"waiting": reviews.acts_to_review(self.actor), "items": items}, text)

    def packed(self, options: Options) -> CommandAnswer:
        file = _new(options["output"])
        try:
            with file.open("wb") as stream:
                made = pack_evidence(label=options["recovery"], stream=stream, by=self.actor)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return CommandAnswer(
            {"file": str(file), **codec.to_json(made)}, f"The evidence of {made.recovery} is in {file}."
        )

    def archived(self, options: Options) -> CommandAnswer:
        folder = Path(options["to"]).expanduser()
        made = archiving.archive_entries(days=options["older_than"], folder=folder, by=self.actor)
        if made is None:
            return CommandAnswer(
                {"entries": 0}, f"No entry is older than {options['older_than']} days. Nothing was removed."
            )
        return CommandAnswer(
            vars(made), f"Entries {made.first} to {made.last} are in {made.file}, and no longer in the log."
        )

    def keyring(self, options: Options) -> CommandAnswer:
        if options["renew"]:
            ids = log_operations.renew_key(by=self.actor)
            return CommandAnswer(
                ids,
                f"Signed with key {ids['new']} from now on. The old one, {ids['old']}, stays on the list.",
            )
        problem = log_operations.problem_with_key()
        known = {name: key.hex() for name, key in keys.public_keys().items()}
        data = {"file": str(keys.list_file()), "keys": known, "problem": problem}
        return CommandAnswer(
            data, problem or "\n".join(f"{n}  {k}" for n, k in known.items()), int(bool(problem))
        )


def _item(of: reviews.QueuedReview) -> dict[str, Any]:
    sign = getattr(of.item, "sign_off", None)
    return {
        "entry": of.item.seq, "why": of.item.why, "at": of.item.at.isoformat(),
        "who": of.entry.actor if of.entry else "", "says": of.entry.says if of.entry else "archived",
        "took_part": sorted(of.took_part),
        **({"signed_by": sign.by, "note": sign.note, "signed_at": sign.at.isoformat()} if sign else {}),
    }  # fmt: skip


def _new(name: str) -> Path:
    file = Path(name).expanduser()
    try:
        file.touch(mode=0o600, exist_ok=False)
    except FileExistsError as error:
        raise Refused(f"{file} is already there. Name another file: an export never overwrites.") from error
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}.") from error
    return file


def _fill(file: Path, begin: Callable[[], Iterator[str]], fmt: str) -> int:
    """Write the export and answer how many entries. A failure removes the file: half a log is no log."""
    pieces = 0
    try:
        with file.open("w", encoding="utf-8", newline="") as stream:
            for piece in begin():
                stream.write(piece)
                pieces += 1
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return pieces - (1 if fmt == "csv" else 2)  # a header; or the list's two brackets
