"""An adopted stream in the words of the Pipelines API: each run of its query is an update, with its events. Pure.

So one model holds both kinds of flows, and one reader: what looks at updates and events needs not know where they come
from. An update that a recovery has asked for keeps the id that it was given then, whatever run came of it.
"""

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from recovery.contracts import codec
from recovery.contracts.diagnosis import ChainedError
from recovery.diagnosis.failure_text import read_failure
from recovery.eventlogs.seen import EarlyEnd, SeenRun
from recovery.eventlogs.times import moment_of, read_ms
from recovery.eventlogs.values import Run, RunState
from recovery.pipelines import events as api_events
from recovery.pipelines.folding import SILENT

SILENT_AFTER: Final = timedelta(minutes=10)
"""An application that is said to run, and has written nothing for so long, is not known to run."""
GROWING: Final = timedelta(seconds=20)
"""A log that grew within this time, or within twice the time between its last batches, is written by a driver that
lives, whatever the running command reports. A stream that waits for input writes that it is idle at a trigger, at most
every 10 s (`spark.sql.streaming.noDataProgressEventInterval`)."""
GROWING_MOST: Final = timedelta(seconds=90)
"""A stop waits no longer for a log to be quiet."""
STATES: Final[Mapping[RunState, str]] = {
    RunState.ENDED: "COMPLETED",
    RunState.FAILED: "FAILED",
    RunState.LEFT: "CANCELED",
}
STATUSES: Final = {"COMPLETED": "COMPLETED", "FAILED": "FAILED", "CANCELED": "STOPPED", "RUNNING": "RUNNING"}
NEWEST: Final = 50


@dataclass(frozen=True)
class StreamUpdate:
    """One update: of a run, or (`run` None) of a start of which no run was seen. `failure`: why it failed, where the
    run does not tell; `failure_class`: the class of that cause, "" where its text tells. `cause`: who asked for it;
    `request_id`: for which request."""

    update_id: str
    state: str
    created_ms: int
    ended_ms: int | None = None
    run: Run | None = None
    failure: str = ""
    request_id: str = ""
    cause: str = "UNKNOWN"
    failure_class: str = ""

    def as_update(self) -> dict[str, Any]:
        """As `UpdateInfo`."""
        return {
            "update_id": self.update_id,
            "state": self.state,
            "creation_time": self.created_ms,
            "cause": self.cause,
        }


@dataclass(frozen=True)
class StreamStatus:
    """What is known of an adopted stream now. `updates`: newest first; `alive`: does it run? None: not known."""

    updates: tuple[StreamUpdate, ...] = field(default=())
    alive: bool | None = None


def build_update(
    seen: SeenRun, now: datetime, *, alive: bool | None, is_followed: bool = False
) -> StreamUpdate:
    """The update of a run. `alive`: whether the stream runs, where somebody can tell better than its log.
    `is_followed`: whether a later run of it began."""
    run, app = seen.run, seen.app
    state = STATES.get(run.state) or _running(seen, now, alive)
    if state == SILENT and is_followed:  # it was killed: two runs share no checkpoint for long
        state = "CANCELED"
    ended = run.ended_ms if run.ended_ms is not None else app.last_ms if state == "CANCELED" else None
    return StreamUpdate(run.run_id, state, run.started_ms, ended, run, run.failure)


@dataclass(frozen=True)
class CoveredEnd:
    """Where a recovery's starts of a run were over. `at`: when; `batch`: the newest batch committed then, None where
    that was not kept: then its time tells, by the driver's clock."""

    at: datetime
    batch: int | None = None

    def is_before(self, progress: Mapping[str, object]) -> bool:
        """Did this batch come later, so that it is of no start?"""
        number = progress.get("batchId")
        if self.batch is not None and isinstance(number, int):
            return number > self.batch
        return (batch_ms(progress) or 0) > self.at.timestamp() * 1000


def build_update_since(
    seen: SeenRun, now: datetime, end: CoveredEnd, *, alive: bool | None, is_followed: bool = False
) -> StreamUpdate:
    """The update of a run that a start has left going: what became of it after the last start of it was over. It is
    newer than they are, and its batches are those that came later."""
    since_ms = int(end.at.timestamp() * 1000)
    later = tuple(body for body in seen.run.batches if end.is_before(body))
    run = replace(seen.run, batches=later, batches_in_all=len(later))
    told = build_update(replace(seen, run=run), now, alive=alive, is_followed=is_followed)
    return replace(told, created_ms=max(told.created_ms, since_ms + 1))


def build_early_failure(end: EarlyEnd) -> StreamUpdate:
    """The failed update of an application in which the query did not begin."""
    key = uuid.uuid5(uuid.NAMESPACE_OID, f"{end.app.app_id} {end.app.attempt} {end.log}")
    ended = f"{moment_of(end.ended_ms):%d %b %Y, %H:%M:%S} UTC"
    says = (
        f"Application {end.app.name} ({end.app.app_id}) ended at {ended}, before this query began. Its event log does "
        "not say why; its driver's output does."
    )
    return StreamUpdate(
        f"application-{key}", "FAILED", end.started_ms, end.ended_ms, failure=says,
        failure_class=api_events.QUERY_NOT_BEGUN,
    )  # fmt: skip


def _running(seen: SeenRun, now: datetime, alive: bool | None) -> str:
    """By when its log was seen to grow: the times in it are those of another clock, and come once a batch."""
    if alive is not None:
        return "RUNNING" if alive else "CANCELED"
    last = seen.moved_at or moment_of(seen.app.last_ms or seen.app.started_ms or 0)
    return SILENT if seen.is_gone or now - last > SILENT_AFTER else "RUNNING"


ENDED: Final = {"COMPLETED": "completed", "FAILED": "failed", "CANCELED": "was canceled"}
"""How a run ended, in words."""


def events_of(
    told: StreamUpdate, *, pipeline_id: str, flow: str, dataset: str, began_table: bool = False
) -> list[dict[str, Any]]:
    """The events of an update, oldest first. `began_table`: the table that it wrote was new."""
    origin = {"pipeline_id": pipeline_id, "update_id": told.update_id}
    of_flow = {**origin, "flow_name": flow}
    found = [
        _event(told, 0, "create_update", told.created_ms, origin, _created(told), "A run began."),
        _event(
            told, 1, "flow_definition", told.created_ms, of_flow,
            {"output_dataset": dataset, "flow_type": "APPEND", "input_datasets": []}, f"{flow} writes {dataset}.",
        ),
    ]  # fmt: skip
    if told.state != SILENT:
        running = {"status": "RUNNING"}
        found.append(
            _event(told, 2, "flow_progress", told.created_ms, of_flow, running, f"{flow} is running.")
        )
    batches = told.run.batches if told.run else ()
    for number, body in enumerate(batches, start=3):
        at = batch_ms(body) or told.created_ms
        details: dict[str, Any] = {"progress_json": dict(body)}
        if body is batches[0]:
            details |= _tell_beginning(told.run, began_table=began_table)
        found.append(_event(told, number, "stream_progress", at, of_flow, details, _batch_message(body)))
    if told.state not in STATUSES or told.state == "RUNNING":
        return found
    end, last = told.ended_ms or told.created_ms, len(found) + 1
    causes = [codec.to_json(error) for error in _list_causes(told)]
    status = {"status": STATUSES[told.state]}
    failed = {"error": {"exceptions": causes}} if told.state == "FAILED" else {}
    ended, level = ENDED[told.state], "ERROR" if failed else "INFO"
    of_end = _event(told, last, "flow_progress", end, of_flow, status, f"{flow} {ended}.", level)
    found.append({**of_end, **failed})
    whole = {"state": told.state}
    if told.state == "CANCELED":
        whole["cancellation_cause"] = api_events.NO_END
    found.append(_event(told, last + 1, "update_progress", end, origin, whole, f"The run {ended}.", level))
    return found


def _tell_beginning(run: Run | None, *, began_table: bool) -> dict[str, object]:
    """What the first batch that is kept of a run tells of its beginning. Batches of one run follow one another."""
    details: dict[str, object] = {api_events.NEW_TABLE: began_table}
    if run is not None and run.last_batch is not None and run.batches_in_all > len(run.batches):
        details[api_events.FIRST_BATCH] = max(0, run.last_batch - run.batches_in_all + 1)
    return details


def _created(told: StreamUpdate) -> dict[str, Any]:
    return {"cause": told.cause, "x-reprise-request-id": told.request_id}


def _event(
    told: StreamUpdate,
    number: int,
    kind: str,
    at_ms: int,
    origin: Mapping[str, Any],
    details: Mapping[str, Any],
    message: str,
    level: str = "INFO",
) -> dict[str, Any]:
    return {
        "id": f"{told.update_id}-{number}",
        "event_type": kind,
        "timestamp": moment_of(at_ms).isoformat(),
        "sequence": {"control_plane_seq_no": number},
        "origin": dict(origin),
        "level": level,
        "message": message,
        "details": {kind: dict(details)},
    }


def _batch_message(progress: Mapping[str, object]) -> str:
    rows = progress.get("numInputRows")
    read = f", {rows:,} input rows" if isinstance(rows, int) else ""
    return f"Batch {progress.get('batchId')} is committed{read}."


def _list_causes(told: StreamUpdate) -> list[ChainedError]:
    """The exception's chain, outermost first."""
    failure = told.failure
    if told.failure_class:
        return [ChainedError(class_name=told.failure_class, message=failure)]
    if not failure:
        return [ChainedError(message="The stream ended, and it is not known why.")]
    return list(read_failure(failure).causes) or [ChainedError(message=failure[:12_000])]


def newest_first(told: Iterable[StreamUpdate]) -> tuple[StreamUpdate, ...]:
    """The newest updates, each id once."""
    by_id = {one.update_id: one for one in told}
    return tuple(sorted(by_id.values(), key=lambda one: one.created_ms, reverse=True)[:NEWEST])


def alive_by_log(seen: Sequence[SeenRun], now: datetime) -> bool | None:
    """Does a run go on, by the logs alone? None: no log tells of one, or the newest is silent. An older one of another
    application that still writes counts too: two programs use one checkpoint then."""
    if not seen:
        return None
    if any(is_writing(s, now) for s in seen):
        return True
    return None if seen[-1].run.state is RunState.RUNNING else False


def find_standstill_doubt(seen: Sequence[SeenRun], committed: int | None, *, is_read: bool) -> str:
    """Why the logs' word of an end, or their silence, proves no standstill; "" where it does. `committed`: the newest
    batch of the checkpoint; `is_read`: were the logs read to where they are now?"""
    if not is_read:
        return "Its event logs could not be read in whole."
    if seen and seen[-1].problem and not seen[-1].is_done:
        return f"Its newest event log cannot be read on: {seen[-1].problem}"
    logged = [s.run.last_batch for s in seen if s.run.last_batch is not None]
    if (
        committed is not None and logged and committed > max(logged) + 1
    ):  # a kill can hide one batch from the log
        return f"Its checkpoint has batch {committed}, and its event logs end with batch {max(logged)}."
    return ""


def is_writing(seen: SeenRun, now: datetime) -> bool:
    """Does a run without an end still write its log?"""
    return seen.run.state is RunState.RUNNING and _running(seen, now, None) == "RUNNING"


def is_growing(seen: Sequence[SeenRun], now: datetime) -> bool:
    """Did the log of a run without an end grow just now?"""
    going = (run for run in seen if run.run.state is RunState.RUNNING and not run.is_gone)
    return any(run.moved_at is not None and now - run.moved_at <= _growing_within(run) for run in going)


def _growing_within(seen: SeenRun) -> timedelta:
    """So long a driver that lives may leave this log as it is."""
    at_ms = [ms for ms in map(batch_ms, seen.run.batches[-5:]) if ms is not None]
    gap = max((later - earlier for earlier, later in itertools.pairwise(at_ms)), default=0)
    return min(GROWING_MOST, max(GROWING, timedelta(milliseconds=2 * gap)))


def batch_ms(progress: Mapping[str, object]) -> int | None:
    """When a batch began by its progress event, in milliseconds since 1970; None: it does not tell."""
    return read_ms(progress.get("timestamp"))
