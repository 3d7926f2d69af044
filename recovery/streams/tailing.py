"""Follows the event logs of a folder: what was read of each is kept, and only what is new is read again."""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import DataError, IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from recovery.errors import RepriseError
from recovery.eventlogs.folders import ListedEventLog, LogProgress, list_logs, read_on, tail_from
from recovery.eventlogs.seen import NAMES_OF_ANY, EarlyEnd, NamedLog, SeenRun, is_after_a_run, list_early_logs
from recovery.eventlogs.times import moment_of
from recovery.eventlogs.values import Run
from recovery.models import EventLog, LogFolder
from recovery.streams.folders import is_same_place
from recovery.streams.signs import SKEWED
from recovery.streams.updates import SILENT_AFTER

bugs = logging.getLogger(__name__)
MOST_NAME: Final = 400
BROKEN: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    DataError,
    IntegrityError,
)
"""What a line may cause that nobody has thought of; a database or store that is away is none of it."""
AT_ONCE: Final = 5_000
"""Lines of one log that are read before what they say is kept."""
SECONDS: Final = 10.0
"""So long one look reads, at most; the next one goes on."""
LOG_UNREADABLE: Final = "log_unreadable"
"""`LogFolder.problem` where the folder can be listed, and a log in it cannot be read."""
WATCHED: Final = timedelta(minutes=2)
"""A folder that was looked at so short a time before tells when a line was written."""
MOST_LOGS: Final = 200
MOST_BATCHES: Final = 1_000
"""Of the logs of one query, and of the progresses in them, no more are looked at than these."""
QUIET: Final = timedelta(hours=1)
MOST_EARLY: Final = 20
"""So many of the newest logs are looked at for applications that ended early."""
_NEWEST: Final = F("mtime_ms").desc(nulls_last=True)
"""Of a log that is still being read, or whose store gives no time, none is known."""
RARELY: Final = timedelta(minutes=1)
"""A rolling log that has been quiet for `QUIET` is looked into so often: its folder does not tell that it grew."""


def catch_up(folder: str, *, seconds: float = SECONDS) -> bool:
    """Read what was written to the logs of a folder since the last look, the newest logs first. Answers whether all of
    it was read. What hinders it is kept too: one log that cannot be read does not hide the others. Raises Unreachable,
    Refused, WrongUse where the folder cannot be listed."""
    until, now = time.monotonic() + seconds, timezone.now()
    known_folder = LogFolder.objects.filter(folder=folder).first()
    try:
        logs = list_logs(folder)
    except RepriseError as error:
        _note_problem(folder, error.code, error.sentence)
        raise
    fields = ("name", "mtime_ms", "size", "is_done", "read_at", "moved_at", "is_gone")
    known = {row["name"]: row for row in EventLog.objects.filter(folder=folder).values(*fields)}
    before = known_folder.looked_at if known_folder else None
    since = before if before and now - before < WATCHED else None
    _note_gone(folder, logs, known)
    is_whole, unread = _read_all(folder, logs, known, until, since)
    looked_at = now if is_whole else None
    LogFolder.objects.update_or_create(folder=folder, defaults={"looked_at": looked_at})
    missed = [(log, refusal) for log, refusal in unread if not _is_old(log, now)]
    if missed:
        log, refusal = missed[0]
        _note_problem(folder, LOG_UNREADABLE, refusal.sentence, log=log.name)
    else:
        LogFolder.objects.filter(folder=folder).update(problem="", says="", log="", problem_since=None)
    return is_whole and not missed


def _read_all(
    folder: str,
    logs: Sequence[ListedEventLog],
    known: Mapping[str, Mapping[str, Any]],
    until: float,
    since: datetime | None,
) -> tuple[bool, list[tuple[ListedEventLog, RepriseError]]]:
    """Was every log read that can be; and those that cannot be, the newest first."""
    now, unread = timezone.now(), list[tuple[ListedEventLog, RepriseError]]()
    for log in logs:
        row = known.get(log.name)
        if row is not None and _is_same(log, row, now):
            continue
        if time.monotonic() >= until:
            return False, unread
        try:
            with transaction.atomic():
                is_whole = _read(folder, log, until, since)
        except RepriseError as error:  # somebody else's log, by its rights
            unread.append((log, error))
            continue
        except BROKEN:  # other people's data: one log must not hide all others
            bugs.exception("An event log could not be followed.")
            is_whole = _give_up(folder, log, now)
        if not is_whole:
            return False, unread
    return True, unread


def _is_old(log: ListedEventLog, now: datetime) -> bool:
    """Has nothing been written to a log for so long that it tells of nothing that runs? A rolling one does not tell."""
    return not log.is_rolling and log.mtime_ms is not None and now - moment_of(log.mtime_ms) > QUIET


def _give_up(folder: str, log: ListedEventLog, now: datetime) -> bool:
    """Keep what was read of a log before, and that it cannot be read on. Answers True: there is no more to read."""
    row = EventLog.objects.filter(folder=folder, name=log.name[:MOST_NAME]).first() or EventLog(
        folder=folder, name=log.name[:MOST_NAME], tail=LogProgress().as_json()
    )
    row.tail = {
        **LogProgress().as_json(),
        **row.tail,
        "problem": f"{log.name} cannot be read on: Reprise has a bug there.",
    }
    row.mtime_ms, row.size, row.read_at = log.mtime_ms, log.size, now
    row.save()
    return True


def _note_problem(folder: str, code: str, says: str, *, log: str = "") -> None:
    row = LogFolder.objects.filter(folder=folder).first() or LogFolder(folder=folder)
    row.problem, row.says, row.log = code, says[:1000], log[:MOST_NAME]
    row.problem_since = row.problem_since or timezone.now()
    row.save()


def _note_gone(folder: str, logs: Sequence[ListedEventLog], known: Mapping[str, Mapping[str, Any]]) -> None:
    """Logs that were cleaned up before their end was read, and those that are there again."""
    there = {log.name for log in logs}
    gone = [n for n, row in known.items() if n not in there and not row["is_done"] and not row["is_gone"]]
    back = [n for n, row in known.items() if n in there and row["is_gone"]]
    for names, is_gone in ((gone, True), (back, False)):
        if names:
            EventLog.objects.filter(folder=folder, name__in=names).update(is_gone=is_gone)


def _is_same(log: ListedEventLog, row: Mapping[str, Any], now: datetime) -> bool:
    """Was all read of a log that has not changed since? A rolling one tells no size."""
    if row["is_done"]:
        return True
    if log.is_rolling:
        quiet = row["moved_at"] is not None and now - row["moved_at"] > QUIET
        return quiet and log.mtime_ms == row["mtime_ms"] and now - row["read_at"] < RARELY
    return log.is_open and (log.mtime_ms, log.size) == (row["mtime_ms"], row["size"])


def _read(folder: str, log: ListedEventLog, until: float, since: datetime | None) -> bool:
    row = EventLog.objects.filter(folder=folder, name=log.name).first()
    before = tail_from(row.tail) if row and row.tail else LogProgress()
    tail, more = before, True
    while more and time.monotonic() < until:
        tail, more = read_on(folder, log, tail, most_lines=AT_ONCE, until=until)
    now = timezone.now()
    queries = sorted({run.query_id for run in tail.app.runs})
    has_grown = (tail.file, tail.mark) != (before.file, before.mark)
    EventLog.objects.update_or_create(
        folder=folder,
        name=log.name,
        defaults={
            "mtime_ms": None if more else log.mtime_ms,
            "size": None if more else log.size,
            "is_done": tail.is_done,
            "is_whole": not more,
            "queries": f",{','.join(queries)}," if queries else "",
            "application": tail.app.name,
            "tail": tail.as_json(),
            "read_at": now,
            "moved_at": _moved_at(row, log, tail, has_grown=has_grown, now=now),
            "skew_ms": _skew_ms(row, before, tail, since, now),
            "is_gone": False,
        },
    )
    return not more


def _moved_at(
    row: EventLog | None, log: ListedEventLog, tail: LogProgress, *, has_grown: bool, now: datetime
) -> datetime | None:
    """When the log was seen to grow. What was there before the first look grew when its store wrote it, also where it
    takes several looks to read that."""
    if row is not None and row.moved_at is not None and row.is_whole:
        return now if has_grown else row.moved_at
    written_ms = log.mtime_ms if log.mtime_ms is not None and not log.is_rolling else tail.app.last_ms
    return None if written_ms is None else min(now, moment_of(written_ms))


def _skew_ms(
    row: EventLog | None, before: LogProgress, tail: LogProgress, since: datetime | None, now: datetime
) -> int:
    """An event that came between two looks bears a time between them, unless its clock is another one."""
    known, last = row.skew_ms if row else 0, tail.app.last_ms
    was_whole = row is None or row.is_whole
    if since is None or last is None or last == before.app.last_ms or not was_whole:
        return known
    begin, end, off = since.timestamp() * 1000, now.timestamp() * 1000, SKEWED.total_seconds() * 1000
    first = tail.app.started_ms if row is None else last
    if first is None or last - first > end - begin + off:
        return known  # it had run before its log came here
    ahead, late = last - end, begin - last
    return int(ahead) if ahead > off else -int(late) if late > off else 0


class LogIndex:
    """Which logs of some folders are of which query: asked once for many streams. `logs`: how many there are;
    `queries`: the ids of all that they tell of."""

    def __init__(self, folders: Collection[str]) -> None:
        self._logs: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._named: dict[tuple[str, str], list[NamedLog]] = defaultdict(list)
        self.queries: set[str] = set()
        rows = EventLog.objects.filter(folder__in=list(folders))
        self.logs = 0
        for pk, folder, name, queries in rows.values_list("pk", "folder", "application", "queries"):
            self.logs += 1
            query_ids = _split_ids(queries)
            self._named[folder, name].append(NamedLog(pk, query_ids))
            for query_id in query_ids:
                self._logs[folder, query_id].append(pk)
            self.queries |= query_ids

    def runs_of(self, folder: str, query_ids: Collection[str]) -> list[SeenRun]:
        """The runs of these queries in the newest logs of a folder (`MOST_LOGS`, `MOST_BATCHES`), the oldest first."""
        keys = {pk for query_id in query_ids for pk in self._logs.get((folder, query_id), ())}
        return _in_order(EventLog.objects.filter(pk__in=keys), query_ids)

    def early_ends_of(
        self, folder: str, query_ids: Collection[str], seen: Sequence[SeenRun]
    ) -> list[EarlyEnd]:
        """Applications of a stream that ended before the query began, with the name that its newest of the runs `seen`
        has."""
        return _find_early_ends(self._named.get((folder, seen[-1].app.name), ()), query_ids, seen)


def runs_of(folder: str, query_ids: Collection[str]) -> list[SeenRun]:
    """As `LogIndex.runs_of`, of one stream."""
    wanted = Q()
    for query_id in query_ids:
        wanted |= Q(queries__contains=f",{query_id},")
    return _in_order(EventLog.objects.filter(wanted, folder=folder), query_ids) if query_ids else []


def early_ends_of(folder: str, query_ids: Collection[str], seen: Sequence[SeenRun]) -> list[EarlyEnd]:
    """As `LogIndex.early_ends_of`, of one stream."""
    rows = EventLog.objects.filter(folder=folder, application=seen[-1].app.name)
    logs = [NamedLog(pk, _split_ids(queries)) for pk, queries in rows.values_list("pk", "queries")]
    return _find_early_ends(logs, query_ids, seen)


def _find_early_ends(
    logs: Collection[NamedLog], query_ids: Collection[str], seen: Sequence[SeenRun]
) -> list[EarlyEnd]:
    keys = [] if seen[-1].app.name in NAMES_OF_ANY else list_early_logs(logs, query_ids)
    rows = EventLog.objects.filter(pk__in=keys, is_done=True).order_by(_NEWEST) if keys else ()
    ends = [
        EarlyEnd(tail_from(row.tail).app, row.name, timedelta(milliseconds=row.skew_ms))
        for row in rows[:MOST_EARLY]
    ]
    silent_since = timezone.now() - SILENT_AFTER
    return [end for end in ends if is_after_a_run(end, seen, silent_since)]


def _split_ids(queries: str) -> frozenset[str]:
    """As `EventLog.queries` holds them."""
    return frozenset(queries.strip(",").split(",")) if queries else frozenset()


def _in_order(rows: QuerySet[EventLog], query_ids: Collection[str]) -> list[SeenRun]:
    """Of the newest logs: those that are still being read count as new."""
    found: dict[str, SeenRun] = {}
    batches = 0
    for row in rows.order_by(F("mtime_ms").desc(nulls_first=True))[:MOST_LOGS].iterator(chunk_size=20):
        for seen in _seen_in(row, query_ids):
            batches += len(seen.run.batches)
            found.setdefault(seen.run.run_id, seen)
        if batches > MOST_BATCHES:
            break
    return sorted(found.values(), key=lambda seen: seen.run.started_ms)


def _seen_in(row: EventLog, query_ids: Collection[str]) -> Iterable[SeenRun]:
    tail = tail_from(row.tail)
    skew = timedelta(milliseconds=row.skew_ms)
    for run in tail.app.runs:
        if run.query_id in query_ids:
            yield SeenRun(
                _by_our_clock(run, row.skew_ms), tail.app, row.name, row.moved_at, skew, tail.problem, tail.missed,
                row.is_gone, row.is_done, tail.is_half,
            )  # fmt: skip


def _by_our_clock(run: Run, skew_ms: int) -> Run:
    if not skew_ms:
        return run
    ended = None if run.ended_ms is None else run.ended_ms - skew_ms
    return replace(run, started_ms=run.started_ms - skew_ms, ended_ms=ended)


def query_at(folder: str, checkpoint: str) -> str:
    """The newest query of which a plan names this checkpoint; "" for none: a query without state names it nowhere."""
    rows = EventLog.objects.filter(folder=folder).exclude(queries="").order_by(_NEWEST)
    for row in rows.iterator(chunk_size=50):
        for run in reversed(tail_from(row.tail).app.runs):
            if run.checkpoint and is_same_place(run.checkpoint, checkpoint):
                return run.query_id
    return ""
