"""The words of what is found wrong with the audit log, once each: by its code. `…` stands for a time or a file."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from recovery.audit import anchoring, chain, guard, keys
from recovery.audit.verifying import ChainProblem
from recovery.models import AuditAnchor, AuditEntry
from tests.unit.audit.conftest import kept_outside, problems, sign, signed_log, unguarded, write
from tests.unit.audit.test_audit_tampering import append, forge, remove, rewrite

__all__ = ["kept_outside", "sign", "signed_log", "write"]
Act = Callable[[Path], Any]


def moved(folder: Path) -> None:
    """Entry 8 does not follow entry 7, and its own hash fits."""
    with unguarded():
        entry = AuditEntry.objects.filter(seq=8).values(*chain.FIELDS).get()
        new = {**entry, "prev_hash": "0" * 64}
        AuditEntry.objects.filter(seq=8).update(prev_hash="0" * 64, hash=chain.entry_hash(new))


def inserted(folder: Path) -> None:
    new = {**AuditEntry.objects.filter(seq=4).values(*chain.FIELDS).get(), "seq": 0}
    AuditEntry(**new, hash=chain.entry_hash(new)).save(force_insert=True)


def written_over(folder: Path) -> None:
    remove(7, 8)
    append()
    append()


def without_anchor(folder: Path) -> None:
    with unguarded():
        AuditAnchor.objects.filter(seq=3)._raw_delete(using="default")  # type: ignore[attr-defined]


def anchored_otherwise(folder: Path) -> None:
    rewrite(6, says="forged")
    with unguarded():
        AuditAnchor.objects.filter(seq=6).update(hash=AuditEntry.objects.get(seq=6).hash)


def unlisted(folder: Path) -> None:
    (folder / "audit.keys").write_text("")


def unread(folder: Path) -> None:
    file = next(folder.glob("*.head"))
    file.write_bytes(b"\xff\xfe nothing")


def cut_without_signature(folder: Path) -> None:
    entry = AuditEntry.objects.get(seq=4)
    AuditAnchor(
        kind=anchoring.CUT, seq=4, hash=entry.hash, at=timezone.now(), key_id=next(iter(keys.public_keys())),
        signature="00" * 64,
    ).save(force_insert=True)  # fmt: skip


WORDS: tuple[tuple[ChainProblem, str, Act], ...] = (
    (
        ChainProblem.ENTRIES_MISSING,
        "Entries 4 to 5 are missing: removed after the fact.",
        lambda _: remove(4, 5),
    ),
    (
        ChainProblem.END_MISSING,
        "Entries 7 to 8 are missing at the end. If the database was reset or restored on purpose, remove … and ….",
        lambda _: remove(7, 8),
    ),
    (
        ChainProblem.END_REWRITTEN,
        "Entry 8 has another hash than when it was written. If the database was reset or restored on purpose, remove … "
        "and ….",
        written_over,
    ),
    (
        ChainProblem.ENTRY_INSERTED,
        "Entry 0 has no place in the chain: inserted after the fact.",
        inserted,
    ),
    (
        ChainProblem.ENTRY_CHANGED,
        "Entry 7 is not what was written: its hash does not fit its contents.",
        lambda _: forge(7, says="forged"),
    ),
    (
        ChainProblem.ENTRY_MALFORMED,
        "Entry 7 is not what was written: it holds fields that its format does not have.",
        lambda _: forge(7, format=1),
    ),
    (
        ChainProblem.ENTRY_MOVED,
        "Entry 8 does not follow the entry before it: inserted, moved or rewritten.",
        moved,
    ),
    (
        ChainProblem.SEAL_WRONG,
        "Entry 9 was not written by Reprise: its seal does not fit.",
        lambda _: append(),
    ),
    (
        ChainProblem.SEAL_UNKNOWN_KEY,
        "The seal of entry 9 is by a key that is not known here, and no anchor covers it. If the secret key was "
        "changed, give the former one (REPRISE_SECRET_KEY_FALLBACKS).",
        lambda _: append(seal="f" * 16 + ":" + "0" * 64),
    ),
    (
        ChainProblem.FORMAT_OLDER,
        "Entry 9 was not written by Reprise: its format is older than that of the entry before it.",
        lambda _: append(format=2),
    ),
    (
        ChainProblem.SIGNED_MISSING,
        "Entry 3, signed on … UTC, is missing.",
        lambda _: remove(3, 3),
    ),
    (
        ChainProblem.SIGNED_REWRITTEN,
        "Entry 6 has another hash than was signed on … UTC: rewritten.",
        lambda _: rewrite(6, says="forged"),
    ),
    (
        ChainProblem.ANCHOR_UNKNOWN_KEY,
        "The anchor of entry 3 in the … is signed with key …, which is not on the list of public keys.",
        unlisted,
    ),
    (
        ChainProblem.ANCHOR_FORGED,
        "The anchor of entry 6 in the database carries a signature that does not fit: forged or changed.",
        anchored_otherwise,
    ),
    (
        ChainProblem.ANCHOR_REMOVED,
        "The signed anchor of entry 3 was removed from the database.",
        without_anchor,
    ),
    (
        ChainProblem.CUT_FORGED,
        "The record that entries up to 4 were archived carries a signature that does not fit: forged or changed.",
        cut_without_signature,
    ),
    (
        ChainProblem.FILE_UNREADABLE,
        "The file …, which remembers the end of the log, cannot be read.",
        unread,
    ),
    (
        ChainProblem.TRIGGERS_GONE,
        "The database no longer refuses changes to the log: its triggers are gone (…).",
        lambda _: guard.remove_triggers(connection),
    ),
)


@pytest.mark.usefixtures("signed_log")
@pytest.mark.parametrize(("code", "words", "act"), WORDS, ids=lambda of: of if isinstance(of, str) else "")
def test_what_is_wrong_is_said_in_these_words(
    kept_outside: Path, code: ChainProblem, words: str, act: Act
) -> None:
    act(kept_outside)
    said = {p["code"]: p["says"] for p in reversed(problems())}
    assert re.fullmatch(re.escape(words).replace("…", ".+"), said[code]), said
