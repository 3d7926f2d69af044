"""The event log, in all the shapes that it is known to come in, and in some that it should not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.contracts.diagnosis import read_chain
from recovery.pipelines import events as log
from tests.unit.pipelines.api import CHAIN, Pipeline

FLOW = "main.shop.orders_flow"
OTHER = "main.shop.other_flow"


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline(id="p", name="shop")


def test_flows_are_read_from_their_definitions(pipeline: Pipeline) -> None:
    pipeline.begin("u1", {FLOW: "APPEND", OTHER: "MATERIALIZED_VIEW"})
    found = log.definitions(reversed(pipeline.events))
    assert found[FLOW] == log.Definition(FLOW, "main.shop.orders", ("a.b.raw",), "APPEND", once=False)
    assert [found[name].streaming for name in (FLOW, OTHER)] == [True, False]


def test_the_last_status_of_a_flow_counts_in_whatever_order_events_come(pipeline: Pipeline) -> None:
    pipeline.begin("u1", {FLOW: "APPEND"})
    pipeline.status("u1", FLOW, "COMPLETED")
    pipeline.fail("u1", FLOW)
    pipeline.status("u1", FLOW, "FAILED")
    for events in (pipeline.events, pipeline.events[::-1]):
        status = log.statuses(events)[FLOW]
        assert status.status == "FAILED"
        assert status.causes == read_chain(CHAIN)


def test_a_flow_that_succeeds_after_a_retry_has_no_causes(pipeline: Pipeline) -> None:
    pipeline.fail("u1", FLOW)
    pipeline.status("u1", FLOW, "COMPLETED")
    assert log.statuses(pipeline.events)[FLOW].causes == ()
    assert log.failure_of(pipeline.events, FLOW) == []


def test_statuses_may_be_limited_to_one_update(pipeline: Pipeline) -> None:
    pipeline.status("u1", FLOW, "COMPLETED")
    pipeline.status("u2", FLOW, "RUNNING")
    assert log.statuses(pipeline.events, "u1")[FLOW].status == "COMPLETED"


def test_the_reason_is_the_named_flows_own_then_any_flows_then_the_updates(pipeline: Pipeline) -> None:
    mine, whole = [{"class_name": "A", "message": "mine"}], [{"class_name": "B", "message": "graph"}]
    pipeline.status("u1", OTHER, "SKIPPED", error={"exceptions": [{"message": "upstream"}]})
    pipeline.event("u1", "update_progress", {"state": "FAILED"}, error={"exceptions": whole})
    assert log.failure_of(pipeline.events, FLOW) == list(read_chain(whole))
    pipeline.fail("u1", OTHER)
    assert log.failure_of(pipeline.events, FLOW) == list(read_chain(CHAIN))
    pipeline.status("u1", FLOW, "FAILED", error={"exceptions": mine})
    assert log.failure_of(pipeline.events, FLOW) == list(read_chain(mine))
    assert log.failure_of(pipeline.events) in (list(read_chain(mine)), list(read_chain(CHAIN)))


PROGRESS = {
    "batchId": 4,
    "timestamp": "2026-03-02T09:58:00.000Z",
    "sources": [{"endOffset": {"logOffset": 4}}],
}
TEXT = '{"batchId": 4, "timestamp": "2026-03-02T09:58:00.000Z", "sources": [{"endOffset": {"logOffset": 4}}]}'


@pytest.mark.parametrize(
    "details",
    [
        {"stream_progress": {"progress_json": TEXT}},
        {"stream_progress": {"progress_json": PROGRESS}},
        {"stream_progress": {"progress": PROGRESS}},
        {"stream_progress": {"progress": TEXT}},
        {"stream_progress": PROGRESS},
        '{"stream_progress": {"progress": {"batchId": 4, "timestamp": "2026-03-02T09:58:00.000Z", '
        '"sources": [{"endOffset": {"logOffset": 4}}]}}}',
    ],
)
def test_progress_is_read_in_every_shape(details: Any) -> None:
    event = {"event_type": "stream_progress", "origin": {"flow_name": FLOW}, "details": details}
    found = log.progress([event])[FLOW]
    assert (found.batch, found.truncated) == (4, False)
    assert found.body["sources"][0]["endOffset"] == {"logOffset": 4}
    assert found.at is not None
    assert found.at.isoformat() == "2026-03-02T09:58:00+00:00"


def test_a_truncated_offset_is_marked() -> None:
    body = {"batchId": 1, "sources": [{"endOffset": "{…", "endOffsetTruncated": True}]}
    event = {
        "event_type": "stream_progress",
        "origin": {"flow_name": FLOW},
        "details": {"stream_progress": body},
    }
    assert log.progress([event])[FLOW].truncated


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("2026-03-02T10:15:07.120Z", "2026-03-02T10:15:07.120000+00:00"),
        ("2026-03-02T12:15:07+02:00", "2026-03-02T10:15:07+00:00"),
        (1_772_446_507_120, "2026-03-02T10:15:07.120000+00:00"),
        ("1772446507120", "2026-03-02T10:15:07.120000+00:00"),
    ],
)
def test_times_come_as_text_or_milliseconds(value: Any, iso: str) -> None:
    found = log.when(value)
    assert found is not None
    assert found.isoformat() == iso


@pytest.mark.parametrize("value", [None, "", "yesterday", {}, 10**40, "9" * 400])
def test_what_is_no_time_is_none(value: Any) -> None:
    assert log.when(value) is None


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.just(FLOW),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(["flow_definition", "flow_progress", "stream_progress", "update_progress", "x"])


@given(
    st.lists(
        st.fixed_dictionaries(
            {"event_type": kinds},
            optional={
                "timestamp": json_like,
                "origin": json_like | st.just({"flow_name": FLOW, "update_id": 7}),
                "details": json_like | st.dictionaries(kinds, json_like, max_size=2),
                "error": json_like | st.fixed_dictionaries({"exceptions": json_like}),
                "sequence": json_like | st.fixed_dictionaries({"control_plane_seq_no": json_like}),
            },
        ),
        max_size=5,
    )
)
def test_no_event_makes_the_reader_fall(events: list[dict[str, Any]]) -> None:
    log.definitions(events)
    log.statuses(events)
    log.progress(events)
    assert isinstance(log.failure_of(events, FLOW), list)


@pytest.mark.parametrize("number", ["²", "9" * 5000, 10**40])
def test_a_number_that_is_none_orders_no_events_and_is_no_batch(number: object) -> None:
    event = {
        "event_type": "stream_progress",
        "timestamp": number,
        "sequence": {"control_plane_seq_no": number},
        "origin": {"flow_name": FLOW},
        "details": {"stream_progress": {"progress": {"batchId": number, "sources": []}}},
    }
    assert log.in_order([event]) == [event]
    assert [seen.batch for seen in log.progress([event]).values()] == [None]


def test_the_pseudo_flow_is_left_out() -> None:
    event = {
        "event_type": "flow_progress",
        "origin": {"flow_name": log.NO_FLOW},
        "details": {"flow_progress": {}},
    }
    assert log.statuses([event]) == {}
