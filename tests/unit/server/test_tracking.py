"""The last truth about a flow: Spark's sentences checked against how its query ended."""

import pytest

from recovery.server.eventlog import QueryEvent
from recovery.server.flow_events import FlowLog
from recovery.server.models import Pipeline
from recovery.server.tracking import StatusChange, Track


def query(kind: str, run: str = "r1", exception: str | None = None, rows: int = -1) -> QueryEvent:
    return QueryEvent(
        kind, "s", "c.d.f", run, progress={"sink": {"numOutputRows": rows}}, exception=exception
    )


def statuses(changes: list[StatusChange]) -> list[str]:
    return [change.status for change in changes]


def test_completed_is_told_only_when_the_query_ended_well() -> None:
    track = Track("c.d.f", streaming=True)
    assert statuses(track.note_sentence("RUNNING", 1)) == ["RUNNING"]
    track.note_query(query("started"))
    assert track.note_sentence("COMPLETED", 2) == []
    assert track.note_query(query("terminated")) == [StatusChange("COMPLETED", 2)]


def test_completed_of_a_query_that_failed_is_never_told() -> None:
    track = Track("c.d.f", streaming=True)
    track.note_query(query("started"))
    track.note_query(query("terminated", exception="boom"))
    assert track.note_sentence("COMPLETED", 2) == []
    assert track.note_sentence("FAILED", 3) == [StatusChange("FAILED", 3, "boom")]
    assert track.report_rest({}, 4) == []


def test_a_failure_that_is_told_before_the_log_has_it_waits_for_its_reason() -> None:
    track = Track("c.d.f", streaming=True)
    assert track.note_sentence("FAILED", 2) == []
    track.note_query(query("started"))
    assert track.note_query(query("terminated", exception="boom")) == [StatusChange("FAILED", 2, "boom")]


def test_a_retry_begins_anew() -> None:
    track = Track("c.d.f", streaming=True)
    track.note_query(query("started"))
    track.note_query(query("terminated", exception="first"))
    assert statuses(track.note_sentence("FAILED", 1)) == ["FAILED"]
    assert statuses(track.note_sentence("STARTING", 2)) == ["STARTING"]
    track.note_query(query("started", "r2"))
    assert track.note_sentence("COMPLETED", 3) == []
    assert statuses(track.note_query(query("terminated", "r2"))) == ["COMPLETED"]


def test_a_failure_that_no_sentence_told_is_found_at_the_end() -> None:
    track = Track("c.d.f", streaming=True)
    track.note_sentence("RUNNING", 1)
    track.note_query(query("started"))
    track.note_query(query("terminated", exception="boom"))
    assert track.report_rest({}, 9) == [StatusChange("FAILED", 9, "boom")]
    assert track.status == "FAILED"


def test_a_batch_flow_is_told_at_once() -> None:
    track = Track("c.d.f", streaming=False)
    assert statuses(track.note_sentence("COMPLETED", 1)) == ["COMPLETED"]
    assert track.note_sentence("COMPLETED", 2) == []


def test_rows_are_counted_only_where_the_sink_counts_them() -> None:
    unknown, known = Track("c.d.f", streaming=True), Track("c.d.f", streaming=True)
    unknown.note_query(query("progress", rows=-1))
    for _ in range(2):
        known.note_query(query("progress", rows=3))
    assert (unknown.rows, known.rows) == (None, 6)


@pytest.mark.parametrize(
    ("flows", "ended"),
    [
        ((), False),
        (("COMPLETED",), True),
        (("COMPLETED", "EXCLUDED"), True),
        (("EXCLUDED",), False),
        *(
            (("COMPLETED", other), False)
            for other in ("QUEUED", "STARTING", "RUNNING", "FAILED", "SKIPPED", "STOPPED")
        ),
    ],
)
def test_a_run_may_have_ended_well_once_each_of_its_flows_has(flows: tuple[str, ...], ended: bool) -> None:
    log = FlowLog(Pipeline(), "u", lambda flow: None)
    log.tracks = {str(n): Track(str(n), streaming=True, status=status) for n, status in enumerate(flows)}
    assert log.all_ended_well() is ended


@pytest.mark.parametrize(
    ("exceptions", "said", "printed"),
    [
        ([None], "COMPLETED", None),
        (["boom"], "COMPLETED", "boom"),
        (["boom"], "RUNNING", "boom"),
        (["boom", None], "COMPLETED", None),
        (["first", "second"], "COMPLETED", "second"),
        ([], "FAILED", ""),
    ],
)
def test_the_last_query_of_a_flow_says_whether_it_failed(
    exceptions: list[str | None], said: str, printed: str | None
) -> None:
    track = Track("c.d.f", streaming=True)
    for number, exception in enumerate(exceptions):
        track.note_query(query("started", f"r{number}"))
        track.note_query(query("terminated", f"r{number}", exception))
    track.note_sentence(said, 9)
    assert track.read_failure() == printed
