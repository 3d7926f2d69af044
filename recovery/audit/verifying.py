"""Proves that the audit log is whole: reads it once, from the first entry to the last, in chunks.

What it is compared with is outside of the database: the keys that signed the anchors, the file of anchors, and
the file with the newest entry that this machine has seen.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from django.db import connection

from recovery.audit import anchor, anchoring, chain, entry_hmac, guard, keys
from recovery.audit.anchoring import SignedStatement
from recovery.models import AuditAnchor, AuditEntry

MOST_PROBLEMS: Final = 100
"""More are counted, not kept: a log that was rewritten has as many problems as entries."""

STRIDE: Final = 1000
"""After so many entries the check reports how far it is."""


class ChainProblem(StrEnum):
    """What is wrong with the log: the `code` of a problem."""

    #: entries are gone from the middle
    ENTRIES_MISSING = "entries_missing"
    #: entries that were seen or signed are gone from the end
    END_MISSING = "end_missing"
    #: the newest entry that was seen has another hash now
    END_REWRITTEN = "end_rewritten"
    #: an entry whose number is taken, or is before the first one
    ENTRY_INSERTED = "entry_inserted"
    #: an entry whose hash does not fit its contents
    ENTRY_CHANGED = "entry_changed"
    #: an entry that holds fields, or a format, that no version wrote so
    ENTRY_MALFORMED = "entry_malformed"
    #: an entry that does not follow the one before it
    ENTRY_MOVED = "entry_moved"
    #: an entry without the seal of one of our processes
    SEAL_WRONG = "seal_wrong"
    #: an entry sealed by a key that is not known here, and covered by no anchor
    SEAL_UNKNOWN_KEY = "seal_unknown_key"
    #: an entry of an older format than the one before it
    FORMAT_OLDER = "format_older"
    #: a signed entry that is gone
    SIGNED_MISSING = "signed_missing"
    #: an entry with another hash than was signed
    SIGNED_REWRITTEN = "signed_rewritten"
    #: an anchor by a key that is not on the list
    ANCHOR_UNKNOWN_KEY = "anchor_unknown_key"
    #: an anchor whose signature does not fit
    ANCHOR_FORGED = "anchor_forged"
    #: an anchor that only the file beside the log has
    ANCHOR_REMOVED = "anchor_removed"
    #: the record of an archive by a key that is not on the list
    CUT_UNKNOWN_KEY = "cut_unknown_key"
    #: the record of an archive whose signature does not fit
    CUT_FORGED = "cut_forged"
    #: the record of an archive that only the file beside the log has
    CUT_REMOVED = "cut_removed"
    #: a file beside the log that cannot be read
    FILE_UNREADABLE = "file_unreadable"
    #: the database no longer refuses changes
    TRIGGERS_GONE = "triggers_gone"
    #: how many more problems were counted and not kept
    MORE = "more"


class _Walk:
    """Where the walk is: the entry before, and what was found so far."""

    def __init__(self, seq: int = 0, hash: str = chain.GENESIS) -> None:
        self.seq = seq
        self.hash = hash
        self.format = 1
        self.unknown = 0  # the last entry whose seal is by a key that is not known here
        self.entries = 0
        self.count = 0
        self.problems: list[dict[str, Any]] = []

    def problem(self, seq: int, code: ChainProblem, says: str) -> None:
        self.count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append({"seq": seq, "code": code.value, "says": says})

    def step(self, entry: Mapping[str, Any]) -> None:
        seq: int = entry["seq"]
        if seq > self.seq + 1:
            gone = f"{_name_span(self.seq + 1, seq - 1)} missing: removed after the fact."
            self.problem(self.seq + 1, ChainProblem.ENTRIES_MISSING, gone)
        elif seq <= self.seq:
            says = f"Entry {seq} has no place in the chain: inserted after the fact."
            self.problem(seq, ChainProblem.ENTRY_INSERTED, says)
        if wrong := _find_entry_problem(entry):
            self.problem(seq, wrong[0], f"Entry {seq} is not what was written: {wrong[1]}.")
        elif entry["prev_hash"] != self.hash and seq == self.seq + 1:
            says = f"Entry {seq} does not follow the entry before it: inserted, moved or rewritten."
            self.problem(seq, ChainProblem.ENTRY_MOVED, says)
        elif unsealed := self._find_seal_problem(entry):
            self.problem(seq, unsealed[0], f"Entry {seq} was not written by Reprise: {unsealed[1]}.")
        self.entries += 1
        if seq > self.seq:
            self.seq, self.hash = seq, entry["hash"]

    def _find_seal_problem(self, entry: Mapping[str, Any]) -> tuple[ChainProblem, str] | None:
        """Why its seal does not prove that one of our processes wrote it; formats never go back to unsealed ones."""
        if entry["format"] < max(self.format, entry_hmac.FROM_FORMAT):
            older = "its format is older than that of the entry before it"
            return (ChainProblem.FORMAT_OLDER, older) if entry["format"] < self.format else None
        self.format = entry["format"]
        good = entry_hmac.seal_fits(entry["seal"] or "", entry["seq"], entry["hash"])
        if good is None and ":" in (entry["seal"] or ""):
            self.unknown = entry["seq"]
            return None
        return None if good else (ChainProblem.SEAL_WRONG, "its seal does not fit")


def _find_entry_problem(entry: Mapping[str, Any]) -> tuple[ChainProblem, str] | None:
    try:
        if chain.entry_hash(entry) == entry["hash"]:
            return None
    except (ValueError, TypeError, AttributeError) as error:
        why = str(error) if isinstance(error, ValueError) else "a value in it has another type"
        return ChainProblem.ENTRY_MALFORMED, why
    return ChainProblem.ENTRY_CHANGED, "its hash does not fit its contents"


def _name_span(first: int, last: int) -> str:
    return f"Entry {first} is" if first == last else f"Entries {first} to {last} are"


class _Anchors:
    """The signed anchors beside the walk: each is compared when its entry is passed."""

    def __init__(self, walk: _Walk, start: int, since: int | None) -> None:
        self.walk, self.start = walk, start
        self.known = keys.public_keys()
        anchors = anchoring.iterate_statements() if since is None else anchoring.statements_since(since)
        self.groups: Iterator[tuple[int, list[SignedStatement]]] = (
            (seq, list(group)) for seq, group in groupby(anchors, key=lambda s: s.statement.seq)
        )
        self.next = next(self.groups, None)
        self.good = 0
        self.last: SignedStatement | None = None

    def pass_by(self, seq: int, hash: str) -> None:
        """Compare what was said of the entries up to this one."""
        while self.next is not None and self.next[0] <= seq:
            is_sound = self._sound_anchors(*self.next)
            for said in is_sound:
                have = hash if said.statement.seq == seq else _hash_at(said.statement.seq)
                self._compare_anchor(said, have)
            self.next = next(self.groups, None)

    def _sound_anchors(self, seq: int, group: list[SignedStatement]) -> list[SignedStatement]:
        """Those of a group whose signatures fit; the rest are problems, and so is one that only the file has."""
        inside = {s.signature for s in group if not s.outside}
        sound = []
        for said in group:
            where = "in the file next to the log" if said.outside else "in the database"
            if problem := said.problem(self.known):
                code = (
                    ChainProblem.ANCHOR_FORGED
                    if said.key_id in self.known
                    else ChainProblem.ANCHOR_UNKNOWN_KEY
                )
                self.walk.problem(seq, code, f"The anchor of entry {seq} {where} {problem}.")
                continue
            if said.outside and said.signature not in inside and not _in_table(said):
                says = f"The signed anchor of entry {seq} was removed from the database."
                self.walk.problem(seq, ChainProblem.ANCHOR_REMOVED, says)
            if not said.outside or said.signature not in inside:
                sound.append(said)
        return sound

    def _compare_anchor(self, said: SignedStatement, have: str | None) -> None:
        seq, at = said.statement.seq, said.statement.at[:16].replace("T", " ")
        if have is None and seq <= self.start:
            return  # archived; the cut that covers it is signed too
        if have is None:
            says = f"Entry {seq}, signed on {at} UTC, is missing."
            self.walk.problem(seq, ChainProblem.SIGNED_MISSING, says)
        elif have != said.statement.hash:
            says = f"Entry {seq} has another hash than was signed on {at} UTC: rewritten."
            self.walk.problem(seq, ChainProblem.SIGNED_REWRITTEN, says)
        else:
            self.good += 1
            self.last = said

    def beyond(self) -> int:
        """What was signed about entries behind the last one that was read: the highest that is gone, or 0.

        An entry may have come, and been signed, while the log was read: it is there when looked for now.
        """
        gone = 0
        while self.next is not None:
            for said in self._sound_anchors(*self.next):
                have = _hash_at(said.statement.seq)
                if have is None and said.statement.seq > self.start:
                    gone = said.statement.seq
                else:
                    self._compare_anchor(said, have)
            self.next = next(self.groups, None)
        return gone


def _in_table(said: SignedStatement) -> bool:
    """Looked for once more: an anchor may have come between reading the table and reading the file."""
    return AuditAnchor.objects.filter(seq=said.statement.seq, signature=said.signature).exists()


def _hash_at(seq: int) -> str | None:
    return AuditEntry.objects.filter(seq=seq).values_list("hash", flat=True).first()


def _format_at(seq: int) -> int:
    return AuditEntry.objects.filter(seq=seq).values_list("format", flat=True).first() or 1


def check_chain(
    *, after: int | None = None, progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """`{ok, entries, first, head, problems: [{seq, code, says}], anchors, anchored}`.

    `head` is the newest hash, "" for an empty log; `first` the first entry that was not archived; `anchors` how many
    signed anchors fit, `anchored` the entry of the last. Finds any change, removal (at the end too), insertion and
    reorder, forged or removed anchors, and a database that no longer refuses changes (`seq` 0). `after`: only the
    entries behind this one, which was signed, and the anchors in the table from there on. `progress` is called now and
    then how many entries were read.
    """
    cut = _Walk()
    start, start_hash, unread = _find_start(cut)
    walk = _Walk(after or start, (_hash_at(after) or "") if after else start_hash)
    walk.problems, walk.count = cut.problems, cut.count
    walk.format = _format_at(after or start)
    remembered, unreadable = _read_remembered()
    if unreadable or unread:
        walk.problem(0, ChainProblem.FILE_UNREADABLE, unreadable or unread)
    anchors = _Anchors(walk, start, after)
    met = ""
    entries = AuditEntry.objects.filter(seq__gt=after) if after is not None else AuditEntry.objects.all()
    for entry in (
        entries.order_by("seq", "pk").values(*chain.FIELDS, "hash", "seal").iterator(chunk_size=1000)
    ):
        walk.step(entry)
        anchors.pass_by(entry["seq"], entry["hash"])
        if walk.entries % STRIDE == 0:
            progress(walk.entries)
        if remembered and entry["seq"] == remembered.seq:
            met = entry["hash"]
    if walk.count and _find_start(_Walk())[0] != start:
        return check_chain(after=after, progress=progress)  # entries were archived while the log was read
    _check_end(walk, anchors, remembered, met)
    if walk.unknown > (anchors.last.statement.seq if anchors.last else 0):
        walk.problem(
            walk.unknown,
            ChainProblem.SEAL_UNKNOWN_KEY,
            f"The seal of entry {walk.unknown} is by a key that is not known here, and no anchor covers it. If the "
            "secret key was changed, give the former one (REPRISE_SECRET_KEY_FALLBACKS).",
        )
    if gone := guard.missing_triggers(connection):
        walk.problem(
            0,
            ChainProblem.TRIGGERS_GONE,
            f"The database no longer refuses changes to the log: its triggers are gone ({', '.join(gone)}).",
        )
    if walk.count > len(walk.problems):
        more = f"{walk.count - len(walk.problems)} more problems."
        walk.problems.append({"seq": 0, "code": ChainProblem.MORE.value, "says": more})
    return {
        "ok": not walk.count,
        "entries": walk.entries,
        "first": start + 1,
        "head": walk.hash if walk.entries else "",
        "problems": walk.problems,
        "anchors": anchors.good,
        "anchored": anchors.last.statement.seq if anchors.last else 0,
    }


def _find_start(walk: _Walk) -> tuple[int, str, str]:
    """Where the log begins: behind the highest cut that our key signed. (seq, hash, what could not be read)."""
    seq, hash, known = 0, chain.GENESIS, keys.public_keys()
    try:
        cuts = anchoring.list_cuts()
    except OSError:
        return (
            seq,
            hash,
            f"The file {anchoring.anchor_file()}, which holds the signed anchors, cannot be read.",
        )
    inside = {c.signature for c in cuts if not c.outside}
    for cut in cuts:
        at = cut.statement.seq
        if problem := cut.problem(known):
            code = ChainProblem.CUT_FORGED if cut.key_id in known else ChainProblem.CUT_UNKNOWN_KEY
            walk.problem(at, code, f"The record that entries up to {at} were archived {problem}.")
            continue
        if cut.outside and cut.signature not in inside and not _in_table(cut):
            says = f"The record that entries up to {at} were archived was removed from the database."
            walk.problem(at, ChainProblem.CUT_REMOVED, says)
        seq, hash = at, cut.statement.hash
    return seq, hash, ""


def _read_remembered() -> tuple[anchor.Anchor | None, str]:
    """The newest entry seen, read *before* the log: entries that come meanwhile can only be newer."""
    file = anchor.anchor_path(connection)
    try:
        return anchor.read_anchor(file), ""
    except (OSError, ValueError):
        return None, f"The file {file}, which remembers the end of the log, cannot be read."


def _check_end(walk: _Walk, anchors: _Anchors, remembered: anchor.Anchor | None, met: str) -> None:
    """Compare the end with what was seen and signed before."""
    last = max(anchors.beyond(), remembered.seq if remembered else 0)
    file = anchor.anchor_path(connection)
    reset = (
        f" If the database was reset or restored on purpose, remove {file} and {anchoring.anchor_file()}."
        if file
        else ""
    )
    if walk.seq < last:
        says = f"{_name_span(walk.seq + 1, last)} missing at the end.{reset}"
        walk.problem(walk.seq + 1, ChainProblem.END_MISSING, says)
    elif remembered and met and met != remembered.hash:
        says = f"Entry {remembered.seq} has another hash than when it was written.{reset}"
        walk.problem(remembered.seq, ChainProblem.END_REWRITTEN, says)
