"""Writes the flow events of one update: definitions, progress, streaming batches."""

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from recovery.server import events
from recovery.server.eventlog import QueryEvent
from recovery.server.graph import Graph, GraphFlow
from recovery.server.java_exceptions import parse_chain
from recovery.server.messages import FlowReport
from recovery.server.models import Pipeline
from recovery.server.room import EventLogRoom, LeftOut
from recovery.server.tracking import FINAL, StatusChange, Track

NAMESPACE = uuid.UUID("6f1b1a0e-6f0c-4d6e-9d6b-0f2d3f6f3a77")
EMPTIED = "x_reprise_emptied"
LEFT_OUT = "x_reprise_left_out"
MESSAGES = {
    "QUEUED": "is QUEUED",
    "STARTING": "is STARTING",
    "RUNNING": "is RUNNING",
    "COMPLETED": "has COMPLETED",
    "FAILED": "has FAILED",
    "STOPPED": "has STOPPED",
    "SKIPPED": "is SKIPPED",
    "EXCLUDED": "is EXCLUDED",
}


class FlowLog:
    """The flows of one update and what was reported of them."""

    def __init__(self, pipeline: Pipeline, update_id: str, why: Callable[[str], str | None]) -> None:
        """`why` asks the driver for the printed exception of a flow; the event log's lacks the outermost one."""
        self.pipeline = pipeline
        self.update_id = update_id
        self.why = why
        self.graph = Graph()
        self.versions: dict[str, int] = {}
        self.tracks: dict[str, Track] = {}
        self.unresolved = False
        self.upstream: set[str] = set()
        self.defined = False
        self.room = EventLogRoom()

    def define(self, graph: Graph, versions: dict[str, int]) -> None:
        """The graph of this update, and the checkpoint version that each streaming flow uses."""
        self.graph, self.versions = graph, versions

    def flow_id(self, name: str) -> str:
        """Stable while the flow goes on from the same checkpoint version; another one after a reset."""
        return str(uuid.uuid5(NAMESPACE, f"{self.pipeline.id}/{name}/{self.versions.get(name, 0)}"))

    def origin(self, name: str) -> dict[str, Any]:
        """The `origin` of a flow's events."""
        flow = self.graph.flow(name)
        origin = {"flow_id": self.flow_id(name), "flow_name": name}
        return origin | ({"dataset_name": flow.dataset} if flow else {})

    def record_definitions(self, at_ms: int | None = None) -> None:
        """`dataset_definition` and `flow_definition` of the whole graph."""
        self.defined = True
        for dataset in self.graph.datasets:
            flows = [flow for flow in self.graph.flows if flow.dataset == dataset.name]
            events.store_event(
                self.pipeline,
                "dataset_definition",
                f"Dataset '{dataset.name}' defined as {dataset.kind}.",
                {"dataset_type": dataset.kind, "num_flows": len(flows)},
                update_id=self.update_id,
                origin={"dataset_name": dataset.name},
                at_ms=at_ms,
            )
        for flow in self.graph.flows:
            events.store_event(
                self.pipeline,
                "flow_definition",
                f"Flow '{flow.name}' defined as {flow.flow_type}.",
                describe_definition(flow),
                update_id=self.update_id,
                origin=self.origin(flow.name),
                at_ms=at_ms,
            )

    def record_emptied(self, datasets: Sequence[str], at_ms: int) -> None:
        """That Spark emptied these at set-up: the API has no word for it. `at_ms`: when set-up was over."""
        if datasets:
            said = f"Set-up emptied {', '.join(datasets)}; each is full again when its flow has COMPLETED."
            details = {"datasets": list(datasets)}
            events.store_event(self.pipeline, EMPTIED, said, details, update_id=self.update_id, at_ms=at_ms)

    def track(self, name: str) -> Track | None:
        """The track of a flow; None for one more than an update may have."""
        if name not in self.tracks:
            if not self.room.take_flow(name, len(self.tracks)):
                return None
            flow = self.graph.flow(name)
            self.tracks[name] = Track(name, streaming=flow.streaming if flow else False)
        return self.tracks[name]

    def all_ended_well(self) -> bool:
        """Whether each flow that Spark named is known to have ended well, or to be left out."""
        statuses = {track.status for track in self.tracks.values()}
        return "COMPLETED" in statuses and statuses <= {"COMPLETED", "EXCLUDED"}

    def any_failed(self) -> bool:
        """Whether a flow has failed, or may have: something that was said of flows is left out."""
        if self.room.waiting or self.room.left_out[LeftOut.FLOWS]:
            return True
        ends = ((track.status, track.held.status if track.held else "") for track in self.tracks.values())
        return any("FAILED" in end for end in ends)

    def find_failures(self) -> dict[str, str]:
        """Java's print of why each flow that did not begin again since failed, by name; "" where nothing says why."""
        failures = ((name, track.read_failure()) for name, track in self.tracks.items())
        return {name: printed for name, printed in failures if printed is not None}

    def on_said(self, said: FlowReport, at_ms: int, text: str) -> None:
        """One of Spark's sentences about a flow."""
        if (track := self.track(said.flow)) is None:
            return
        if said.unresolved:
            track.hold_end("FAILED", at_ms)
            self.unresolved = True
            if said.upstream:
                self.upstream.add(said.flow)
            return
        self.write(said.flow, track.note_sentence(said.status, at_ms, text))

    def on_query(self, event: QueryEvent) -> None:
        """A flow's query started, progressed or ended."""
        if (track := self.track(event.flow)) is None:
            return
        if event.kind == "progress":
            self.take_batch(event)
        self.write(event.flow, track.note_query(event))

    def take_batch(self, event: QueryEvent) -> None:
        """Write the batch of a progress that read something; offsets as objects, as the service gives them."""
        progress = with_offsets(event.progress)
        if not has_read_input(progress):
            return
        text = json.dumps(progress)
        if self.room.take_batch(event.flow, text):
            self.record_batch(event.flow, text)

    def record_batch(self, flow: str, text: str) -> None:
        """`stream_progress` of a batch; `text` is its progress as JSON."""
        progress = json.loads(text)
        batch = progress.get("batchId")
        events.store_event(
            self.pipeline,
            "stream_progress",
            f"Completed a streaming update of '{flow}': batch {batch}.",
            {"progress_json": text},
            update_id=self.update_id,
            origin=self.origin(flow) | {"batch_id": batch},
            at_ms=ended_at(progress),
        )

    def record_left_out(self) -> None:
        """The last batch of each flow of which some were left out, and how many of what were."""
        for flow, text in self.room.take_last().items():
            self.record_batch(flow, text)
        if counts := self.room.counts():
            said = ", ".join(f"{count} ({reason})" for reason, count in counts.items())
            events.store_event(
                self.pipeline,
                LEFT_OUT,
                f"This update reported more than its event log takes. Left out, by reason: {said}.",
                {"left_out": counts},
                level="WARN",
                update_id=self.update_id,
            )

    def write(self, name: str, changes: list[StatusChange]) -> None:
        """`flow_progress` of each change."""
        for change in changes:
            printed = self.why(name) if change.status == "FAILED" else None
            self.record(
                name, change.status, at_ms=change.at_ms, error=java_error(printed or change.exception)
            )

    def record(
        self, name: str, status: str, *, at_ms: int | None = None, error: dict[str, Any] | None = None
    ) -> None:
        """One `flow_progress` event."""
        details: dict[str, Any] = {"status": status}
        track = self.tracks.get(name)
        if status == "COMPLETED" and track and track.rows is not None and not self.room.waiting:
            details["metrics"] = {"num_output_rows": track.rows}
        level = (
            "WARN"
            if name in self.upstream or status == "SKIPPED"
            else "ERROR"
            if status == "FAILED"
            else "INFO"
        )
        events.store_event(
            self.pipeline,
            "flow_progress",
            f"Flow '{name}' {MESSAGES.get(status, status)}.",
            details,
            level=level,
            update_id=self.update_id,
            origin=self.origin(name),
            error=error,
            at_ms=at_ms,
        )

    def close(
        self, state: str, failures: dict[str, str], error: dict[str, Any] | None, blamed: str | None
    ) -> None:
        """The update is over: every flow gets its last status. `blamed`: the flow whose definition failed."""
        if not self.defined:
            self.record_definitions()
        self.record_left_out()
        moment = events.now_ms()
        for name, track in self.tracks.items():
            for change in track.report_rest(failures, moment):
                if state == "CANCELED":
                    track.status = ""  # Spark calls a flow that was stopped completed
                    continue
                printed = failures.get(name) or change.exception
                why = java_error(printed) or (error if change.status == "FAILED" else None)
                self.record(name, change.status, at_ms=change.at_ms, error=why)
            if track.status not in FINAL:
                self.record(name, left_as(track.status, state))
        if blamed and state == "FAILED":
            self.record(blamed, "FAILED", error=error)


def describe_definition(flow: GraphFlow) -> dict[str, Any]:
    """The details of `flow_definition`."""
    details: dict[str, Any] = {
        "output_dataset": flow.dataset,
        "flow_type": flow.flow_type,
        "once": flow.once,
        "language": flow.language,
    }
    if flow.inputs is not None:
        details["input_datasets"] = list(flow.inputs)
    if flow.schema_json is not None:
        details["schema_json"] = flow.schema_json
        fields = json.loads(flow.schema_json)["fields"]
        details["schema"] = [{"name": f["name"], "data_type": data_type(f["type"])} for f in fields]
    return details


def left_as(status: str, state: str) -> str:
    """What became of a flow whose end Spark did not report, when its update ended in `state`."""
    if state == "COMPLETED":
        return "COMPLETED"
    return "SKIPPED" if status == "QUEUED" and state == "FAILED" else "STOPPED"


def ended_at(progress: dict[str, Any]) -> int | None:
    """When a batch ended, in ms: its start (`timestamp`) and its duration."""
    try:
        start = datetime.fromisoformat(progress["timestamp"])
        return round(start.timestamp() * 1000) + int(progress.get("batchDuration", 0))
    except (KeyError, ValueError):
        return None


def data_type(value: Any) -> str:
    """A column's type in one text."""
    return value if isinstance(value, str) else json.dumps(value)


def java_error(printed: str | None) -> dict[str, Any] | None:
    """The `error` of a printed Java exception."""
    return events.error_of(parse_chain(printed)) if printed else None


def with_offsets(progress: dict[str, Any]) -> dict[str, Any]:
    """A progress whose sources' offsets, which Spark's log holds as JSON text, are objects."""
    sources = []
    for source in progress.get("sources", []):
        parsed = dict(source)
        for key in ("startOffset", "endOffset", "latestOffset"):
            if isinstance(parsed.get(key), str):
                parsed[key] = as_object(parsed[key])
        sources.append(parsed)
    return progress | {"sources": sources}


def as_object(text: str) -> Any:
    """An offset as an object; as it is where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def has_read_input(progress: dict[str, Any]) -> bool:
    """Whether a batch read anything: a progress that only says `nothing new` names no batch that ran."""
    sources = progress.get("sources", [])
    return any(s.get("startOffset") != s.get("endOffset") or s.get("numInputRows") for s in sources)
