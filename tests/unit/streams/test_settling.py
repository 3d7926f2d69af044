"""How a start has ended is told by what can be seen of the stream, and nothing that was not seen counts as an end."""

from datetime import UTC, datetime, timedelta

import pytest

from recovery.eventlogs.values import Run, RunState
from recovery.pipelines import events as api_events
from recovery.streams.settling import NO_END, NOTHING_BEGAN, RequestedStart, judge_start
from recovery.streams.standing import StreamProgress

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def standing(planned: int | None, committed: int | None, quiet_s: float = 30) -> StreamProgress:
    moved = int((NOW.timestamp() - quiet_s) * 1000)
    return StreamProgress("q", planned, committed, moved)


def begun(ago_s: float = 30, **told: object) -> RequestedStart:
    return RequestedStart(NOW - timedelta(seconds=ago_s), 4, **told)  # type: ignore[arg-type]


def run(state: RunState, failure: str = "", ago_s: float = 20, idle_s: float | None = None) -> Run:
    ms = NOW.timestamp() * 1000
    idle = None if idle_s is None else int(ms - idle_s * 1000)
    return Run("q", "r", state=state, failure=failure, started_ms=int(ms - ago_s * 1000), idle_ms=idle)


FOREGROUND = {"command_ended": 0, "command_took": timedelta(seconds=40)}
SENT_OFF = {"command_ended": 0, "command_took": timedelta(seconds=1)}


@pytest.mark.parametrize(
    ("of", "came", "stands", "alive", "state"),
    [
        # the log tells of an end
        (begun(), run(RunState.FAILED, "boom"), standing(5, 4), False, "FAILED"),
        (begun(), run(RunState.ENDED), standing(5, 5), False, "COMPLETED"),
        (begun(), run(RunState.ENDED), standing(5, 4), False, "FAILED"),
        (begun(), run(RunState.ENDED), standing(5, 5), True, "COMPLETED"),
        # the command tells
        (begun(command_ended=3, command_took=timedelta(1)), None, standing(4, 4), False, "FAILED"),
        (begun(), None, standing(4, 4), False, "WAITING_FOR_RESOURCES"),
        (begun(**FOREGROUND), None, standing(5, 5), False, "COMPLETED"),
        (begun(**FOREGROUND), None, standing(5, 4), False, "FAILED"),
        # it was sent off elsewhere, and has not begun yet
        (begun(**SENT_OFF), None, standing(4, 4), False, "WAITING_FOR_RESOURCES"),
        (begun(**SENT_OFF), None, standing(5, 4), False, "WAITING_FOR_RESOURCES"),
        (begun(**SENT_OFF), None, standing(5, 5), False, "COMPLETED"),
        (begun(200, **SENT_OFF), None, standing(5, 4), False, "FAILED"),
        # nothing shows that it began: what the command sent elsewhere may have crashed at once
        (begun(200, **SENT_OFF), None, standing(4, 4), False, "FAILED"),
        (begun(200, **FOREGROUND), None, standing(4, 4), False, "FAILED"),
        (begun(**FOREGROUND), None, standing(4, 4), False, "WAITING_FOR_RESOURCES"),
        (begun(200, **SENT_OFF), run(RunState.RUNNING), standing(4, 4), False, "FAILED"),
        (begun(200, **SENT_OFF), run(RunState.ENDED), standing(4, 4), False, "COMPLETED"),
        # it goes on
        (begun(), None, standing(5, 4), True, "RUNNING"),
        (begun(), None, standing(5, 5, quiet_s=2), True, "RUNNING"),
        (begun(), None, standing(5, 5), True, "COMPLETED"),
        (begun(), None, standing(4, 4), True, "RUNNING"),
        # nothing is planned yet: a slow driver, until Spark reports that its query waits for input
        (begun(90), None, standing(4, 4), True, "RUNNING"),
        (begun(90), run(RunState.RUNNING), standing(4, 4), True, "RUNNING"),
        (begun(90), run(RunState.RUNNING, idle_s=5), standing(4, 4), True, "COMPLETED"),
        (begun(400), None, standing(4, 4), True, "COMPLETED"),
        (begun(400), run(RunState.RUNNING), standing(4, 4), True, "RUNNING"),
        (begun(400), run(RunState.RUNNING, ago_s=350), standing(4, 4), True, "COMPLETED"),
        (begun(400), None, standing(8, 7, quiet_s=0), True, "COMPLETED"),
        (begun(150), None, standing(8, 7, quiet_s=0), True, "RUNNING"),
        # batches follow each other: input that never rests, or a backlog of which the run is to read all
        (begun(400), run(RunState.RUNNING, ago_s=60), standing(8, 7, quiet_s=0), True, "RUNNING"),
        (begun(900), run(RunState.RUNNING, ago_s=400), standing(8, 7, quiet_s=0), True, "COMPLETED"),
        # by hand, nobody has done anything yet; then a batch is seen
        (begun(9_000, by_hand=True), None, standing(4, 4), None, "WAITING_FOR_RESOURCES"),
        (begun(9_000, by_hand=True), None, standing(4, 4), False, "WAITING_FOR_RESOURCES"),
        (begun(9_000, by_hand=True), None, standing(5, 5), None, "COMPLETED"),
        # ... or a run is seen, long after it was asked for, and has not planned a batch yet
        (begun(9_000, by_hand=True), run(RunState.RUNNING), standing(4, 4), True, "RUNNING"),
        (begun(9_000, by_hand=True), run(RunState.RUNNING, idle_s=2), standing(4, 4), True, "COMPLETED"),
        (begun(9_000, by_hand=True), None, standing(4, 4), True, "RUNNING"),
        # ... or a batch is under way, and the only log that is there is of the run before
        (begun(9_000, by_hand=True), None, standing(6, 5, quiet_s=5), False, "WAITING_FOR_RESOURCES"),
        (begun(9_000, by_hand=True), None, standing(6, 5, quiet_s=200), False, "FAILED"),
        # a look at what runs
        (begun(5, is_look=True), None, standing(5, 5), True, "RUNNING"),
        (begun(15, is_look=True), None, standing(5, 5), True, "COMPLETED"),
    ],
)  # fmt: skip
def test_a_start_ends_by_what_is_seen(
    of: RequestedStart, came: Run | None, stands: StreamProgress, alive: bool | None, state: str
) -> None:
    assert judge_start(of, came, stands, alive, NOW).state == state


@pytest.mark.parametrize(
    ("came", "why", "failure_class"),
    [(None, NOTHING_BEGAN, api_events.NOTHING_BEGAN), (run(RunState.RUNNING), NO_END, "")],
)
def test_a_start_that_nothing_shows_has_a_cause_of_its_own(
    came: Run | None, why: str, failure_class: str
) -> None:
    outcome = judge_start(begun(200, **SENT_OFF), came, standing(4, 4), False, NOW)  # type: ignore[arg-type]
    assert (outcome.failure, outcome.failure_class) == (why, failure_class)
