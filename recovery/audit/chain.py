"""How an entry becomes a hash: one canonical text per entry, sha256 over it and the hash before.

Format 1: sha256 over the canonical JSON of all fields, the hash before among them. Format 2: sha256 over the hash
before and the sha256 of the contents, so that a proof of the way from one entry to another needs the entries in
between as 64 digits each, and shows nothing of them. Format 3: hashed as 2; each entry carries a seal beside its hash
(seals.py). Entries keep the format they were written with.

The text must come out the same after a round trip through SQLite's JSON text and PostgreSQL's jsonb,
which rewrites numbers and refuses NUL. So values are made plain *before* they are stored and hashed.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

GENESIS: Final = "0" * 64
"""`prev_hash` of the first entry."""

FIRST_FIELDS: Final = (
    "seq", "at", "actor", "role", "via", "request_id", "action", "outcome", "target_kind", "target",
    "recovery", "says", "before", "after", "prev_hash",
)  # fmt: skip
"""What format 1 covers."""

LATER_FIELDS: Final = ("format", "behalf", "task_id", "session", "address", "environment", "reason")
"""What formats 2 and 3 cover beside them. In an entry of format 1 they are empty, or someone wrote them later."""

FIELDS: Final = (*FIRST_FIELDS, *LATER_FIELDS)
"""Every field but the hash itself and the database's own row id."""

FORMAT: Final = 3
"""What is written today: hashed as format 2, and sealed (seals.py)."""


def plain_text(text: str, limit: int | None = None) -> str:
    """`text` as every database can hold it: no NUL, no lone surrogate, at most `limit` characters."""
    clean = text.replace("\x00", "\u2400").encode("utf-8", "replace").decode("utf-8")
    if limit is not None and len(clean) > limit:
        return clean[: limit - 1] + "…"
    return clean


def as_plain_json(value: Any) -> Any:
    """`value` as JSON that reads back equal from any database. Raises TypeError for what is not JSON-like."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return plain_text(str(value))
    if isinstance(value, float):
        return _plain_number(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {plain_text(str(k)): as_plain_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_plain_json(v) for v in (sorted(value) if isinstance(value, set | frozenset) else value)]
    raise TypeError(f"{type(value).__name__} cannot be written into the audit log.")


def _plain_number(value: float) -> int | float | str:
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() else value


def canonical_text(entry: Mapping[str, Any]) -> str:
    """The text of an entry's contents. `at` is an aware datetime. Raises ValueError for a format
    that this version does not know, and for an entry of format 1 with fields that it cannot have had."""
    names = _hashed_names(entry)
    fields = {name: entry[name] for name in names}
    at: datetime = entry["at"]
    fields["at"] = at.astimezone(UTC).isoformat(timespec="microseconds")
    return _ENCODER.encode(fields)


_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, check_circular=False
)


def _hashed_names(entry: Mapping[str, Any]) -> tuple[str, ...]:
    if entry["format"] in (2, 3):
        return _SECOND
    if entry["format"] != 1:
        raise ValueError(f"format {entry['format']} is not known")
    if any(entry[name] for name in LATER_FIELDS if name != "format"):
        raise ValueError("it holds fields that its format does not have")
    return FIRST_FIELDS


_SECOND: Final = tuple(name for name in FIELDS if name != "prev_hash")


def hash_contents(entry: Mapping[str, Any]) -> str:
    """sha256 (hex) of an entry's contents."""
    return hashlib.sha256(canonical_text(entry).encode("ascii")).hexdigest()


def link_hash(prev_hash: str, contents_hash: str) -> str:
    """The hash of an entry of format 2 or 3: sha256 (hex) over the hash before and its contents' hash."""
    return hashlib.sha256(f"{prev_hash}\n{contents_hash}".encode()).hexdigest()


def entry_hash(entry: Mapping[str, Any]) -> str:
    """What the entry's `hash` has to be, by its own format. Raises ValueError as `canonical` does."""
    digest = hash_contents(entry)
    return digest if entry["format"] == 1 else link_hash(entry["prev_hash"], digest)
