"""Proves that the audit log is whole: reads it once, from the first entry to the last, in chunks."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import connection

from recovery.audit import anchor, chain, guard
from recovery.models import AuditEntry

MOST_PROBLEMS: Final = 100
"""More are counted, not kept: a log that was rewritten has as many problems as entries."""


class _Walk:
    """Where the walk stands: the entry before, and what was found so far."""

    def __init__(self) -> None:
        self.seq = 0
        self.hash = chain.GENESIS
        self.entries = 0
        self.count = 0
        self.problems: list[dict[str, Any]] = []

    def problem(self, seq: int, says: str) -> None:
        self.count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append({"seq": seq, "says": says})

    def step(self, entry: Mapping[str, Any]) -> None:
        seq: int = entry["seq"]
        if seq > self.seq + 1:
            gap = (
                f"Entry {self.seq + 1} is"
                if seq == self.seq + 2
                else f"Entries {self.seq + 1} to {seq - 1} are"
            )
            self.problem(self.seq + 1, f"{gap} missing: removed after the fact.")
        elif seq <= self.seq:
            self.problem(seq, f"Entry {seq} has no place in the chain: inserted after the fact.")
        if chain.digest(entry) != entry["hash"]:
            self.problem(seq, f"Entry {seq} is not what was written: its hash does not fit its contents.")
        elif entry["prev_hash"] != self.hash and seq == self.seq + 1:
            self.problem(
                seq, f"Entry {seq} does not follow the entry before it: inserted, moved or rewritten."
            )
        self.seq, self.hash = seq, entry["hash"]
        self.entries += 1


def check_chain() -> dict[str, Any]:
    """`{ok, entries, head, problems: [{seq, says}]}`; `head` is the newest hash, "" for an empty log.

    Finds any change, removal (at the end too, by the anchor), insertion and reorder, and a database
    that no longer refuses changes (`seq` 0).
    """
    walk = _Walk()
    remembered, unreadable = _remembered()
    if unreadable:
        walk.problem(0, unreadable)
    met = ""
    for entry in (
        AuditEntry.objects.order_by("seq", "pk").values(*chain.FIELDS, "hash").iterator(chunk_size=500)
    ):
        walk.step(entry)
        if remembered and entry["seq"] == remembered.seq:
            met = entry["hash"]
    if remembered:
        _compare(walk, remembered, met)
    if not guard.stands(connection):
        walk.problem(0, "The database no longer refuses changes to the log: its triggers are gone.")
    if walk.count > len(walk.problems):
        walk.problems.append({"seq": 0, "says": f"{walk.count - len(walk.problems)} more problems."})
    head = walk.hash if walk.entries else ""
    return {"ok": not walk.count, "entries": walk.entries, "head": head, "problems": walk.problems}


def _remembered() -> tuple[anchor.Anchor | None, str]:
    """The anchor, read *before* the log: entries that come meanwhile can only be newer."""
    file = anchor.path(connection)
    try:
        return anchor.read(file), ""
    except (OSError, ValueError):
        return None, f"The file {file}, which remembers the end of the log, cannot be read."


def _compare(walk: _Walk, remembered: anchor.Anchor, met: str) -> None:
    file = anchor.path(connection)
    reset = f"If the database was reset or restored on purpose, remove {file}."
    if walk.seq < remembered.seq:
        cut = "Entry" if walk.seq + 1 == remembered.seq else f"Entries {walk.seq + 1} to"
        verb = "is" if cut == "Entry" else "are"
        walk.problem(walk.seq + 1, f"{cut} {remembered.seq} {verb} missing at the end. {reset}")
    elif met and met != remembered.hash:
        walk.problem(
            remembered.seq, f"Entry {remembered.seq} has another hash than when it was written. {reset}"
        )
