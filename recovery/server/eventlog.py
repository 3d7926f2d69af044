"""Follows Spark's event log, line by line, and hands on what streaming queries do.

Only three kinds of line matter (StreamingQueryListener's events); the others, most of the file, are skipped
without being parsed. Spark flushes each line as it happens (measured: 0.01 s).

Spark rolls its log: `eventlog_v2_<application>/events_<n>_<application>`, n from 1. It closes a file before it opens
the next, so a file is whole once the next one is there, and is removed once it has been read.
"""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.bounded import read_json
from recovery.foreign import ForeignFolder

LOG = logging.getLogger(__name__)
PREFIX = b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$'
TAG = "SparkConnect_OperationTag_User_"
CHUNK = 1 << 20  # bytes read at once
LONGEST = 64 << 20  # bytes of one line; a longer one is left
MOST_QUERIES = 100_000  # that have begun and not ended
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class QueryEvent:
    """What a query did: `kind` is started, progress or terminated. `flow` is its name, `catalog.schema.flow`."""

    kind: str
    session_id: str
    flow: str
    run_id: str
    progress: dict[str, Any] = field(default_factory=dict)
    exception: str | None = None
    error_class: str | None = None


@dataclass(frozen=True)
class StartedQuery:
    """A query as it started."""

    session_id: str
    flow: str


class QueryLogReader:
    """Turns lines of the log into events. Terminated lines have no name: the started line of the run has."""

    def __init__(self) -> None:
        self.queries: dict[str, StartedQuery] = {}

    def read(self, line: bytes) -> QueryEvent | None:
        """The event of one complete line, or None for a line about something else."""
        if not line.startswith(PREFIX):
            return None
        raw = read_json(line)
        kind = raw["Event"].rpartition("$")[2]
        if kind == "QueryStartedEvent":
            return self.started(raw)
        if kind == "QueryProgressEvent":
            progress = raw["progress"]
            return self.known(str(progress["runId"]), "progress", progress=progress)
        if kind == "QueryTerminatedEvent":
            event = self.known(
                str(raw["runId"]),
                "terminated",
                exception=raw.get("exception"),
                error_class=raw.get("errorClassOnException"),
            )
            self.queries.pop(str(raw["runId"]), None)
            return event
        return None

    def started(self, raw: dict[str, Any]) -> QueryEvent | None:
        """Remember a query by its run; one that no Connect session started is none of ours."""
        sessions = [session for tag in raw.get("jobTags") or [] if (session := session_of(tag))]
        if not sessions:
            return None
        if len(self.queries) >= MOST_QUERIES:
            self.queries.pop(next(iter(self.queries)))  # the oldest: Spark itself runs no such number
        self.queries[str(raw["runId"])] = StartedQuery(
            sessions[0], str(raw.get("name") or "").replace("`", "")
        )
        return self.known(str(raw["runId"]), "started")

    def known(self, run_id: str, kind: str, **content: Any) -> QueryEvent | None:
        """An event of a run that we saw start."""
        query = self.queries.get(run_id)
        return QueryEvent(kind, query.session_id, query.flow, run_id, **content) if query else None


def session_of(tag: str) -> str:
    """`SparkConnect_OperationTag_User_<user>_Session_<session>_Operation_<id>` -> session; "" for another tag."""
    if not tag.startswith(TAG):
        return ""
    before, _, operation = tag.rpartition("_Operation_")
    user, _, session = before.rpartition("_Session_")
    return session if operation and user.startswith(TAG) else ""


FOLDER_PREFIX = "eventlog_v2_"
KEPT_FILES = 1
"""Files that stay when they have been read, for people, besides the one that grows."""


class LogFollower:
    """A thread that follows the rolled log of one application; `path` is its folder."""

    def __init__(self, path: Path, on_event: Callable[[QueryEvent], None]) -> None:
        self.path = path
        self.logs = ForeignFolder(path.parent)
        self.file_index = 1
        self.on_event = on_event
        self.reader = QueryLogReader()
        self.rest = bytearray()
        self.skipping = self.complained = False
        self.position = 0
        self.ending = threading.Event()
        self.turn = threading.Lock()
        self.thread = threading.Thread(target=self.follow, name="event-log", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self.thread.start()

    def end(self) -> None:
        """Read what is there, then stop following."""
        self.ending.set()
        self.thread.join(5)

    def follow(self) -> None:
        """Read until asked to end."""
        while not self.ending.wait(POLL_SECONDS):
            self.catch_up()
        self.catch_up()

    def catch_up(self) -> None:
        """Hand on every complete line that is there now. Any thread may ask for it."""
        with self.turn:
            try:
                # asked before reading: what is read to its end afterwards is whole
                while self.has_file(self.file_index + 1):
                    self.read_on()
                    self.turn_over()
                self.read_on()
            except FileNotFoundError:
                return
            except OSError as error:
                self.complain(error)

    def file_name(self, index: int) -> str:
        """Of one file of the log, from the folder of all logs."""
        return f"{self.path.name}/events_{index}_{self.path.name.removeprefix(FOLDER_PREFIX)}"

    def has_file(self, index: int) -> bool:
        """Whether Spark has begun this file. Raises OSError for what is no folder of logs."""
        try:
            self.logs.facts(self.file_name(index))
        except FileNotFoundError:
            return False
        return True

    def read_on(self) -> None:
        """Take what the current file has gained. Raises OSError."""
        with os.fdopen(self.logs.open(self.file_name(self.file_index)), "rb") as stream:
            stream.seek(self.position)
            while data := stream.read(CHUNK):
                self.position += len(data)
                self.take(data)

    def turn_over(self) -> None:
        """Go on with the next file, and remove what has been read. Raises OSError."""
        self.file_index, self.position = self.file_index + 1, 0
        self.rest, self.skipping = bytearray(), False
        if (old := self.file_index - 1 - KEPT_FILES) > 0:
            self.logs.remove(self.file_name(old))

    def complain(self, error: OSError) -> None:
        """Say, once, that what is there cannot be followed: the code of a pipeline has put it there."""
        if not self.complained:
            self.complained = True
            LOG.error("Spark's event log %s cannot be read (%s): ends of flows are known from Spark alone.",
                      self.path, error.strerror)  # fmt: skip

    def take(self, data: bytes) -> None:
        """The next bytes of the file: what ends a line is handed on, the rest waits for its end."""
        first, *others = data.split(b"\n")
        self.rest += first
        for following in others:
            if not self.skipping:
                self.hand_on(bytes(self.rest))
            self.rest, self.skipping = bytearray(following), False
        if len(self.rest) > LONGEST:
            LOG.warning("Spark's event log has a line of more than %s bytes; it is left out.", LONGEST)
            self.rest, self.skipping = bytearray(), True
        elif self.skipping:
            self.rest = bytearray()

    def hand_on(self, line: bytes) -> None:
        """One line; one that cannot be read is said and left, so that the next ones are not lost."""
        try:
            event = self.reader.read(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            LOG.exception("Spark's event log has a line that cannot be read: %r", line[:200])
            return
        if event is not None:
            self.on_event(event)
