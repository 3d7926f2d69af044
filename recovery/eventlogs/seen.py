"""What event logs showed of a stream as they were followed, and how good that is. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from recovery.eventlogs.values import Application, Run


@dataclass(frozen=True)
class SeenRun:
    """A run, and its application as far as its log was read. Times are by our clock."""

    run: Run
    app: Application
    #: the log's name
    log: str = ""
    #: when it was last seen to grow; None: not known
    moved_at: datetime | None = None
    #: how far its driver's clock is ahead of ours
    skew: timedelta = timedelta()
    #: why its rest cannot be read
    problem: str = ""
    #: files that were cleaned up before they were read
    missed: int = 0
    #: its end was cleaned up before it was read
    is_gone: bool = False
    #: its end was read
    is_done: bool = False
    #: its last line has no end
    is_half: bool = False


@dataclass(frozen=True)
class EarlyEnd:
    """An application of a stream that ended before the query began: a program that failed on the way to it leaves no
    other trace in an event log. `log`: the name of its log; `skew`: as `SeenRun.skew`."""

    app: Application
    log: str
    skew: timedelta = timedelta()

    @property
    def started_ms(self) -> int:
        """By our clock."""
        return (self.app.started_ms or 0) - self.skew_ms

    @property
    def ended_ms(self) -> int:
        return (self.app.ended_ms or 0) - self.skew_ms

    @property
    def skew_ms(self) -> int:
        return int(self.skew.total_seconds() * 1000)


@dataclass(frozen=True)
class NamedLog:
    """A log among those of one application name. `queries`: the ids of those that began in it."""

    pk: int
    queries: frozenset[str]


NAMES_OF_ANY: Final = frozenset(
    {"", "PySparkShell", "pyspark-shell", "Spark shell", "SparkR", "Databricks Shell"}
)
"""Names that Spark and notebooks give to applications that have none of their own."""


def list_early_logs(logs: Collection[NamedLog], query_ids: Collection[str]) -> list[int]:
    """Keys of those among the logs of one application name that may be of a stream, and in which its query did not
    begin. Empty where the name does not tell whose an application is: other streams have it too."""
    own = {query for log in logs if log.queries.intersection(query_ids) for query in log.queries}
    if not own or any(log.queries - own for log in logs):
        return []
    return [log.pk for log in logs if not log.queries.intersection(query_ids)]


def is_after_a_run(end: EarlyEnd, seen: Sequence[SeenRun], silent_since: datetime) -> bool:
    """Did it begin once the run before it was over? Beside a run that goes on it is no news of the stream. `seen`: the
    runs of the stream, the oldest first; one without an end is over if its log did not grow after `silent_since`. What
    came before the first of them may be of any program."""
    earlier = [run for run in seen if run.run.started_ms < end.started_ms]
    if end.app.ended_ms is None or not earlier:
        return False
    last = earlier[-1]
    if last.run.ended_ms is None:
        return last.moved_at is not None and last.moved_at < silent_since
    return last.run.ended_ms <= end.started_ms
