"""Retention that never breaks the chain: old entries go into a signed file, and a signed cut says where the log begins.

Order, so that a crash at any place loses nothing: the archive is written aside, put on disk, signed and renamed;
then, in one transaction, the cut, the archive's own entry and the removal. Until that commits the log is whole and
the command can be given again; after it, `verify` begins behind the cut. Without this command entries stay for ever.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.db import connection
from django.utils import timezone

from recovery.audit import anchoring, keys
from recovery.audit.actions import audited_attempt
from recovery.audit.exporting import COLUMNS, entry_columns
from recovery.audit.log_operations import sign_chain
from recovery.audit.offline import archive
from recovery.audit.verifying import check_chain
from recovery.errors import Refused, WrongUse
from recovery.models import AuditEntry, ReviewItem
from recovery.people.roles import Actor, Right

LEAST_DAYS: Final = 30
"""Younger entries are not archived: they are still being worked with."""


@dataclass(frozen=True)
class ArchivedEntries:
    """What was archived: entries `first` to `last`, `file` and the sha256 of its bytes."""

    first: int
    last: int
    entries: int
    file: str
    sha256: str


def archive_entries(*, days: int, folder: Path, by: Actor) -> ArchivedEntries | None:
    """Move entries older than `days` into a new file of `folder`; None when there is none so old.

    Raises Denied, WrongUse, Refused (the chain is broken, a review is open, the file cannot be written).
    """
    with audited_attempt(action="audit.archive", by=by, target_kind="audit log", target=str(folder)):
        by.check(Right.MANAGE)
        if days < LEAST_DAYS:
            raise WrongUse(f"Entries are archived when they are {LEAST_DAYS} days old or older.")
        cut = _where_to_cut(timezone.now() - timedelta(days=days))
        if cut is None:
            return None
    checked = check_chain()  # outside of a transaction: others may write meanwhile
    with audited_attempt(action="audit.archive", by=by, target_kind="audit log", target=str(folder)):
        if not checked["ok"]:
            raise Refused(
                f"Nothing was archived, the chain is broken: {checked['problems'][0]['says']}",
                code="log_broken",
            )
        sign_chain()  # what is archived has an anchor beside the signature of its file
        made = _write_archive(checked["first"], cut, folder)
    with audited_attempt(action="audit.archive", by=by, target_kind="audit log", target=made.file) as trying:
        detail = {
            "file": Path(made.file).name,
            "sha256": made.sha256,
            "first": made.first,
            "entries": made.entries,
        }
        says = f"Archived {made.entries} entries, {made.first} to {made.last}, older than {days} days."
        trying.done(says, after=detail)
        anchoring.sign_statement(anchoring.CUT, cut.seq, cut.hash, detail=detail)
        with connection.cursor() as cursor:  # the model refuses; the database lets a cut's entries go
            cursor.execute("DELETE FROM recovery_auditentry WHERE seq <= %s", [cut.seq])
    return made


def _where_to_cut(until: datetime) -> AuditEntry | None:
    """The last entry of the stretch that is old without a gap; the newest entry always stays."""
    young = AuditEntry.objects.filter(at__gte=until).order_by("seq").values_list("seq", flat=True).first()
    newest = AuditEntry.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
    before = min(young or newest, newest)
    waits = ReviewItem.objects.filter(sign_off=None, seq__lt=before).order_by("seq").first()
    if waits is not None:
        raise Refused(
            f"Entry {waits.seq} waits for its review. Sign it off, then archive.", code="review_waits"
        )
    return AuditEntry.objects.filter(seq__lt=before).order_by("-seq").first()


def _write_archive(first: int, cut: AuditEntry, folder: Path) -> ArchivedEntries:
    """The file of entries and, beside it, its signature. One that is there already must be the same."""
    name = f"reprise-audit-{first}-{cut.seq}.jsonl"
    entries = AuditEntry.objects.filter(seq__lte=cut.seq).order_by("seq").values(*COLUMNS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{name}.new"
        digest, count = _lines_to(draft, entries.iterator(chunk_size=500))
        file = folder / name
        if file.exists() and archive.sha256_of(file) != digest:
            raise Refused(f"{file} is already there and holds something else. Name another folder.")
        _write_signature(folder / f"{name}.sig", first, cut, digest, count)
        draft.rename(file)
        _sync_folder(folder)
    except OSError as error:
        raise Refused(
            f"The archive cannot be written: {error.strerror} ({folder}). Nothing was removed."
        ) from error
    return ArchivedEntries(first=first, last=cut.seq, entries=count, file=str(file), sha256=digest)


def _lines_to(draft: Path, entries: Iterator[dict[str, Any]]) -> tuple[str, int]:
    hashed, count = hashlib.sha256(), 0
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        for entry in entries:
            line = json.dumps(entry_columns(entry), sort_keys=True).encode() + b"\n"
            hashed.update(line)
            stream.write(line)
            count += 1
        stream.flush()
        os.fsync(stream.fileno())
    return hashed.hexdigest(), count


def _write_signature(file: Path, first: int, cut: AuditEntry, digest: str, count: int) -> None:
    key = keys.signing_key()
    said = {"what": "reprise audit archive", "first": first, "last": cut.seq, "entries": count,
            "last_hash": cut.hash, "sha256": digest, "key_id": keys.key_id(keys.public_bytes(key))}  # fmt: skip
    message = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    text = json.dumps({**said, "signature": key.sign(message).hex()}, indent=2, sort_keys=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(text + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_archive(file: Path) -> list[str]:
    """What is wrong with an archive and its signature beside it, by the keys on the list of public keys. Raises
    Refused."""
    return archive.check_archive(file, keys.public_keys)
