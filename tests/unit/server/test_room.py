"""An update's event log has an end, whatever is said of it; what is left out is counted, and last batches are in."""

import json
from typing import Any

import pytest

from recovery.server import execution, room
from recovery.server.eventlog import QueryEvent
from recovery.server.execution import Execution
from recovery.server.flow_events import LEFT_OUT, FlowLog
from recovery.server.messages import FlowReport
from recovery.server.models import Event, Pipeline, Update

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline.objects.create(name="p", spec={"storage": "/s"}, creator="c", last_modified_ms=1)


@pytest.fixture
def log(pipeline: Pipeline) -> FlowLog:
    return FlowLog(pipeline, "u", lambda flow: None)


def batch(number: int, *, flow: str = "c.d.f", more: str = "") -> QueryEvent:
    source = {"startOffset": number, "endOffset": number + 1, "numInputRows": 1, "more": more}
    progress = {"batchId": number, "sources": [source], "sink": {"numOutputRows": 2}}
    return QueryEvent("progress", "S", flow, "r", progress=progress)


def batches() -> list[tuple[str, int]]:
    rows = Event.objects.filter(event_type="stream_progress").order_by("seq")
    return [(e.body["origin"]["flow_name"], e.body["origin"]["batch_id"]) for e in rows]


def left_out() -> dict[str, Any]:
    said = Event.objects.filter(event_type=LEFT_OUT).first()
    return {} if said is None else said.body["details"][LEFT_OUT]["left_out"]


def test_of_many_batches_the_first_and_the_last_of_each_flow_are_written(
    monkeypatch: pytest.MonkeyPatch, log: FlowLog
) -> None:
    monkeypatch.setattr(room, "MOST_BATCHES", 3)
    for number in range(10):
        log.on_query(batch(number))
    log.on_query(batch(7, flow="c.d.g"))
    log.close("COMPLETED", {}, None, None)
    assert batches() == [("c.d.f", 0), ("c.d.f", 1), ("c.d.f", 2), ("c.d.f", 9), ("c.d.g", 7)]
    assert left_out() == {"batches": 6}
    track = log.tracks["c.d.f"]
    assert track.rows == 20, "rows of batches that are left out are counted all the same"


def test_the_bytes_of_all_batches_have_a_bound_and_so_has_each(
    monkeypatch: pytest.MonkeyPatch, log: FlowLog
) -> None:
    monkeypatch.setattr(room, "MOST_BYTES", 1_000)
    monkeypatch.setattr(room, "LONGEST_PROGRESS", 600)
    monkeypatch.setattr(room, "MOST_LAST_BYTES", 0)
    log.on_query(batch(0, more="x" * 600))
    log.on_query(batch(1, more="x" * 400))
    log.on_query(batch(2, more="x" * 450))
    log.close("COMPLETED", {}, None, None)
    assert batches() == [("c.d.f", 1)]
    assert left_out() == {"batches": 1, "too_long": 1}


def test_an_older_batch_is_never_written_as_the_last(monkeypatch: pytest.MonkeyPatch, log: FlowLog) -> None:
    monkeypatch.setattr(room, "MOST_BATCHES", 0)
    monkeypatch.setattr(room, "MOST_LAST_BYTES", 300)
    log.on_query(batch(0))
    log.on_query(batch(1, more="x" * 300))
    log.close("COMPLETED", {}, None, None)
    assert batches() == []
    assert left_out() == {"batches": 2}


def test_names_of_flows_have_a_number_and_a_length(monkeypatch: pytest.MonkeyPatch, log: FlowLog) -> None:
    monkeypatch.setattr(room, "MOST_FLOWS", 2)
    for name in ("a", "b", "c", "x" * 2_000):
        log.on_said(FlowReport(name, "RUNNING"), 1, "")
    log.on_query(batch(0, flow="d"))
    log.close("COMPLETED", {}, None, None)
    named = {event.body["origin"].get("flow_name") for event in Event.objects.all()}
    assert named == {None, "a", "b"}
    assert left_out() == {"flows": 3}
    assert log.any_failed(), "what is left out may have been a failure"


def test_an_update_that_says_less_has_nothing_left_out(log: FlowLog) -> None:
    log.on_query(batch(0))
    log.close("COMPLETED", {}, None, None)
    assert left_out() == {}
    assert not log.any_failed()


def test_what_spark_says_faster_than_it_is_written_is_counted(
    monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline, tmp_path: Any
) -> None:
    monkeypatch.setattr(execution, "MOST_WAITING", 1)
    monkeypatch.setattr(execution, "MOST_QUERIES_WAITING", 2)
    spec = {"storage": "/s", "catalog": "c", "schema": "d"}
    update = Update.objects.create(pipeline=pipeline, state="RUNNING", created_ms=2, spec=spec)
    instance: Any = type("Instance", (), {"home": tmp_path})()
    waiting = Execution(instance, update)
    for number in range(10):
        waiting.tell_query(batch(number))
    assert waiting.inbox.qsize() == 4
    while not waiting.inbox.empty():
        waiting.flows.on_query(waiting.inbox.get()["event"])
    waiting.flows.record("c.d.f", "COMPLETED")
    waiting.flows.close("COMPLETED", {}, None, None)
    assert left_out() == {"waiting": 6}
    said = [event.body["details"] for event in Event.objects.filter(event_type="flow_progress")]
    assert said
    assert "num_output_rows" not in json.dumps(said), "the rows that were left out are not known"
