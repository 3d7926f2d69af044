"""Denied tries that say the same are one entry at once and one with their number later, so that no one fills the log.

The log is append-only and chained: an entry's number cannot grow. So the first denial of someone (from one address) of
one act on one target is written at once. Further ones within `WINDOW` are counted in a row of their own, and when the
window is over one entry says how many there were, and from when to when. Whoever tries many targets gets `MOST` entries
in a window. What comes after that is counted by its kind and its pipeline (`KIND`), whatever else it aims at: the first
of each is an entry at once, so that no number of decoys hides what was tried, in which environment, on which pipeline.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F
from django.utils import timezone

from recovery.models import AuditEntry, DeniedTry

WINDOW: Final = timedelta(minutes=10)
MOST: Final = 30
"""Entries of denials that one person, or one address without a person, gets in a window."""
PIPELINE: Final = "pipeline"
"""Denials are counted by it; it is no column of the log, and an entry says it in `after`."""
SAME: Final = (
    "actor",
    "via",
    "address",
    "action",
    "target_kind",
    "target",
    "recovery",
    "environment",
    PIPELINE,
)
"""What two denials have in common that are counted as one."""

KIND: Final = ("action", "target_kind", "environment", "role", PIPELINE)
"""What two denials beyond `MOST` have in common that are counted as one. None of it is anyone's to choose, but by
making a pipeline: what names none that is there counts as none."""

Append = Callable[[dict[str, Any]], AuditEntry]


def fold_denial(
    fields: Mapping[str, Any], pipeline: str, *, append: Append, lock: Callable[[], None]
) -> AuditEntry:
    """The entry that represents a denial: a new one, or the one of this window, which counts it.

    `pipeline`: what was aimed at, "" where none is known. Call inside a transaction. `lock`: waits for one's turn to
    append.
    """
    now, who = timezone.now(), _key_of_person(fields)
    fields = {**fields, PIPELINE: pipeline}
    keys = [_digest_key(who, [fields[name] for name in SAME]), _key_of_kind(who, fields)]
    if (counted := _count_try(keys[:1], now)) is not None:
        return counted
    lock()
    tries = DeniedTry.objects.filter(who=who, since__gt=now - WINDOW).count()
    key = keys[0] if tries < MOST else keys[1]
    if (
        counted := _count_try([key], now)
    ) is not None:  # another process was first, or there are many already
        return counted
    for over in DeniedTry.objects.filter(key=key):
        _write_repeats(over, append)
    entry = append(
        _entry_fields(fields)
        | ({"after": {**(fields["after"] or {}), PIPELINE: pipeline}} if pipeline else {})
    )
    DeniedTry.objects.create(key=key, who=who, entry=entry.seq, fields=dict(fields), since=now, until=now)
    return entry


def write_ended(*, append: Append) -> int:
    """The entries of windows that are over; how many denials they tell of. Call inside a transaction, locked."""
    rows = DeniedTry.objects.filter(since__lte=timezone.now() - WINDOW).order_by("since", "pk")
    return sum(_write_repeats(row, append) for row in rows)


def _count_try(keys: list[str], now: datetime) -> AuditEntry | None:
    """The entry of a window that has begun; the try is counted there."""
    for row in DeniedTry.objects.filter(key__in=keys, since__gt=now - WINDOW):
        entry = AuditEntry.objects.filter(seq=row.entry).first()
        if entry is not None and DeniedTry.objects.filter(pk=row.pk).update(more=F("more") + 1, until=now):
            return entry
    return None


def _write_repeats(row: DeniedTry, append: Append) -> int:
    row.delete()
    if row.more:
        append(
            {
                **_entry_fields(row.fields),
                "says": describe_repeats(row),
                "request_id": "",
                "task_id": "",
                "after": _repeats_after(row),
            }
        )
    return row.more


def describe_repeats(row: DeniedTry) -> str:
    """For people: how many more, from when to when, and what was said of the first."""
    first, last = f"{row.since:%H:%M:%S}", f"{row.until:%H:%M:%S}"
    what = "of several targets" if row.key == _key_of_kind(row.who, row.fields) else "of the same"
    return f"{row.more} more denied {what} between {first} and {last} UTC. {row.fields['says']}"


def _repeats_after(row: DeniedTry) -> dict[str, Any]:
    return {
        "more": row.more,
        "since": row.since.isoformat(),
        "until": row.until.isoformat(),
        "entry": row.entry,
        **({PIPELINE: named} if (named := row.fields.get(PIPELINE)) else {}),
    }


def _entry_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != PIPELINE}


def _key_of_person(fields: Mapping[str, Any]) -> str:
    """A person, or where no one is signed in the address: a stranger takes any name."""
    name = "" if fields["role"] == "nobody" else fields["actor"]
    return _digest_key(name, [fields["address"]])


def _key_of_kind(who: str, fields: Mapping[str, Any]) -> str:
    return _digest_key(who, ["many", *[fields.get(name, "") for name in KIND]])


def _digest_key(who: str, parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps([who, *parts]).encode()).hexdigest()
