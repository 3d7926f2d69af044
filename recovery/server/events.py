"""Builds and stores events in the shape of the Pipelines API.

`details` is `{<event_type>: {…}}`; `error.exceptions` is the chain of causes, outermost first.
"""

import time
from datetime import UTC, datetime
from typing import Any

from recovery.server.models import Event, Pipeline, new_id

STABLE = frozenset({"create_update", "user_action", "flow_progress", "update_progress"})


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def format_iso(milliseconds: int) -> str:
    """`2026-03-02T10:15:07.120Z`."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def error_of(exceptions: list[dict[str, Any]], *, fatal: bool = True) -> dict[str, Any]:
    """The `error` of an event."""
    return {"fatal": fatal, "exceptions": exceptions}


CUT = "UpdateCutOff"
"""Class name of the error of an update that failed because what it ran on ended: its runner was killed, Spark's driver
or this server ended. The console starts such an update again (`recovery.pipelines.events.was_cut`)."""


BAD_REPORT = "RunnerReportUnreadable"
"""Class name of the error of an update whose runner sent what is no report: its code can write into the same pipe."""


SILENT = "SparkSilent"
"""Class name of the error of an update whose Spark runs and did not answer in time."""


def simple_error(message: str, class_name: str = "PipelineException") -> dict[str, Any]:
    """An `error` of one exception that has no stack."""
    return error_of([{"class_name": class_name, "message": message, "stack": []}])


def store_event(
    pipeline: Pipeline,
    event_type: str,
    message: str,
    details: dict[str, Any],
    *,
    level: str = "INFO",
    update_id: str = "",
    origin: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    at_ms: int | None = None,
) -> Event:
    """Store one event. `origin` adds flow, dataset and batch to pipeline and update."""
    moment = now_ms() if at_ms is None else at_ms
    event_id = new_id()
    body: dict[str, Any] = {
        "id": event_id,
        "origin": {"pipeline_id": pipeline.id, "pipeline_name": pipeline.name}
        | ({"update_id": update_id} if update_id else {})
        | (origin or {}),
        "timestamp": format_iso(moment),
        "message": message,
        "level": level,
        "maturity_level": "STABLE" if event_type in STABLE else "EVOLVING",
        "event_type": event_type,
        "details": {event_type: details},
    }
    if error is not None:
        body["error"] = error
    return Event.objects.create(
        id=event_id,
        pipeline=pipeline,
        update_id=update_id,
        timestamp_ms=moment,
        level=level,
        event_type=event_type,
        body=body,
    )


def event_answer(event: Event) -> dict[str, Any]:
    """An event as the API gives it, with its place in the log."""
    body: dict[str, Any] = event.body
    return body | {"sequence": {"control_plane_seq_no": event.seq}}
