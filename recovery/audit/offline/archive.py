"""Checks an archive of the audit log, and an export of it, without the log: each entry by its own hash. Pure."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from recovery.audit import chain
from recovery.audit.offline import verify
from recovery.errors import Refused

Entry = Mapping[str, Any]
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a file that is none raises while it is read."""


def key_id(public: bytes) -> str:
    """16 hex digits of sha256 over a public key's 32 bytes: what people compare."""
    return hashlib.sha256(public).hexdigest()[:16]


def sha256_of(file: Path) -> str:
    """The digest of its bytes, hex. Raises OSError."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_archive(file: Path, known_keys: Callable[[], Mapping[str, bytes]]) -> list[str]:
    """What is wrong with an archive and its signature beside it; [] when it is as it was written.

    `known_keys`: the public keys that are believed, by id. Raises Refused for what is no archive.
    """
    try:
        said = json.loads(file.with_name(f"{file.name}.sig").read_text())
        signature, signed_by = bytes.fromhex(said.pop("signature")), said["key_id"]
        message = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
        public = known_keys().get(signed_by)
        if public is None or not verify.is_signed(public, message, signature):
            return [f"The signature of {file.name} is of no key on the list of public keys, or does not fit."]
        if sha256_of(file) != said["sha256"]:
            return [f"{file.name} is not what was signed.", *_breaks_of(file)]
        return _breaks_of(file)
    except UNREADABLE as error:
        raise Refused(
            f"{file} cannot be read as an archive of the audit log: {error}.", code="no_archive"
        ) from error


def _breaks_of(file: Path) -> list[str]:
    """Breaks of the chain within an archive, the first of them."""
    with file.open(encoding="utf-8") as stream:
        for problem in list_breaks(map(json.loads, stream)):
            return [f"{problem} ({file.name})"]
    return []


def list_breaks(entries: Iterable[Entry], *, gaps: bool = False) -> Iterator[str]:
    """Entries, in the order of their numbers, that are not what was written or do not follow the one before.

    `gaps`: numbers may be missing, as in an export that was filtered; what is missing proves nothing then.
    """
    seq, hash = 0, ""
    for entry in entries:
        number = int(entry["seq"])
        if chain.entry_hash({**entry, "at": datetime.fromisoformat(entry["at"])}) != entry["hash"]:
            yield f"Entry {number} does not have its own hash, so it is not what was written."
        elif number <= seq:
            yield f"Entry {number} comes after entry {seq}, so they are not in order."
        elif hash and (number == seq + 1 or not gaps) and entry["prev_hash"] != hash:
            yield f"Entry {number} does not follow the one before it."
        seq, hash = number, str(entry["hash"])
