"""What Spark says, in sentences, printed exceptions and event log lines, read into values."""

import json

import pytest

from recovery.server.eventlog import QueryLogReader
from recovery.server.flow_events import has_read_input, with_offsets
from recovery.server.java_exceptions import parse_chain
from recovery.server.messages import FlowReport, RunReport, parse_message

PRINTED = """org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated
=== Streaming Query ===
Current State: ACTIVE
\tat org.apache.spark.sql.execution.streaming.StreamExecution.runStream(StreamExecution.scala:378)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.SparkRuntimeException: [REAL_CONDITION] the state says no. SQLSTATE: 42K03
\tat org.apache.spark.Errors$.mismatch(Errors.scala:10)
\t... 12 more
Caused by: java.lang.IllegalStateException
\tat a.B.c(Native Method)
"""


def test_a_printed_exception_is_a_chain_outermost_first() -> None:
    outer, middle, inner = parse_chain(PRINTED)
    assert outer["class_name"] == "org.apache.spark.sql.streaming.StreamingQueryException"
    assert "Current State: ACTIVE" in outer["message"]
    assert outer["stack"][1] == {
        "declaring_class": "java.lang.Thread",
        "method_name": "run",
        "file_name": "Thread.java",
        "line_number": 840,
    }
    assert middle["message"].startswith("[REAL_CONDITION]")
    assert middle["stack"][0]["declaring_class"] == "org.apache.spark.Errors$"
    assert (inner["class_name"], inner["message"]) == ("java.lang.IllegalStateException", "")
    assert inner["stack"] == [{"declaring_class": "a.B", "method_name": "c", "file_name": "Native Method"}]


def test_a_stack_is_cut_at_twenty_frames() -> None:
    text = "a.B: m\n" + "".join(f"\tat a.B.c(B.scala:{n})\n" for n in range(50))
    (link,) = parse_chain(text)
    assert len(link["stack"]) == 20
    assert link["stack"][0]["line_number"] == 0


@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_printed_is_no_chain(text: str) -> None:
    assert parse_chain(text) == []


def test_words_that_are_no_java_exception_are_kept() -> None:
    assert parse_chain("it broke")[0] == {"class_name": "", "message": "it broke", "stack": []}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Flow spark_catalog.db.f is QUEUED.", FlowReport("spark_catalog.db.f", "QUEUED")),
        ("Flow 'spark_catalog.db.f' has FAILED.", FlowReport("spark_catalog.db.f", "FAILED")),
        (
            "Flow '`c`.`d`.`f`' has FAILED more than 2 times and will not be restarted.",
            FlowReport("c.d.f", "FAILED"),
        ),
        ("Flow c.d.f has COMPLETED.", FlowReport("c.d.f", "COMPLETED")),
        ("Failed to resolve flow: 'c.d.f'.", FlowReport("c.d.f", "FAILED", unresolved=True)),
        (
            "Failed to resolve flow due to upstream failure: 'c.d.f'.",
            FlowReport("c.d.f", "FAILED", unresolved=True, upstream=True),
        ),
        ("Run is COMPLETED.", RunReport("COMPLETED")),
        ("Run is FAILED since a flow failed.", RunReport("FAILED")),
        ("Flow c.d.f is PLANNING.", None),
        ("Something else entirely", None),
    ],
)
def test_a_sentence_of_spark_is_understood(text: str, meaning: FlowReport | RunReport | None) -> None:
    assert parse_message(text) == meaning


LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
TAG = "SparkConnect_OperationTag_User_reprise_Session_S-1_Operation_O-1"


def line(kind: str, **content: object) -> bytes:
    return json.dumps({"Event": LISTENER + kind, **content}, separators=(",", ":")).encode()


def test_a_query_is_followed_from_its_start_to_its_end() -> None:
    reader = QueryLogReader()
    started = reader.read(
        line("QueryStartedEvent", id="q", runId="r", name="`c`.`d`.`f`", jobTags=["x", TAG])
    )
    progress = reader.read(line("QueryProgressEvent", progress={"id": "q", "runId": "r", "batchId": 0}))
    ended = reader.read(
        line("QueryTerminatedEvent", id="q", runId="r", exception="why", errorClassOnException="C")
    )
    assert started is not None
    assert progress is not None
    assert ended is not None
    assert (started.kind, started.session_id, started.flow) == ("started", "S-1", "c.d.f")
    assert (progress.flow, progress.progress["batchId"]) == ("c.d.f", 0)
    assert (ended.flow, ended.exception, ended.error_class) == ("c.d.f", "why", "C")
    assert reader.queries == {}


def test_queries_of_nobody_and_other_lines_are_left_alone() -> None:
    reader = QueryLogReader()
    assert reader.read(line("QueryStartedEvent", id="q", runId="r", name="n", jobTags=[])) is None
    assert reader.read(line("QueryTerminatedEvent", id="q", runId="r")) is None
    assert reader.read(b'{"Event":"SparkListenerTaskEnd","Stage ID":1}') is None
    assert reader.read(b"") is None


def test_offsets_are_objects_and_an_idle_progress_is_no_batch() -> None:
    raw = {
        "batchId": 4,
        "sources": [{"startOffset": '{"logOffset":3}', "endOffset": '{"logOffset":4}', "latestOffset": None}],
    }
    progress = with_offsets(raw)
    assert progress["sources"][0]["endOffset"] == {"logOffset": 4}
    assert progress["sources"][0]["latestOffset"] is None
    assert has_read_input(progress)
    idle = {
        "sources": [{"startOffset": '{"logOffset":3}', "endOffset": '{"logOffset":3}', "numInputRows": 0}]
    }
    assert not has_read_input(with_offsets(idle))
    assert with_offsets({"sources": [{"endOffset": "plain"}]})["sources"][0]["endOffset"] == "plain"
