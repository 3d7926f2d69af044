"""How a start that a recovery asked for has ended, judged from what can be seen of the stream. Pure.

COMPLETED says that nothing is left to wait for: the program has ended well, or it goes on and has caught up. Neither
is proof, which is what verification is for.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from recovery.eventlogs.values import Run, RunState
from recovery.pipelines import events as api_events
from recovery.streams.standing import StreamProgress

QUIET: Final = timedelta(seconds=10)
"""A stream that runs, has committed what it planned and has planned nothing for so long has caught up."""
BUSY: Final = timedelta(minutes=5)
"""A stream whose input never rests counts as under way after this long, since its run began, and `MANY` batches. The
end of a run that reads a backlog is waited for until then: what it has not read yet would look lost."""
MANY: Final = 3
NO_SIGN: Final = timedelta(minutes=2)
"""So long a stream may take from its start command to its first sign of life."""
SLOW: Final = timedelta(minutes=5)
"""A stream that runs and plans nothing for so long after its start counts as one with nothing to read, where no event
log shows that it waits for input: a driver on a cluster takes minutes until its query begins."""
FOREGROUND: Final = timedelta(seconds=6)
"""A start command that ran for so long was the program itself, and not what sent it elsewhere."""

NOTHING_BEGAN: Final = (
    "Nothing shows that it began: the start command ended with 0, and since then nothing runs, no event log tells of a "
    "run, and no batch was committed."
)
NO_END: Final = "The stream began and no longer runs: its event log has no end, and no batch was committed."


@dataclass(frozen=True)
class RequestedStart:
    """A start, as it was asked for. `command_ended`: the exit code, None while it runs or where there is none;
    `command_took`: how long it ran, `output`: the end of what it printed."""

    at: datetime
    batch_before: int | None
    is_look: bool = False
    by_hand: bool = False
    command_ended: int | None = None
    command_took: timedelta | None = None
    output: str = ""


@dataclass(frozen=True)
class StartOutcome:
    """`state`: COMPLETED, FAILED, or RUNNING and WAITING_FOR_RESOURCES for no end yet. `failure_class`: as
    `StreamUpdate.failure_class`."""

    state: str
    failure: str = ""
    failure_class: str = ""


RUNNING, WAITING, DONE = (
    StartOutcome("RUNNING"),
    StartOutcome("WAITING_FOR_RESOURCES"),
    StartOutcome("COMPLETED"),
)


def judge_start(
    begun: RequestedStart, run: Run | None, standing: StreamProgress, alive: bool | None, now: datetime
) -> StartOutcome:
    """`run`: that came of the start, as far as an event log tells; `alive`: does the stream run now? None: unknown."""
    since = now - begun.at
    if run is not None and run.state is RunState.FAILED:
        return StartOutcome("FAILED", run.failure)
    if begun.is_look:
        return RUNNING if since < QUIET else DONE
    if begun.command_ended:
        says = f"The start command ended with {begun.command_ended}. {begun.output[-4000:]}"
        return StartOutcome("FAILED", says)
    if run is not None and run.state is not RunState.RUNNING and alive is not True:
        return DONE if not standing.is_open else StartOutcome("FAILED", _left_open(standing))
    if alive is False:
        return _judge_stopped(begun, run, standing, since, now)
    came = _count_batches(begun, standing)
    if alive is None and not came:
        return WAITING
    return _judge_running(begun, run, standing, now)


def _count_batches(begun: RequestedStart, standing: StreamProgress) -> int:
    """Batches that were committed since."""
    before = -1 if begun.batch_before is None else begun.batch_before
    return 0 if standing.committed is None else max(0, standing.committed - before)


def _judge_running(
    begun: RequestedStart, run: Run | None, standing: StreamProgress, now: datetime
) -> StartOutcome:
    came = _count_batches(begun, standing)
    since_ms = begun.at.timestamp() * 1000 if run is None else run.started_ms
    if came >= MANY and now.timestamp() * 1000 - since_ms > BUSY.total_seconds() * 1000:
        return DONE
    if standing.is_open:
        return RUNNING
    if came:
        return DONE if _quiet(standing, now) >= QUIET else RUNNING
    return DONE if _has_nothing_to_read(begun, run, now) else RUNNING


def _has_nothing_to_read(begun: RequestedStart, run: Run | None, now: datetime) -> bool:
    """A person starts it whenever that suits: how long ago it was asked for tells nothing of the run."""
    if run is not None:
        return (
            run.idle_ms is not None or now.timestamp() * 1000 - run.started_ms > SLOW.total_seconds() * 1000
        )
    return not begun.by_hand and now - begun.at > SLOW


def _judge_stopped(
    begun: RequestedStart, run: Run | None, standing: StreamProgress, since: timedelta, now: datetime
) -> StartOutcome:
    """Nothing runs: it has ended, or it has not begun yet. That a command ended with 0 shows neither: what it has sent
    elsewhere may have crashed at once."""
    if begun.by_hand and not _count_batches(begun, standing):
        return WAITING
    if begun.command_ended is None and not begun.by_hand:
        return WAITING  # the command is still at it
    took = begun.command_took or timedelta()
    # a person starts it whenever that suits
    late = _quiet(standing, now) if begun.by_hand else since - took
    came, is_late = _count_batches(begun, standing), late > NO_SIGN
    if standing.is_open and (took >= FOREGROUND or is_late):
        return StartOutcome("FAILED", f"{_left_open(standing)} {begun.output[-4000:]}".rstrip())
    if standing.is_open:
        return WAITING
    if came:
        return DONE if _quiet(standing, now) >= QUIET / 2 else WAITING
    if not is_late:
        return WAITING  # its log may come late
    if run is None:
        return StartOutcome("FAILED", NOTHING_BEGAN, api_events.NOTHING_BEGAN)
    return StartOutcome("FAILED", NO_END)


def _quiet(standing: StreamProgress, now: datetime) -> timedelta:
    if standing.moved_ms is None:
        return timedelta.max
    return timedelta(milliseconds=max(0.0, now.timestamp() * 1000 - standing.moved_ms))


def _left_open(standing: StreamProgress) -> str:
    return f"The program ended with batch {standing.planned} planned and not committed."
