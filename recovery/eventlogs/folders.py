"""Which event logs lie in a folder, and how far each of them was read.

A log is one file, `<application>[_<attempt>][.<codec>][.inprogress]`, or a folder `eventlog_v2_<application>` with
numbered files. One that ends loses its `.inprogress`: it is the same log under another name.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import DirectoryEntry, Store, reaching
from recovery.errors import NotFound
from recovery.eventlogs.folding import close_application, fold_line
from recovery.eventlogs.lines import Mark, Rest, iterate_lines
from recovery.eventlogs.values import Application, application_from

ROLLING: Final = "eventlog_v2_"
RUNNING: Final = ".inprogress"
STATUS: Final = "appstatus_"
COMPACTED: Final = ".compact"
MOST_LOGS: Final = 200_000
_PART: Final = re.compile(r"events_(\d{1,9})_")


@dataclass(frozen=True)
class ListedEventLog:
    """One log of a folder. `name`: without `.inprogress`; `size` and `mtime_ms` None where only its folder was
    listed."""

    name: str
    is_open: bool
    size: int | None = None
    mtime_ms: int | None = None

    @property
    def is_rolling(self) -> bool:
        return self.name.startswith(ROLLING)


@dataclass(frozen=True)
class LogProgress:
    """How far a log was read."""

    #: what it reported so far
    app: Application = field(default_factory=Application)
    #: number of the file, of a rolling log
    file: int = 0
    #: the place in that file
    mark: Mark = field(default_factory=Mark)
    #: why the rest cannot be read
    problem: str = ""
    #: it has ended, and all of it was read
    is_done: bool = False
    #: files of a rolling log that were cleaned up before they were read
    missed: int = 0
    #: its last line has no end yet
    is_half: bool = False

    def as_json(self) -> dict[str, Any]:
        mark = [self.mark.offset, self.mark.skip]
        return {
            "app": self.app.as_json(), "file": self.file, "mark": mark, "problem": self.problem,
            "is_done": self.is_done, "missed": self.missed,
            "is_half": self.is_half,
        }  # fmt: skip


def list_logs(location: str) -> list[ListedEventLog]:
    """Every log of a folder, the newest first. Raises NotFound (`no_event_logs`), Unreachable, Refused, WrongUse."""
    with reaching(location):
        try:
            entries = Store.open(location).entries(limit=MOST_LOGS)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(
                f"There is no folder of event logs at {location}.", code="no_event_logs"
            ) from error
    logs: dict[str, ListedEventLog] = {}
    for entry in entries:
        log = _log_of_entry(entry)
        if log is not None and (log.name not in logs or logs[log.name].is_open):
            logs[log.name] = log  # while a log is renamed both names may be listed
    return sorted(logs.values(), key=lambda log: (log.mtime_ms or 0, log.name), reverse=True)


def _log_of_entry(entry: DirectoryEntry) -> ListedEventLog | None:
    if entry.name.startswith((".", "_")):
        return None
    if entry.is_dir:
        rolling = entry.name.startswith(ROLLING)
        return ListedEventLog(entry.name, True, None, entry.mtime_ms) if rolling else None
    return ListedEventLog(
        entry.name.removesuffix(RUNNING), entry.name.endswith(RUNNING), entry.size, entry.mtime_ms
    )


def read_on(
    location: str, log: ListedEventLog, tail: LogProgress, *, most_lines: int, until: float = math.inf
) -> tuple[LogProgress, bool]:
    """`tail` with what was written since, up to so many lines, and to a time of the monotonic clock; whether there may
    be more. Raises Unreachable."""
    with reaching(location):
        store = Store.open(location)
        try:
            if log.is_rolling:
                return _read_rolled_log(store.child(log.name), tail, most_lines, until)
            name = f"{log.name}{RUNNING}" if log.is_open else log.name
            tail, more = _read_log_file(store, name, tail, most_lines, until)
            return (tail, more) if more or log.is_open else (_end_log(tail), False)
        except FileNotFoundError:
            return tail, False  # renamed or cleaned up since it was listed; the next look sees


def _read_rolled_log(
    folder: Store, tail: LogProgress, most_lines: int, until: float
) -> tuple[LogProgress, bool]:
    entries = folder.entries(limit=MOST_LOGS)
    numbers = _number_files(entries)
    for number in sorted(n for n in numbers if n >= tail.file):
        if number > tail.file:
            gone = 0 if numbers[number].endswith(COMPACTED) else number - tail.file - 1
            tail = LogProgress(tail.app, number, missed=tail.missed + gone)
        tail, more = _read_log_file(folder, numbers[number], tail, most_lines, until)
        if more:
            return tail, True
    status = [e.name for e in entries if e.name.startswith(STATUS)]
    is_over = bool(status) and not any(name.endswith(RUNNING) for name in status)
    return (_end_log(tail) if is_over else tail), False


def _number_files(entries: Iterable[DirectoryEntry]) -> dict[int, str]:
    """Files by number; a compacted one (`.compact`) holds what the earlier ones had."""
    numbered = {int(part[1]): e.name for e in entries if (part := _PART.match(e.name))}
    compacted = [n for n, name in numbered.items() if name.endswith(COMPACTED)]
    return {n: name for n, name in numbered.items() if n >= max(compacted, default=0)}


def _end_log(tail: LogProgress) -> LogProgress:
    return replace(tail, app=close_application(tail.app, tail.app.ended_ms or tail.app.last_ms), is_done=True)


def _read_log_file(
    store: Store, name: str, tail: LogProgress, most_lines: int, until: float
) -> tuple[LogProgress, bool]:
    if tail.problem:
        return tail, False
    app, mark, read = tail.app, tail.mark, 0
    stream, rest = store.stream(name), Rest()
    try:
        for line in iterate_lines(stream, mark, rest, until=until):
            app, mark, read = fold_line(app, line.text), line.mark, read + 1
            if read >= most_lines:
                return replace(tail, app=app, mark=mark), True
    except Malformed as problem:
        why = f"{name} cannot be read on: {problem.why}."
        return replace(tail, app=app, mark=mark, problem=why), False
    finally:
        stream.close()
    return replace(tail, app=app, mark=mark, is_half=rest.length > 0 and not rest.is_cut), rest.is_cut


def tail_from(stored: Any) -> LogProgress:
    """As `LogProgress.as_json` wrote it."""
    app = application_from(stored["app"])
    return LogProgress(
        app,
        stored["file"],
        Mark(*stored["mark"]),
        stored["problem"],
        stored["is_done"],
        stored.get("missed", 0),
        stored.get("is_half", False),
    )
