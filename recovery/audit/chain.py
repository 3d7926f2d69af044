"""How an entry becomes a hash: one canonical text per entry, sha256 over it and the hash before.

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

FIELDS: Final = (
    "seq", "at", "actor", "role", "via", "request_id", "action", "outcome", "target_kind", "target",
    "recovery", "says", "before", "after", "prev_hash",
)  # fmt: skip
"""What the hash covers: every field but the hash itself and the database's own row id."""


def plain_text(text: str, limit: int | None = None) -> str:
    """`text` as every database can hold it: no NUL, no lone surrogate, at most `limit` characters."""
    clean = text.replace("\x00", "\u2400").encode("utf-8", "replace").decode("utf-8")
    if limit is not None and len(clean) > limit:
        return clean[: limit - 1] + "…"
    return clean


def plain(value: Any) -> Any:
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
        return {plain_text(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in (sorted(value) if isinstance(value, set | frozenset) else value)]
    raise TypeError(f"{type(value).__name__} cannot be written into the audit log.")


def _plain_number(value: float) -> int | float | str:
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() else value


def digest(entry: Mapping[str, Any]) -> str:
    """sha256 (hex) of the canonical JSON of `entry`'s FIELDS. `at` is an aware datetime."""
    at: datetime = entry["at"]
    fields = {name: entry[name] for name in FIELDS}
    fields["at"] = at.astimezone(UTC).isoformat(timespec="microseconds")
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
