"""Signed anchors: at this time, entry N had this hash; said by a key that is not in the database.

Kept twice, in a table and in a file outside (`audit-<database>.anchors` in REPRISE_AUDIT_FOLDER, a JSON line each).
Whoever rewrites the log cannot sign what it became, and whoever removes anchors from the table does not reach the
file. A machine that only verifies needs the public keys and, for the removal of anchors, that file.
"""

import heapq
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from recovery.audit import anchor, keys
from recovery.models import AuditAnchor

log = logging.getLogger(__name__)

MARK: Final = "mark"
CUT: Final = "cut"
KEY: Final = "key"


@dataclass(frozen=True)
class AnchorStatement:
    """What is signed. `at`: ISO 8601, UTC, microseconds."""

    kind: str
    seq: int
    hash: str
    at: str
    detail: dict[str, Any] = field(default_factory=dict)

    def message(self) -> bytes:
        """The bytes under the signature: canonical JSON, led by what it is."""
        fields = {"what": "reprise audit anchor", **asdict(self)}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


@dataclass(frozen=True)
class SignedStatement:
    """A statement with its signature. `outside`: read from the file, not from the table."""

    statement: AnchorStatement
    key_id: str
    signature: str
    outside: bool = False

    def problem(self, known: dict[str, bytes]) -> str:
        """Why it proves nothing; "" for a good one."""
        if self.key_id not in known:
            return f"is signed with key {self.key_id}, which is not on the list of public keys"
        if not keys.is_signed_by(known[self.key_id], self.signature, self.statement.message()):
            return "carries a signature that does not fit: forged or changed"
        return ""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self.statement), "key_id": self.key_id, "signature": self.signature}


def anchor_file() -> Path | None:
    """Where the anchors of this database are kept outside of it; None for a database in memory."""
    name = anchor.name_of(connection)
    return Path(settings.REPRISE_AUDIT_FOLDER) / f"audit-{name}.anchors" if name else None


def sign_statement(
    kind: str,
    seq: int,
    hash: str,
    *,
    detail: dict[str, Any] | None = None,
    key: Ed25519PrivateKey | None = None,
) -> SignedStatement:
    """Sign and keep a statement: in the table now, in the file after the commit. Raises Unreachable (no key)."""
    key = key or keys.signing_key()
    at = timezone.now().astimezone(UTC)
    statement = AnchorStatement(kind, seq, hash, at.isoformat(timespec="microseconds"), detail or {})
    signed = SignedStatement(
        statement, keys.key_id(keys.public_bytes(key)), key.sign(statement.message()).hex()
    )
    with transaction.atomic():
        AuditAnchor(
            kind=kind, seq=seq, hash=hash, at=at, detail=statement.detail, key_id=signed.key_id,
            signature=signed.signature,
        ).save(force_insert=True)  # fmt: skip
        transaction.on_commit(lambda: _keep_outside(signed), robust=True)
    return signed


def _keep_outside(signed: SignedStatement) -> None:
    """One write of one line, put on disk. A full disk is logged: `verify` says that the file lacks it."""
    place = anchor_file()
    if place is None:
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # the machine stopped in the last line
            line = json.dumps(signed.as_dict(), sort_keys=True).encode() + b"\n"
            os.write(handle, b"\n" + line if torn else line)
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        log.warning("The anchor of audit entry %s is not in %s: %s", signed.statement.seq, place, error)


def newest_anchor(kind: str | None = None) -> SignedStatement | None:
    """The anchor of the highest entry in the table."""
    rows = AuditAnchor.objects.all() if kind is None else AuditAnchor.objects.filter(kind=kind)
    row = rows.order_by("-seq", "-pk").first()
    return _of_row(row) if row else None


def next_after(seq: int) -> SignedStatement | None:
    """The first mark at `seq` or behind it, whose key is known and whose signature fits."""
    known = keys.public_keys()
    for row in AuditAnchor.objects.filter(kind=MARK, seq__gte=seq).order_by("seq", "pk")[:20]:
        if not (signed := _of_row(row)).problem(known):
            return signed
    return None


def list_cuts() -> list[SignedStatement]:
    """Every archiving, oldest first, from the table and from the file."""
    rows = [_of_row(r) for r in AuditAnchor.objects.filter(kind=CUT).order_by("seq")]
    return sorted(
        [*rows, *(s for s in _iterate_signed() if s.statement.kind == CUT)], key=lambda s: s.statement.seq
    )


def iterate_statements() -> Iterator[SignedStatement]:
    """All marks and key changes of table and file, by entry, one at a time."""
    rows = AuditAnchor.objects.exclude(kind=CUT).order_by("seq", "pk").iterator(chunk_size=500)
    outside = (s for s in _iterate_signed() if s.statement.kind != CUT)
    return heapq.merge((_of_row(r) for r in rows), outside, key=lambda s: s.statement.seq)


def statements_since(seq: int) -> Iterator[SignedStatement]:
    """Marks and key changes of the table only, from this entry on: for the check before a signature."""
    rows = AuditAnchor.objects.exclude(kind=CUT).filter(seq__gte=seq).order_by("seq", "pk")
    return (_of_row(r) for r in rows.iterator(chunk_size=500))


def _iterate_signed() -> Iterator[SignedStatement]:
    """Anchors in the file, in the order they were written. Raises OSError.

    A line that is none is passed over: a stop of the machine leaves one, and the table has that anchor.
    """
    place = anchor_file()
    if place is None or not place.exists():
        return
    with place.open("rb") as stream:
        for line in stream:
            if signed := _of_line(line):
                yield signed


def _of_line(line: bytes) -> SignedStatement | None:
    try:
        fields = json.loads(line)
        said = AnchorStatement(**{name: fields[name] for name in ("kind", "seq", "hash", "at", "detail")})
        signed = SignedStatement(said, fields["key_id"], fields["signature"], outside=True)
    except (ValueError, KeyError, TypeError):
        return None
    return signed if isinstance(said.seq, int) else None


def _of_row(row: AuditAnchor) -> SignedStatement:
    at: datetime = row.at.astimezone(UTC)
    said = AnchorStatement(row.kind, row.seq, row.hash, at.isoformat(timespec="microseconds"), row.detail)
    return SignedStatement(said, row.key_id, row.signature)
