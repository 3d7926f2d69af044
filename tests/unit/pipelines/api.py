"""A Pipelines API in memory, served over real HTTP: pipelines, updates and events that a test writes."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.pipelines.stub import Answer, Asked

START = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
CHAIN = [
    {
        "class_name": "org.apache.spark.sql.streaming.StreamingQueryException",
        "message": "[STREAM_FAILED] Failed.",
    },
    {
        "class_name": "org.apache.spark.SparkRuntimeException",
        "message": "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does "
        "not match. Stateful operators in the metadata: [(OperatorId: 0 -> OperatorName: dedupe)]; "
        "Stateful operators in current batch: [].",
    },
]


@dataclass
class Pipeline:
    id: str
    name: str
    spec: dict[str, Any] = field(default_factory=dict)
    updates: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    clock: datetime = START

    def event(self, update: str, kind: str, said: dict[str, Any], flow: str = "", **more: Any) -> None:
        self.clock += timedelta(seconds=1)
        origin = {"update_id": update} | ({"flow_name": flow} if flow else {})
        number = len(self.events) + 1
        self.events.append(
            {"id": f"e{number}", "event_type": kind, "timestamp": self.clock.isoformat().replace("+00:00", "Z"),
             "origin": origin, "details": {kind: said}, "sequence": {"control_plane_seq_no": number}} | more
        )  # fmt: skip

    def begin(self, update: str, flows: dict[str, str], **info: Any) -> None:
        """An update that runs; flows by full name, with their type."""
        self.clock += timedelta(hours=1)
        created = int(self.clock.timestamp() * 1000)
        self.updates.insert(0, {"update_id": update, "state": "RUNNING", "creation_time": created} | info)
        for name, kind in flows.items():
            table = name.replace("_flow", "")
            said = {"output_dataset": table, "input_datasets": ["a.b.raw"], "flow_type": kind, "once": False}
            self.event(update, "flow_definition", said, name)

    def status(self, update: str, flow: str, status: str, **more: Any) -> None:
        self.event(update, "flow_progress", {"status": status}, flow, **more)

    def fail(self, update: str, flow: str) -> None:
        self.status(update, flow, "FAILED", error={"fatal": True, "exceptions": CHAIN})

    def batch(self, update: str, flow: str, batch: int) -> None:
        body = f'{{"batchId": {batch}, "sources": [{{"endOffset": {{"logOffset": {batch}}}}}]}}'
        self.event(update, "stream_progress", {"progress_json": body}, flow)

    def end(self, update: str, state: str, **more: Any) -> None:
        next(u for u in self.updates if u["update_id"] == update)["state"] = state
        self.event(update, "update_progress", {"state": state}, **more)

    def run(self, update: str, outcomes: dict[str, str], state: str = "COMPLETED", **info: Any) -> None:
        """A whole update: each flow with its last status."""
        self.begin(update, dict.fromkeys(outcomes, "APPEND"), **info)
        for flow, status in outcomes.items():
            self.status(update, flow, "RUNNING")
            self.fail(update, flow) if status == "FAILED" else self.status(update, flow, status)
        self.end(update, state)

    def infos(self) -> list[dict[str, Any]]:
        return [{"update_id": u["update_id"], "state": u["state"]} for u in self.updates[:5]]


@dataclass
class Api:
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)  # pipelines whose GET answers 500
    list_tells: bool = True  # does the list tell of updates?

    def add(self, id: str, name: str, **spec: Any) -> Pipeline:
        self.pipelines[id] = Pipeline(id=id, name=name, spec=spec)
        return self.pipelines[id]

    def status(self, pipeline: Pipeline) -> dict[str, Any]:
        """Its entry in the list."""
        said = {"pipeline_id": pipeline.id, "name": pipeline.name, "state": "IDLE"}
        return said | ({"latest_updates": pipeline.infos()} if self.list_tells else {})

    def __call__(self, asked: Asked) -> Answer:
        parts = asked.path.removeprefix("/api/2.0/").split("/")
        if parts == ["pipelines"]:
            return Answer(body={"statuses": [self.status(p) for p in self.pipelines.values()]})
        pipeline = self.pipelines.get(parts[1])
        if pipeline is None:
            return Answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"No {parts[1]}."})
        if parts[1] in self.broken:
            return Answer(400, {"message": "cannot be read"})
        if len(parts) == 2:
            body = {"pipeline_id": pipeline.id, "name": pipeline.name, "state": "IDLE", "spec": pipeline.spec}
            return Answer(body=body | {"latest_updates": pipeline.infos()})
        if parts[2] == "updates":
            return Answer(body={"updates": pipeline.updates})
        wanted = re.fullmatch(r"update_id = '(.*)'", asked.query["filter"])
        assert wanted is not None
        found = [e for e in pipeline.events if e["origin"]["update_id"] == wanted[1]]
        return Answer(body={"events": found[::-1]})
