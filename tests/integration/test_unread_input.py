"""How long records of a real Kafka can be read, while it deletes them and its topics are made again."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts.readers import SourceReader
from recovery.models import Flow, FlowInput, Message
from recovery.pipelines import inputs, looks, retention
from recovery.pipelines.retention import RetentionState
from tests.kafka import KafkaBroker, until
from tests.stack import Stack, instance, wait_for
from tests.unread import flow_at, stand

HOUR_MS = 3_600_000


@pytest.fixture
def reading(kafka: KafkaBroker, tmp_path: Path) -> Callable[..., Flow]:
    """A stopped flow that has read a topic up to an offset."""

    def make(topic: str, offset: int, **options: str) -> Flow:
        flow = flow_at(tmp_path, f'{{"{topic}":{{"0":{offset}}}}}', state="stopped")
        told = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, **options}
        inputs.note_sources(flow, [SourceReader("kafka", options=told)])
        return flow

    return make


def looked(flow: Flow) -> FlowInput:
    looks.look(flow)
    return FlowInput.objects.get(flow=flow)


def judged(row: FlowInput) -> RetentionState:
    return retention.standing(row, "stopped", timezone.now())


def told() -> list[Any]:
    return [m.body["facts"]["unread"] for m in Message.objects.filter(event="flow.retention").order_by("pk")]


@pytest.mark.django_db
def test_records_are_readable_until_the_first_unread_one_is_too_old_and_what_is_deleted_is_counted(
    kafka: KafkaBroker, reading: Callable[..., Flow]
) -> None:
    kafka.topic("kept", retention__ms=6 * HOUR_MS, segment__bytes=1_048_576)
    written = round(time.time() * 1000) - HOUR_MS
    kafka.put("kept", range(5), at_ms=written)
    kafka.put("kept", range(5, 9), at_ms=written + 1000)
    flow = reading("kept", 3)

    row = looked(flow)

    assert (row.readable, row.problem, row.place) == (True, "", f"kept at {kafka.address}")
    assert row.unread["rows"] == {"value": 6, "exact": True, "why": "", "bound": "exact"}
    assert row.until is not None
    assert round(row.until.timestamp() * 1000) == written + 6 * HOUR_MS
    assert judged(row) is RetentionState.SOON
    assert [t[:25] for t in told()] == ["can be read until " + f"{row.until:%Y-%m}"]

    kafka.alter("kept", retention__ms=1000)
    until(lambda: kafka.bounds("kept")[0] == 9, "its records are still there")
    row = looked(flow)
    looks.look(flow)

    assert row.readable is False
    assert row.lost["rows"]["value"] == 6
    assert judged(row) is RetentionState.GONE
    assert told()[1:] == ["can no longer be read"]


@pytest.mark.django_db
def test_a_topic_that_was_made_again_is_known_by_its_id_though_its_offsets_would_fit(
    kafka: KafkaBroker, reading: Callable[..., Flow], tmp_path: Path
) -> None:
    kafka.topic("remade")
    kafka.put("remade", range(5))
    flow = reading("remade", 3)
    first = looked(flow)
    assert first.readable is True
    assert inputs.all_noted_ids(flow) == {"0": first.topic_ids} != {"0": {}}

    kafka.drop("remade")
    kafka.topic("remade")
    kafka.put("remade", range(100, 108))
    row = looked(flow)

    assert row.readable is False
    assert "was deleted and made again" in row.why
    assert inputs.all_noted_ids(flow) == {"0": first.topic_ids}
    assert told() == ["can no longer be read"]

    stand(
        tmp_path, flow, '{"remade":{"0":5}}'
    )  # somebody chose to read the new one, and a batch was committed
    row = looked(flow)

    assert (row.readable, row.unread["rows"]["value"]) == (True, 3)
    assert inputs.all_noted_ids(flow) != {"0": first.topic_ids}


@pytest.mark.django_db
def test_a_topic_that_is_gone_is_said_and_brokers_that_do_not_answer_take_nothing_away(
    kafka: KafkaBroker, reading: Callable[..., Flow], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.topic("leaving")
    kafka.put("leaving", range(2))
    flow = reading("leaving", 1)
    assert looked(flow).readable is True
    kafka.drop("leaving")

    row = looked(flow)

    assert (row.readable, row.why.split(".")[0]) == (False, "Topic leaving is gone")

    password = "open-sesame-1234"
    away = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.sasl.mechanism": "PLAIN",
            "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.jaas.config": "org.apache.kafka.common.security."
            f'plain.PlainLoginModule required username="u" password="{password}";'}  # fmt: skip
    inputs.note_sources(flow, [SourceReader("kafka", options={"subscribe": "leaving", **away})])
    row = looked(flow)

    assert row.problem.startswith("Kafka at 127.0.0.1:1 cannot be asked: it does not answer")
    assert judged(row) is RetentionState.UNKNOWN
    assert password not in repr(FlowInput.objects.values())


@pytest.fixture
def learning() -> Iterator[Stack]:
    """An instance that studies code by itself."""
    with instance(REPRISE_STUDY_SECONDS="3600") as running:
        yield running


def test_a_worker_learns_by_itself_where_a_flow_reads_from_and_looks_there(learning: Stack) -> None:
    stack, incident = learning, learning.incident("watched")  # nobody recovers it

    def seen() -> Any:
        _, out, _ = stack.manage("flows", "--json", token="viewer")
        unread = next(
            f["unread"]
            for f in json.loads(out)["flows"]
            if f["pipeline"]["id"] == incident.pipeline_id and f["flow"] == incident.flow
        )
        there = unread and unread["sources"]
        return unread if there and all(s["seen_at"] or s["problem"] for s in there) else None

    found = wait_for(seen, "nobody has looked at its unread input", 180)

    (source,) = found["sources"]
    assert (found["standing"], found["problem"], source["problem"]) == ("safe", None, None)
    assert (source["kind"], found["code_seen_at"] is None) == ("files", False)
    assert source["unread"]["files"] == {
        "value": len(incident.arrivals.waiting),
        "exact": True,
        "why": "",
        "bound": "exact",
    }
