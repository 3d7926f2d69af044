"""Follows the event logs of a folder: what was read of each is kept, and only what is new is read again."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils import timezone

from recovery.eventlogs.folders import Log, Tail, list_logs, read_on, tail_from
from recovery.eventlogs.values import Application, Run
from recovery.models import EventLog

AT_ONCE: Final = 5_000
"""Lines of one log that are read before what they say is kept."""
SECONDS: Final = 10.0
"""So long one look reads, at most; the next one goes on."""


@dataclass(frozen=True)
class Seen:
    """A run, and its application as far as its log was read."""

    run: Run
    app: Application


def catch_up(folder: str, *, seconds: float = SECONDS) -> bool:
    """Read what was written to the logs of a folder since the last look, the newest logs first. Answers whether all of
    it was read. Raises Unreachable, Refused, WrongUse."""
    until = time.monotonic() + seconds
    logs = list_logs(folder)
    known = {
        row["name"]: row
        for row in EventLog.objects.filter(folder=folder).values("name", "mtime_ms", "size", "is_done")
    }
    for log in logs:
        row = known.get(log.name)
        if row is not None and _is_same(log, row):
            continue
        if time.monotonic() >= until or not _read(folder, log, until):
            return False
    return True


def _is_same(log: Log, row: Mapping[str, Any]) -> bool:
    """Was all read of a log that has not changed since? A rolling one tells no size."""
    if row["is_done"]:
        return True
    return not log.is_rolling and log.is_open and (log.mtime_ms, log.size) == (row["mtime_ms"], row["size"])


def _read(folder: str, log: Log, until: float) -> bool:
    row = EventLog.objects.filter(folder=folder, name=log.name).first()
    tail = tail_from(row.tail) if row and row.tail else Tail()
    more = True
    while more and time.monotonic() < until:
        tail, more = read_on(folder, log, tail, most_lines=AT_ONCE)
    queries = sorted({run.query_id for run in tail.app.runs})
    EventLog.objects.update_or_create(
        folder=folder,
        name=log.name,
        defaults={
            "mtime_ms": None if more else log.mtime_ms,
            "size": None if more else log.size,
            "is_done": tail.is_done,
            "queries": f",{','.join(queries)}," if queries else "",
            "tail": tail.as_json(),
            "read_at": timezone.now(),
        },
    )
    return not more


def runs_of(folder: str, query_ids: Collection[str]) -> list[Seen]:
    """Every run of these queries that the logs of a folder tell of, the oldest first."""
    found: dict[str, Seen] = {}
    for query_id in query_ids:
        for row in EventLog.objects.filter(folder=folder, queries__contains=f",{query_id},"):
            app = tail_from(row.tail).app
            found |= {run.run_id: Seen(run, app) for run in _of(app.runs, query_ids)}
    return sorted(found.values(), key=lambda seen: seen.run.started_ms)


def _of(runs: Iterable[Run], query_ids: Collection[str]) -> list[Run]:
    return [run for run in runs if run.query_id in query_ids]


def query_at(folder: str, checkpoint: str) -> str:
    """The newest query of which a plan names this checkpoint; "" for none: a query without state names it nowhere."""
    rows = EventLog.objects.filter(folder=folder).exclude(queries="").order_by("-mtime_ms")
    for row in rows.iterator(chunk_size=50):
        for run in reversed(tail_from(row.tail).app.runs):
            if run.checkpoint and _plain(run.checkpoint) == _plain(checkpoint):
                return run.query_id
    return ""


def _plain(place: str) -> str:
    return "/" + place.removeprefix("file:").lstrip("/") if place.startswith(("file:", "/")) else place
