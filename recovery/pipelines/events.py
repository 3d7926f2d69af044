"""Reads the event log of a pipeline: which flows there are, which one failed and why, where each one stood.

No I/O. An event is data from outside: any field may be missing, of another type, or encoded twice, and
must then count as not said, never as an error of ours.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from recovery.blaming import find_code_failure, read_exception
from recovery.contracts.diagnosis import ChainedError
from recovery.numbers import read_whole

NO_FLOW: Final = "pipelines.flowTimeMetrics.missingFlowName"
"""A pseudo name in events that belong to no flow."""

TABLE_FLOWS: Final = frozenset({"COMPLETE", "SNAPSHOT", "SNAPSHOT_CHANGE", "MATERIALIZED_VIEW", "VIEW"})
"""Flow types without a streaming checkpoint."""

ApiEvent = Mapping[str, Any]
"""An event as the Pipelines API sends it."""
ApiUpdate = Mapping[str, Any]
"""An update as the Pipelines API sends it, or with what the pipeline's row keeps of it (`folding.remembered`)."""
EMPTIED: Final = "x_reprise_emptied"
"""The event in which our server says which datasets an update emptied at set-up; other services have no word for it."""
NEW_TABLE: Final = "x_reprise_new_table"
"""In the details of the first batch that is kept of a plain stream's run: that its table was new."""
CHECKPOINT_IS_GONE: Final = "x-reprise-checkpoint-gone"
"""In an answer on a plain stream: its checkpoint was there and no longer is."""
NO_END: Final = "LOG_WITHOUT_END"
"""As cause of a cancelled update: a plain stream's run that is over, and whose log does not say how it ended."""
FIRST_BATCH: Final = "x_reprise_first_batch"
"""There too: the number of the run's first batch, of which no more is kept."""
UNSEEN: Final = "unseen"
"""In place of a digest of a batch's input where the batch is not kept."""

SOME_FILES: Final = "some files"
"""In place of a digest of a batch's input where that was files: which ones is not known."""

NOT_RUN: Final = frozenset({"SKIPPED", "EXCLUDED"})
"""Statuses of a flow that had no part in an update: something before it failed, or it was not selected."""


@dataclass(frozen=True)
class Definition:
    """A flow as an update's graph defined it. `name` is `origin.flow_name`, verbatim."""

    name: str
    dataset: str
    inputs: tuple[str, ...] = ()
    flow_type: str = ""
    once: bool = False

    @property
    def streaming(self) -> bool:
        return self.flow_type not in TABLE_FLOWS and not self.once


@dataclass(frozen=True)
class FlowStatus:
    """The last thing an update said about a flow. `causes`: of a failure, outermost first."""

    name: str
    status: str
    at: datetime | None
    causes: tuple[ChainedError, ...] = ()


@dataclass(frozen=True)
class FlowProgress:
    """The newest batch of a flow. `body` is Spark's StreamingQueryProgress. `truncated`: an offset was cut
    short by the log, so none of these may be offered as a place to start from.
    """

    name: str
    batch: int | None
    at: datetime | None
    body: Mapping[str, Any]
    truncated: bool


def details(event: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of an event: `details.<event_type>`, whether it came as an object or as JSON text."""
    outer = as_object(event.get("details"))
    return as_object(outer.get(str(event.get("event_type") or "")))


def as_object(value: Any) -> dict[str, Any]:
    """`value` as an object; JSON text is read, anything else is empty."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def when(value: Any) -> datetime | None:
    """A time of the API: ISO text, or milliseconds since 1970 as a number or digits."""
    try:
        number = value if isinstance(value, float) else read_whole(value)
        if number is not None:
            return datetime.fromtimestamp(int(number) / 1000, UTC)
        moment = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def in_order(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Oldest first, by time and then by the log's own numbers; those without a time come first."""

    def key(event: Mapping[str, Any]) -> tuple[float, int]:
        at = when(event.get("timestamp"))
        number = read_whole(as_object(event.get("sequence")).get("control_plane_seq_no"))
        return (at.timestamp() if at else 0.0, number or 0)

    return sorted((e for e in events if isinstance(e, Mapping)), key=key)


def flow_name(event: Mapping[str, Any]) -> str:
    """`origin.flow_name`, verbatim; "" for an event of no flow."""
    name = as_object(event.get("origin")).get("flow_name")
    return name if isinstance(name, str) and name != NO_FLOW else ""


def update_id(event: Mapping[str, Any]) -> str:
    """`origin.update_id`, or ""."""
    return str(as_object(event.get("origin")).get("update_id") or "")


def definitions(events: Iterable[Mapping[str, Any]]) -> dict[str, Definition]:
    """Flows by name, each as the newest event defines it."""
    definition_by_name: dict[str, Definition] = {}
    for event in in_order(events):
        name = flow_name(event)
        if event.get("event_type") != "flow_definition" or not name:
            continue
        said = details(event)
        inputs = said.get("input_datasets")
        definition_by_name[name] = Definition(
            name=name,
            dataset=str(said.get("output_dataset") or said.get("output_sink") or ""),
            inputs=tuple(str(i) for i in inputs) if isinstance(inputs, list) else (),
            flow_type=str(said.get("flow_type") or ""),
            once=said.get("once") is True,
        )
    return definition_by_name


def statuses(events: Iterable[Mapping[str, Any]], update: str | None = None) -> dict[str, FlowStatus]:
    """The last status of each flow, of one update or of all given events.

    Only the last counts: Spark says COMPLETED of a flow that it then reports as FAILED. The causes of a
    failure may have come with an earlier FAILED of the same flow (a retry), so the newest ones are kept.
    """
    status_by_flow: dict[str, FlowStatus] = {}
    for event in in_order(events):
        name = flow_name(event)
        if event.get("event_type") != "flow_progress" or not name or update not in (None, update_id(event)):
            continue
        said = details(event)
        status = str(said.get("status") or "")
        reasons = causes(event)
        if status == "FAILED" and not reasons and name in status_by_flow:
            reasons = status_by_flow[name].causes
        status_by_flow[name] = FlowStatus(
            name=name,
            status=status,
            at=when(event.get("timestamp")),
            causes=reasons if status != "COMPLETED" else (),
        )
    return status_by_flow


def emptied(events: Iterable[Mapping[str, Any]]) -> dict[str, datetime | None]:
    """Datasets that an update emptied before its first flow ran, each with the time at which that was over."""
    emptied_at: dict[str, datetime | None] = {}
    for event in in_order(events):
        named = details(event).get("datasets") if event.get("event_type") == EMPTIED else None
        if isinstance(named, list):
            emptied_at |= {str(name): when(event.get("timestamp")) for name in named}
    return emptied_at


@dataclass(frozen=True)
class UpdateEnd:
    """The last event of an update. `cancelled_by`: the service's word for who cancelled it, "" for no one."""

    state: str
    at: datetime | None
    cancelled_by: str = ""


ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELED"})
BEGUN: Final = frozenset({"QUEUED", "STARTING", "RUNNING", "COMPLETED", "SKIPPED"})
"""Statuses that a flow has only once the graph was analysed: the update has come as far as its flows."""


def end_of(events: Iterable[Mapping[str, Any]]) -> UpdateEnd | None:
    """How the update of these events ended; None while none of them says it."""
    for event in reversed(in_order(events)):
        said = details(event) if event.get("event_type") == "update_progress" else {}
        if said.get("state") in ENDED:
            by = str(said.get("cancellation_cause") or "")
            return UpdateEnd(str(said["state"]), when(event.get("timestamp")), by)
    return None


def any_flow_began(events: Iterable[Mapping[str, Any]]) -> bool:
    """Did any flow come as far as to wait for its turn?"""
    return any(
        event.get("event_type") == "stream_progress"
        or (event.get("event_type") == "flow_progress" and details(event).get("status") in BEGUN)
        for event in events
        if isinstance(event, Mapping)
    )


def causes(event: Mapping[str, Any]) -> tuple[ChainedError, ...]:
    """Of an event's error, outermost first; messages are never empty. One that people's code raised has the file and
    the line of it (recovery/blaming.py)."""
    exceptions = as_object(event.get("error")).get("exceptions")
    if not isinstance(exceptions, list):
        return ()
    read = [read_exception(as_object(exception)) for exception in exceptions]
    return tuple(_place_in_code(error) for error in read if error.class_name or error.message)


def _place_in_code(error: ChainedError) -> ChainedError:
    code = find_code_failure([error])
    return ChainedError(
        class_name=error.class_name,
        message=error.message or error.class_name,
        file=code.file if code else None,
        line=str(code.line or "") if code else None,
    )


CUT: Final = "UpdateCutOff"
"""Class name by which our own server says that an update failed because what it ran on ended."""


NOTHING_BEGAN: Final = "NothingBegan"
"""Class of the cause of an update of a plain stream of which nothing shows that it began."""


QUERY_NOT_BEGUN: Final = "QueryNotBegun"
"""Class of the cause of an update of a plain stream whose application ended before its query began."""


def was_unseen(events: Iterable[Mapping[str, Any]]) -> bool:
    """Did an update fail because nothing shows that it began?"""
    return any(
        cause.class_name == NOTHING_BEGAN
        for event in events
        if event.get("event_type") == "flow_progress"
        for cause in causes(event)
    )


def was_cut(events: Iterable[Mapping[str, Any]]) -> bool:
    """Did an update fail because what it ran on ended, by its own events? False where they do not say."""
    return any(
        cause.class_name == CUT
        for event in events
        if event.get("event_type") == "update_progress"
        for cause in causes(event)
    )


def failure_of(events: Sequence[Mapping[str, Any]], flow: str | None = None) -> list[ChainedError]:
    """Why an update failed: the causes of the flow's failure, else of any flow's, else the update's own.

    Outermost first, so the last one is the reason; empty when the events do not say. A flow that was
    skipped because another failed is no reason.
    """
    failed = [s for s in statuses(events).values() if s.status == "FAILED" and s.causes]
    for status in sorted(failed, key=lambda s: s.name != flow):
        return list(status.causes)
    for event in reversed(in_order(events)):
        if event.get("event_type") in ("update_progress", "create_update") and (
            failure_causes := causes(event)
        ):
            return list(failure_causes)
    return []


def read_first_number(events: Iterable[ApiEvent], flow: str) -> int | None:
    """The number of the first batch of a plain stream's run of which later batches alone are kept; else None."""
    numbers = (details(event).get(FIRST_BATCH) for event in events if flow_name(event) == flow)
    return next((number for number in numbers if isinstance(number, int)), None)


def makes_new_table(events: Iterable[ApiEvent], flow: str) -> bool | None:
    """Whether an update of a plain stream made the table, so that nothing of before is in it; False where that is not
    known. None where no event tells of it, as of a pipeline's update."""
    told = [details(event).get(NEW_TABLE) for event in events if flow_name(event) == flow]
    return True in told if any(isinstance(value, bool) for value in told) else None


@dataclass(frozen=True)
class Batch:
    """One batch that ran. What its progress does not say is None, never 0; `seconds` is the whole trigger.

    `input`: a digest of what it was to read, from which offset to which; "" for nothing new. A table that skips a batch
    reads no row of it: `rows_in` is 0 then, though the offsets go on.
    """

    number: int
    at: datetime | None
    rows_in: int | None
    rows_out: int | None
    seconds: float | None
    state_rows: int | None
    input: str = ""

    @property
    def takes_input(self) -> bool:
        return bool(self.rows_in or self.input)


def batches(events: Iterable[Mapping[str, Any]], flow: str) -> list[Batch]:
    """Batches of one flow, oldest first, each once: a query says a batch again while it waits for input."""
    batch_by_key: dict[tuple[str, int], Batch] = {}
    for event in in_order(events):
        if event.get("event_type") != "stream_progress" or flow_name(event) != flow:
            continue
        body = _body(event)
        said = _progress(flow, event, body)
        took = as_object(body.get("durationMs"))
        if said.batch is None or (took and "addBatch" not in took):
            continue  # an idle look: no batch ran
        out = _count(as_object(body.get("sink")).get("numOutputRows"))
        seconds = _count(took.get("triggerExecution"))
        batch_by_key[str(body.get("id") or ""), said.batch] = Batch(
            number=said.batch,
            at=said.at,
            rows_in=_count(body.get("numInputRows")),
            rows_out=out,
            seconds=None if seconds is None else seconds / 1000,
            state_rows=_state_rows(body.get("stateOperators")),
            input=_input(str(body.get("id") or ""), body.get("sources")),
        )
    return list(batch_by_key.values())


def _input(query_id: str, sources: Any) -> str:
    """A digest of what a batch of this query read; "" where it read nothing. Files have no offset that says which ones
    they are: their `logOffset` counts entries of a log that may have been written again (`SOME_FILES`)."""
    read_sources = [as_object(source) for source in sources] if isinstance(sources, list) else []
    spans = [(source.get("startOffset"), source.get("endOffset")) for source in read_sources]
    if all(end is None or start == end for start, end in spans):
        return ""
    if any("logOffset" in as_object(end) for _, end in spans):
        return SOME_FILES
    spans.append((query_id, query_id))  # a sink of files goes by the number alone, whichever query it is of
    return hashlib.sha256(json.dumps(spans, sort_keys=True).encode()).hexdigest()[:16]


def _count(value: Any) -> int | None:
    """A count as Spark says it; -1 is its word for not known (SinkProgress.numOutputRows)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _state_rows(operators: Any) -> int | None:
    counts = (
        [_count(as_object(o).get("numRowsTotal")) for o in operators] if isinstance(operators, list) else []
    )
    known = [rows for rows in counts if rows is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _body(event: Mapping[str, Any]) -> dict[str, Any]:
    """Spark's StreamingQueryProgress, in any of the shapes in which `stream_progress` carries it."""
    said = details(event)
    body = as_object(said.get("progress_json")) or as_object(said.get("progress"))
    return said if not body and "sources" in said else body


def progress(events: Iterable[Mapping[str, Any]]) -> dict[str, FlowProgress]:
    """The newest progress of each flow, from `stream_progress` in any of its shapes."""
    progress_by_flow: dict[str, FlowProgress] = {}
    for event in in_order(events):
        name = flow_name(event)
        if event.get("event_type") != "stream_progress" or not name:
            continue
        if body := _body(event):
            progress_by_flow[name] = _progress(name, event, body)
    return progress_by_flow


def _progress(name: str, event: Mapping[str, Any], body: Mapping[str, Any]) -> FlowProgress:
    batch = body.get("batchId", as_object(event.get("origin")).get("batch_id"))
    sources = body.get("sources")
    flags = ("startOffsetTruncated", "endOffsetTruncated", "latestOffsetTruncated")
    return FlowProgress(
        name=name,
        batch=read_whole(batch),
        at=when(body.get("timestamp")) or when(event.get("timestamp")),
        body=body,
        truncated=any(as_object(s).get(f) for s in sources for f in flags)
        if isinstance(sources, list)
        else False,
    )
