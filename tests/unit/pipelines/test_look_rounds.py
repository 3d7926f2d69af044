"""What is kept of looks and said of them: problems, losses, ids of topics; whose turn it is; how a flow stands."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts.readers import SourceReader
from recovery.errors import Unreachable
from recovery.models import Flow, FlowInput
from recovery.pipelines import inputs, looks, retention, tasks
from recovery.pipelines.locks import only_look
from recovery.pipelines.retention import RetentionState
from recovery.sources.base import SourceRetention
from recovery.sources.live import unread
from recovery.sources.live.unread import UnreadInput
from tests import factories as f
from tests.unit.pipelines.elsewhere import held_elsewhere
from tests.unread import flow_at, judged, looked, stand, told

pytestmark = pytest.mark.django_db

KAFKA = SourceReader("kafka", options={"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"})
PASSWORD = "open-sesame-1234"


def answering(monkeypatch: pytest.MonkeyPatch, found: UnreadInput | Exception) -> None:
    def look(*_: Any, **__: Any) -> UnreadInput:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(unread, "count_unread", look)


@pytest.fixture
def streaming(tmp_path: Path) -> Flow:
    flow = flow_at(tmp_path, '{"orders":{"0":5}}', state="stopped")
    inputs.note_sources(flow, [KAFKA])
    return flow


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (
            Unreachable("Kafka at b:9 cannot be asked: it does not answer."),
            "Kafka at b:9 cannot be asked: it does not answer.",
        ),
        (
            Unreachable(f"s3://key:{PASSWORD}@bucket does not answer."),
            "s3://key:(withheld)@bucket does not answer.",
        ),
        (ValueError(PASSWORD), "It could not be looked at, for a fault in Reprise (ValueError)."),
    ],
)
def test_what_cannot_be_asked_is_a_sentence_beside_what_was_seen_last(
    streaming: Flow,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
    says: str,
) -> None:
    until = timezone.now() + timedelta(hours=5)
    answering(
        monkeypatch, UnreadInput(SourceRetention(True, "All is there.", round(until.timestamp() * 1000)))
    )
    looks.look(streaming)

    answering(monkeypatch, failure)
    row = looked(streaming)

    assert row.problem == says
    assert row.until is not None
    assert abs(row.until - until) < timedelta(seconds=1)
    assert row.seen_at is not None
    assert row.asked_at is not None
    assert row.asked_at > row.seen_at
    assert judged(streaming) is RetentionState.SOON
    assert PASSWORD not in caplog.text


def test_what_is_gone_is_announced_when_it_becomes_so_wherever_the_position_goes(
    streaming: Flow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, UnreadInput(SourceRetention(False, "Offsets 5 to 8 are gone.")))
    for offset in (5, 6, 7):
        stand(tmp_path, streaming, f'{{"orders":{{"0":{offset}}}}}')
        looks.look(streaming)
    assert len(told()) == 1

    answering(monkeypatch, UnreadInput(SourceRetention(True, "All is there.")))
    looks.look(streaming)
    stand(tmp_path, streaming, '{"orders":{"0":8}}')
    answering(monkeypatch, UnreadInput(SourceRetention(False, "Offset 8 is gone.")))
    looks.look(streaming)

    assert [re.findall(r"\d+", t["reason"]) for t in told()] == [["5", "8"], ["8"]]


def test_what_was_seen_of_another_position_is_not_kept(
    streaming: Flow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, UnreadInput(SourceRetention(False, "Gone.")))
    looks.look(streaming)
    stand(tmp_path, streaming, '{"orders":{"0":9}}')

    answering(monkeypatch, Unreachable("It does not answer."))
    row = looked(streaming)

    assert (row.readable, row.why, row.seen_at) == (None, "", None)
    assert judged(streaming) is RetentionState.UNKNOWN


@pytest.mark.parametrize(
    ("readers", "says"),
    [
        ([KAFKA, KAFKA], "The checkpoint has 1 sources, the code that was studied last has 2"),
        ([SourceReader("json", "/in")], "of kind kafka, in the code that was studied last it is of kind files"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_other_code_is_not_looked_at_with_these_readers(
    streaming: Flow, readers: list[SourceReader], says: str
) -> None:
    inputs.note_sources(streaming, readers)

    assert says in looked(streaming).problem


def test_a_checkpoint_that_is_not_there_is_said() -> None:
    flow = f.flow()
    inputs.note_sources(flow, [KAFKA])

    row = looked(flow)

    assert "/nowhere/storage/_checkpoints/spark_catalog/crm" in row.problem
    assert row.asked_at is not None


def test_a_retention_beyond_the_calendar_is_no_deadline(
    streaming: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, UnreadInput(SourceRetention(True, "All is there.", until_ms=2**62)))

    assert looked(streaming).until is None
    assert judged(streaming) is RetentionState.SAFE


AT = ('{"orders":{"0":5}}', '{"orders":{"0":6}}', '{"orders":{"0":6},"other":{"0":9}}')


@pytest.mark.parametrize(
    ("seen", "noted"),
    [
        ([("a", AT[0])], "a"),
        ([("a", AT[0]), ("a", AT[1])], "a"),
        ([("a", AT[0]), ("b", AT[0])], "a"),
        ([("a", AT[0]), ("b", AT[1])], "a"),  # it moved, perhaps before the topic was made again
        ([("a", AT[0]), ("b", AT[0]), ("b", AT[0])], "a"),
        ([("a", AT[0]), ("b", AT[0]), ("b", AT[1])], "b"),  # the new topic is read on purpose
        ([("a", AT[1]), ("b", AT[1]), ("b", AT[2])], "a"),  # only another topic moved
        ([("a", AT[0]), ("b", AT[0]), ("c", AT[1])], "a"),
        ([("a", AT[0]), ("b", AT[0]), ("a", AT[1]), ("b", AT[1])], "a"),
    ],
)
def test_a_topic_keeps_the_id_it_had_until_the_new_one_is_read(
    streaming: Flow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seen: list[tuple[str, str]], noted: str
) -> None:
    given: list[Any] = []
    ids: dict[str, str] = {}

    def look(_progress: Any, _told: Any, *, noted: Any) -> UnreadInput:
        given.append(dict(noted(ids)))
        return UnreadInput(SourceRetention(True, ""))

    monkeypatch.setattr(unread, "count_unread", look)
    for now, position in seen:
        ids["orders"] = now
        stand(tmp_path, streaming, position)
        looks.look(streaming)

    assert given[-1] == {"orders": noted}
    assert inputs.all_noted_ids(streaming) == {"0": {"orders": noted}}


def test_a_flow_of_a_round_is_the_one_that_was_looked_at_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, asked = f.pipeline(), []
    for number, minutes in enumerate((7, 9, None, 2)):
        flow = f.flow(owner, f"flow_{number}")
        inputs.note_sources(flow, [KAFKA, KAFKA])
        at = None if minutes is None else f.ago(minutes=minutes)
        FlowInput.objects.filter(flow=flow).update(asked_at=at)

    def look(flow: Flow) -> None:
        asked.append(flow.short)
        FlowInput.objects.filter(flow=flow).update(asked_at=timezone.now())

    monkeypatch.setattr(looks, "look", look)
    for _ in range(4):
        tasks.look_at_workspace(owner.workspace_id)

    assert asked == ["flow_2", "flow_1", "flow_0"]


def test_a_workspace_is_looked_at_by_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(looks, "look_round", asked.append)

    with held_elsewhere(only_look, 7):
        tasks.look_at_workspace(7)
        assert asked == []
    tasks.look_at_workspace(7)
    assert asked == [7]


def test_only_workspaces_with_noted_sources_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[Any] = []
    monkeypatch.setattr(tasks.look_at_workspace, "apply_async", lambda args, **_: woken.append(args))
    flow = f.flow()
    f.flow(f.pipeline(f.workspace("other")))
    inputs.note_sources(flow, [KAFKA])

    tasks.look_at_inputs()

    assert woken == [(flow.pipeline.workspace_id,)]


H = timedelta(hours=1)


@pytest.mark.parametrize(
    ("state", "readable", "left", "stood", "expected"),
    [
        ("failed", True, 5 * H, H, RetentionState.SOON),
        ("stopped", True, 5 * H, H, RetentionState.SOON),
        ("failed", True, 30 * H, H, RetentionState.KEPT),
        ("ok", True, 23 * H, H, RetentionState.KEPT),  # a topic kept for a day, read every hour
        ("ok", True, 12 * H, 12 * H, RetentionState.SOON),  # nobody has run it for half of that
        ("running", True, 2 * H, H, RetentionState.KEPT),
        ("running", True, -H, H, RetentionState.DUE),
        ("ok", False, None, H, RetentionState.GONE),
        ("failed", False, 5 * H, H, RetentionState.GONE),
        ("failed", True, None, H, RetentionState.SAFE),
        ("failed", None, None, H, RetentionState.UNKNOWN),
    ],
)
def test_how_input_stands(
    state: str, readable: bool | None, left: timedelta | None, stood: timedelta, expected: RetentionState
) -> None:
    now = timezone.now()
    row = FlowInput(
        seen_at=now, readable=readable, until=None if left is None else now + left, stands_since=now - stood
    )

    assert retention.standing(row, state, now) is expected
    assert retention.standing(FlowInput(), state, now) is RetentionState.UNKNOWN


def test_a_flow_stands_as_its_worst_source_does_and_of_equals_as_the_one_that_goes_first() -> None:
    now = timezone.now()
    far, near = (FlowInput(seen_at=now, readable=True, until=now + n * H) for n in (5, 2))
    safe = FlowInput(seen_at=now, readable=True)
    flow = Flow(state="failed")

    found = retention.of(flow, [safe, far, near], now)

    assert found is not None
    assert (found.source, found.standing, found.seconds(now)) == (near, RetentionState.SOON, 7200)
    assert retention.of(Flow(streaming=False), [], now) is None
