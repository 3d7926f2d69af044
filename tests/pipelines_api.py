"""A Pipelines API over plain HTTP with one pipeline and no Spark, for tests of what asks it.

Speaks the shapes of the real one (contract tests hold the real server to them). `source` is what the
workspace holds now, `good` what the last good update read; both may be changed while it runs.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests import factories

ROOT = factories.PATH.rsplit("/", 2)[0]
SCHEMA = 'BASE = "/data/in"\nSCHEMA = "customer_id LONG, sequence_num LONG"\n'
FLOW = "spark_catalog.crm.customers_incremental_flow"


def _event(number: int, level: str, kind: str, says: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"e-{number}",
        "timestamp": f"2026-11-21T02:40:{number:02}.402Z",
        "level": level,
        "event_type": kind,
        "message": says,
        "origin": {"update_id": "u-4", **more.pop("origin", {})},
        **more,
    }


def _chain() -> list[dict[str, Any]]:
    return [
        {
            "class_name": "org.apache.spark.sql.streaming.StreamingQueryException",
            "message": factories.MESSAGE,
            "stack": [],
        },
        {"class_name": "org.apache.spark.SparkRuntimeException", "message": factories.MESSAGE, "stack": []},
    ]


def _batch(number: int, rows_in: int, rows_out: int, milliseconds: int, state_rows: int) -> dict[str, Any]:
    """A batch of the flow as Spark's StreamingQueryProgress tells it."""
    told = {
        "id": "a1b2c3d4-0000-4000-8000-000000000001",
        "batchId": number,
        "timestamp": f"2026-11-21T02:{10 + number:02}:00.000Z",
        "numInputRows": rows_in,
        "durationMs": {"addBatch": milliseconds - 90, "triggerExecution": milliseconds},
        "stateOperators": [{"operatorName": "dedupe", "numRowsTotal": state_rows}],
        "sources": [],
        "sink": {"description": "FileSink", "numOutputRows": rows_out},
    }
    body = {"stream_progress": {"progress_json": json.dumps(told)}}
    return _event(number, "INFO", "stream_progress", f"Completed a streaming update of '{FLOW}'.",
                  origin={"flow_name": FLOW}, details=body)  # fmt: skip


BATCHES = [_batch(*said) for said in (
    (3, 18_240, 17_990, 4_210, 1_204_377), (4, 21_004, 20_611, 4_950, 1_224_988), (5, 0, 0, 610, 1_224_988),
    (6, 94_877, 91_340, 19_730, 1_316_328), (7, 20_118, -1, 5_020, 1_335_902), (8, 19_604, 19_211, 4_870, 1_355_113),
)]  # fmt: skip

EVENTS = [
    _event(27, "ERROR", "update_progress", "Update u-4 is FAILED."),
    _event(26, "ERROR", "flow_progress", "Flow failed.", origin={"flow_name": FLOW},
           error={"fatal": True, "exceptions": _chain()}),
    _event(20, "WARN", "flow_progress", "Attempt 1 of 2 failed.", origin={"flow_name": FLOW}),
    _event(11, "INFO", "flow_progress", "Another flow is COMPLETED.", origin={"flow_name": "spark_catalog.crm.other"}),
    _event(2, "INFO", "create_update", "Update u-4 started by API call."),
]  # fmt: skip


@dataclass
class Api:
    url: str = ""
    source: dict[str, str] = field(
        default_factory=lambda: {factories.PATH: factories.CODE, factories.SCHEMA_PATH: SCHEMA}
    )
    good: dict[str, str] = field(default_factory=lambda: {factories.PATH: factories.OLD_CODE})
    asked: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=lambda: list(EVENTS))

    def answer(self, path: str, query: dict[str, list[str]]) -> Any:
        """The body for a GET, None for 404."""
        self.asked.append(path)
        if path.endswith("/updates"):
            return {
                "updates": [
                    {"update_id": "u-4", "state": "FAILED"},
                    {"update_id": "u-3", "state": "COMPLETED"},
                ]
            }
        if path.endswith("/events"):
            return {"events": self.events}
        if path.endswith("/u-3/source"):
            return {"files": [_file(p, t) for p, t in self.good.items()]} if self.good else None
        if path.startswith("/api/2.0/pipelines/"):
            return self._pipeline(path.rsplit("/", 1)[-1])
        return self._workspace(path.rsplit("/", 1)[-1], query.get("path", [""])[0])

    def _pipeline(self, pipeline_id: str) -> dict[str, Any]:
        glob = {"glob": {"include": f"{ROOT}/transformations/**"}}
        spec = {"id": pipeline_id, "root_path": ROOT, "libraries": [glob], "storage": "file:/nowhere/storage"}
        return {"pipeline_id": pipeline_id, "state": "IDLE", "spec": spec, "latest_updates": []}

    def _workspace(self, verb: str, path: str) -> Any:
        if verb == "list":
            inside = {p[len(path) + 1 :].split("/")[0] for p in self.source if p.startswith(path + "/")}
            return {"objects": [self._object(f"{path}/{name}") for name in sorted(inside)]}
        if verb == "export" and path in self.source:
            return {"content": base64.b64encode(self.source[path].encode()).decode()}
        return None

    def _object(self, path: str) -> dict[str, str]:
        return {"path": path, "object_type": "FILE" if path in self.source else "DIRECTORY"}


def _file(path: str, text: str) -> dict[str, str]:
    return {"path": path, "sha256": "", "content": base64.b64encode(text.encode()).decode()}


@contextmanager
def serve() -> Iterator[Api]:
    """Run it on a free port of the loopback until the block ends."""
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = api.answer(parts.path, parse_qs(parts.query))
            missing = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "not there"}
            data = json.dumps(missing if body is None else body).encode()
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
