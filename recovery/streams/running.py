"""Asks the running commands of adopted streams now and then, so that a state is known where no event log tells it.

Only a worker runs them: some at a time, each within its limit, none more often than `EVERY`. A page reads the answer
with its age.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from django.db.models import F, Q
from django.utils import timezone

from recovery.errors import RepriseError
from recovery.models import Stream, Workspace
from recovery.streams import commands

EVERY: Final = timedelta(seconds=30)
AT_ONCE: Final = 4
MOST: Final = 40
"""So many are asked in one round, those first that were asked longest ago; the next round goes on."""
GOOD_FOR: Final = timedelta(minutes=3)
"""An older answer tells nothing of now."""

_may_run: ContextVar[bool] = ContextVar("may_run_commands", default=True)


class RunningStatus(StrEnum):
    """NOT_ASKED: there is no command, or no worker has come to it yet."""

    RUNNING = "running"
    NOT_RUNNING = "not_running"
    UNKNOWN = "unknown"
    NOT_ASKED = ""


@dataclass(frozen=True)
class RunningAnswer:
    """What the command answered last, when, and (`says`) why it is not known."""

    answer: RunningStatus
    at: datetime | None = None
    says: str = ""

    @property
    def alive(self) -> bool | None:
        return {RunningStatus.RUNNING: True, RunningStatus.NOT_RUNNING: False}.get(self.answer)

    def is_fresh(self, now: datetime) -> bool:
        return self.at is not None and now - self.at <= GOOD_FOR


def answer_of(stream: Stream) -> RunningAnswer:
    """As it was kept last; NOT_ASKED for a stream without the command."""
    if not stream.has_running_command:
        return RunningAnswer(RunningStatus.NOT_ASKED)
    return RunningAnswer(RunningStatus(stream.running_answer), stream.running_asked_at, stream.running_says)


def ask_due(now: datetime) -> int:
    """Ask for the streams that are due. How many were."""
    due = (
        Stream.objects.filter(pipeline__gone=False, pipeline__workspace__in=Workspace.objects.active())
        .exclude(running=[])
        .filter(Q(running_asked_at=None) | Q(running_asked_at__lte=now - EVERY))
        .order_by(F("running_asked_at").asc(nulls_first=True))
    )
    streams = list(due.only("pk", "running")[:MOST])
    if not streams:
        return 0
    with ThreadPoolExecutor(AT_ONCE, "ask-running") as pool:
        for stream, (answer, says) in zip(streams, pool.map(_ask, streams), strict=True):
            keep_answer(stream, answer, says)
    return len(streams)


def keep_answer(stream: Stream, answer: RunningStatus, says: str = "") -> None:
    """Only over the words that were run: another command has not answered yet."""
    now = timezone.now()
    rows = Stream.objects.filter(pk=stream.pk, running=stream.running)
    rows.exclude(running_answer=answer, running_since__isnull=False).update(running_since=now)
    rows.update(running_answer=answer, running_asked_at=now, running_says=says[:1000])


def _ask(stream: Stream) -> tuple[RunningStatus, str]:
    """Touches no database: it runs in a thread."""
    try:
        is_running = commands.is_running(stream.running)
    except RepriseError as error:
        return RunningStatus.UNKNOWN, error.sentence
    return (RunningStatus.RUNNING if is_running else RunningStatus.NOT_RUNNING), ""


@contextmanager
def never_run() -> Iterator[None]:
    """In a page and a route no command is run: what was answered last counts."""
    token = _may_run.set(False)
    try:
        yield
    finally:
        _may_run.reset(token)


def may_run() -> bool:
    """May this process run a stream's commands now?"""
    return _may_run.get()
