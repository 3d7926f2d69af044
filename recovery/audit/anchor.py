"""The highest entry this machine has seen, kept in a file outside the database (signed anchors: anchoring.py).

A chain proves its middle, not its end: whoever can write to the database could cut off the newest
entries, or rewrite all of them with new hashes, and the rest would still fit together. The anchor
remembers where the chain had already been. It is written after the commit, so a crash in between
leaves it one entry behind, never ahead. A database in memory ends with its process and has none.
"""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Anchor:
    seq: int
    hash: str


def anchor_path(connection: BaseDatabaseWrapper) -> Path | None:
    """Where the anchor of this very database is, or None for one in memory."""
    name = name_of(connection)
    return Path(settings.REPRISE_HOME) / f"audit-{name}.head" if name else None


def name_of(connection: BaseDatabaseWrapper) -> str:
    """12 hex digits that tell this database from every other; "" for one in memory, which leaves no files."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite":
        if ":memory:" in name or "mode=memory" in name:
            return ""
        identity = str(Path(name).resolve())
    else:
        with connection.cursor() as cursor:  # the oid tells a database from one dropped and made again
            cursor.execute("SELECT oid FROM pg_database WHERE datname = current_database()")
            identity = f"{connection.settings_dict['HOST']}/{name}/{cursor.fetchone()[0]}"
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def read_anchor(file: Path | None) -> Anchor | None:
    """The anchor, or None where there is none yet. Raises ValueError when the file is not one."""
    if file is None or not file.exists():
        return None
    with _open_locked(file) as handle:
        fields = json.loads(handle.read())
    if not isinstance(fields, dict) or set(fields) != {"seq", "hash"}:
        raise ValueError(f"{file} is no audit anchor.")
    return Anchor(seq=int(fields["seq"]), hash=str(fields["hash"]))


def advance_anchor(file: Path | None, anchor: Anchor, hash_of: Callable[[int], str | None]) -> None:
    """Move the anchor forward, never back, and never over an entry that is no longer what it was.

    `hash_of(seq)` says what the database holds now. Where that is not what was seen, someone cut the end off or
    rewrote it, and the file stays: it is the evidence that `verify` reads. A full or read-only disk is logged: the
    act itself is done.
    """
    if file is None:
        return
    try:
        with _open_locked(file) as handle:
            text = handle.read()
            seen = json.loads(text) if text else None
            if seen and (seen["seq"] >= anchor.seq or hash_of(seen["seq"]) != seen["hash"]):
                return
            handle.seek(0)
            handle.write(json.dumps(asdict(anchor)).ljust(len(text)))  # one write, no truncation before it
            handle.flush()
    except (OSError, ValueError, KeyError) as error:
        log.warning("The audit anchor %s could not be written: %s", file, error)


def _open_locked(file: Path) -> TextIO:
    handle = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    fcntl.flock(handle, fcntl.LOCK_EX)  # freed when the file is closed
    return handle
