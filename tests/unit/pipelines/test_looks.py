"""What waits behind a flow's position, and until when: over checkpoints, files and Delta tables on disk."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from django.utils import timezone

from recovery.errors import Unreachable
from recovery.models import Flow, FlowInput, Message
from recovery.pipelines import inputs, looks, retention, tasks
from recovery.pipelines.locks import only_look
from recovery.pipelines.retention import Standing
from recovery.sources.base import Reach
from recovery.sources.live import unread
from recovery.sources.live.unread import Unread
from tests import factories as f
from tests.checkpoint_builder import Built, input_uri
from tests.unit.pipelines.elsewhere import held_elsewhere
from tests.unread import checkpoint_of, delta_line, flow_at, stand

pytestmark = pytest.mark.django_db

KAFKA = {"format": "kafka", "options": {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}}
PASSWORD = "open-sesame-1234"
DAY = 24 * 3600


def looked(flow: Flow) -> FlowInput:
    looks.look(flow)
    return FlowInput.objects.get(flow=flow, index=0)


def judged(flow: Flow) -> Standing:
    found = retention.of(flow, FlowInput.objects.filter(flow=flow), timezone.now())
    assert found is not None
    return found.standing


def told() -> list[dict[str, Any]]:
    return [m.body["facts"] for m in Message.objects.filter(event="flow.retention").order_by("pk")]


@pytest.fixture
def arriving(tmp_path: Path) -> Flow:
    """A flow that has read two of four files, a day apart each."""
    flow = flow_at(tmp_path, '{"logOffset":1}')
    folder = tmp_path / "in"
    Built(checkpoint_of(tmp_path, flow), batches=2, operators=(), folder=str(folder)).write()
    for number in range(4):
        file = Path(input_uri(0, number, str(folder)).removeprefix("file://").replace("%20", " "))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n" * (number + 1))
        at = 1_790_000_000 + number
        os.utime(file, (at, at))
    inputs.note_sources(flow, [{"format": "json", "path": f"{folder}0", "options": {}}])
    return flow


def test_files_that_wait_are_counted_and_nothing_takes_them(arriving: Flow) -> None:
    row = looked(arriving)

    assert (row.readable, row.until, row.problem) == (True, None, "")
    assert row.unread["files"] == {"value": 2, "exact": True, "why": ""}
    assert row.unread["bytes"]["value"] == 3 * 3 + 4 * 3
    assert row.label == "2 read, newest part 000001.json (log entry 1)"
    assert judged(arriving) is Standing.SAFE
    assert told() == []


@pytest.mark.parametrize(
    ("options", "is_gone"), [({}, True), ({"maxFileAge": "30d"}, False), ({"MAXFILEAGE": "3h"}, True)]
)
def test_a_file_too_old_for_spark_is_lost_by_the_readers_own_rule(
    arriving: Flow, tmp_path: Path, options: dict[str, str], is_gone: bool
) -> None:
    Flow.objects.update(state="failed")
    arriving.refresh_from_db()
    late = tmp_path / "in0" / "part 000003.json"
    os.utime(late, (1_790_000_000 - 10 * DAY, 1_790_000_000 - 10 * DAY))
    inputs.note_sources(arriving, [{"format": "json", "path": str(tmp_path / "in0"), "options": options}])

    row = looked(arriving)

    assert (judged(arriving) is Standing.GONE) == is_gone
    assert (row.lost.get("files", {}).get("value") == 1) == is_gone


def test_a_stream_that_goes_on_passes_over_files_that_are_too_old_and_raises_no_alarm(
    arriving: Flow, tmp_path: Path
) -> None:
    late = tmp_path / "in0" / "part 000003.json"
    os.utime(late, (1_790_000_000 - 10 * DAY, 1_790_000_000 - 10 * DAY))

    row = looked(arriving)

    assert (row.readable, row.lost["files"]["value"]) == (False, 1)
    assert judged(arriving) is Standing.PASSED
    assert told() == []


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four versions of two rows each."""
    place = tmp_path / "orders"
    for version in range(4):
        write_deltalake(place, pa.table({"id": [2 * version, 2 * version + 1]}), mode="append")
    return place


@pytest.fixture
def reading(tmp_path: Path, table: Path) -> Flow:
    """A flow that has read versions 0 and 1 of that table."""
    flow = flow_at(tmp_path, delta_line(DeltaTable(table).metadata().id, 2), state="failed")
    inputs.note_sources(flow, [{"format": "delta", "path": str(table), "options": {}}])
    return flow


def cleaned_from(table: Path, midnight: datetime) -> None:
    """Have every version be as old as one whose cleaning may begin then."""
    at = (midnight - timedelta(days=30, minutes=1)).timestamp()
    for file in (table / "_delta_log").glob("*.json"):
        os.utime(file, (at, at))


def test_a_delta_table_says_rows_exactly_and_the_first_midnight_at_which_its_log_may_be_cleaned(
    reading: Flow, table: Path
) -> None:
    row = looked(reading)

    assert row.unread["rows"] == {"value": 4, "exact": True, "why": ""}
    assert row.readable is True
    assert row.until is not None
    assert timedelta(days=30) <= row.until - timezone.now() <= timedelta(days=31)
    assert row.until.time().isoformat() == "00:00:00"
    assert judged(reading) is Standing.KEPT
    assert (row.place, row.label) == (str(table), "version 2, from its beginning")


def test_a_deadline_that_is_near_is_announced_once_and_again_when_it_is_another(
    reading: Flow, table: Path
) -> None:
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    tomorrow, yesterday = today + timedelta(days=1), today - timedelta(days=1)
    cleaned_from(table, tomorrow)

    assert looked(reading).until == tomorrow
    looks.look(reading)
    assert judged(reading) is Standing.SOON
    cleaned_from(table, yesterday)
    looks.look(reading)
    looks.look(reading)

    assert judged(reading) is Standing.DUE
    assert [t["unread"] for t in told()] == [
        f"can be read until {at:%Y-%m-%d} 00:00 UTC" for at in (tomorrow, yesterday)
    ]
    assert {(t["flow"], t["source"], t["position"]) for t in told()} == {
        (reading.short, str(table), "version 2, from its beginning")
    }


def test_rows_that_vacuum_took_are_counted_and_said_once(reading: Flow, table: Path) -> None:
    looks.look(reading)
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    row = looked(reading)
    looks.look(reading)

    assert row.readable is False
    assert row.lost["rows"] == {"value": 4, "exact": True, "why": ""}
    assert judged(reading) is Standing.GONE
    assert [t["unread"] for t in told()] == ["can no longer be read"]
    assert "VACUUM" in told()[0]["reason"]


def test_commits_that_were_cleaned_are_gone_without_a_number(reading: Flow, table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (table / f"_delta_log/{version:020}.json").unlink()

    row = looked(reading)

    assert row.readable is False
    assert row.lost == {}
    assert "begins at version 3" in row.why


def test_a_position_that_has_moved_on_counts_from_there(reading: Flow, table: Path, tmp_path: Path) -> None:
    before = looked(reading)
    stand(tmp_path, reading, delta_line(DeltaTable(table).metadata().id, 4))

    after = looked(reading)

    assert after.unread["rows"]["value"] == 0
    assert (after.readable, after.until) == (True, None)
    assert before.stands_since is not None
    assert after.stands_since is not None
    assert after.stands_since > before.stands_since


def test_a_table_that_is_named_is_looked_for_where_its_files_lie(reading: Flow, table: Path) -> None:
    named = {"format": "table", "path": "main.shop.orders", "options": {}}
    inputs.note_sources(reading, [named])
    assert looked(reading).problem == unread.NO_PLACE

    inputs.note_sources(reading, [{**named, "location": str(table)}])

    row = looked(reading)
    assert (row.kind, row.place, row.unread["rows"]["value"]) == ("delta", "main.shop.orders", 4)


def answering(monkeypatch: pytest.MonkeyPatch, found: Unread | Exception) -> None:
    def look(*_: Any, **__: Any) -> Unread:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(unread, "look", look)


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
    answering(monkeypatch, Unread(Reach(True, "All is there.", round(until.timestamp() * 1000))))
    looks.look(streaming)

    answering(monkeypatch, failure)
    row = looked(streaming)

    assert row.problem == says
    assert row.until is not None
    assert abs(row.until - until) < timedelta(seconds=1)
    assert row.seen_at is not None
    assert row.asked_at is not None
    assert row.asked_at > row.seen_at
    assert judged(streaming) is Standing.SOON
    assert PASSWORD not in caplog.text


def test_what_is_gone_is_announced_when_it_becomes_so_wherever_the_position_goes(
    streaming: Flow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, Unread(Reach(False, "Offsets 5 to 8 are gone.")))
    for offset in (5, 6, 7):
        stand(tmp_path, streaming, f'{{"orders":{{"0":{offset}}}}}')
        looks.look(streaming)
    assert len(told()) == 1

    answering(monkeypatch, Unread(Reach(True, "All is there.")))
    looks.look(streaming)
    stand(tmp_path, streaming, '{"orders":{"0":8}}')
    answering(monkeypatch, Unread(Reach(False, "Offset 8 is gone.")))
    looks.look(streaming)

    assert [t["reason"] for t in told()] == ["Offsets 5 to 8 are gone.", "Offset 8 is gone."]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """An Iceberg table of three snapshots, an hour apart, that keeps them for five days."""
    now = round(timezone.now().timestamp() * 1000)
    snapshots = [
        {
            "snapshot-id": n,
            "parent-snapshot-id": n - 1 or None,
            "timestamp-ms": now - (4 - n) * 3_600_000,
            "summary": {"operation": "append", "added-data-files": "2", "added-records": "10"},
        }
        for n in (1, 2, 3)
    ]
    body = {"current-snapshot-id": 3, "snapshots": snapshots, "properties": {}}
    (tmp_path / "events/metadata").mkdir(parents=True)
    (tmp_path / "events/metadata/v3.metadata.json").write_text(json.dumps(body))
    return tmp_path / "events"


def test_an_iceberg_table_says_when_its_snapshot_may_be_expired(history: Path, tmp_path: Path) -> None:
    at = {"version": 1, "snapshot_id": 1, "position": 2, "scan_all_files": False}
    flow = flow_at(tmp_path, json.dumps(at, separators=(",", ":")), state="failed")
    inputs.note_sources(flow, [{"format": "iceberg", "path": str(history), "options": {}}])

    row = looked(flow)

    assert (row.problem, row.readable, row.unread["rows"]["value"]) == ("", True, 20)
    assert row.until is not None
    assert timedelta(days=4) < row.until - timezone.now() < timedelta(days=5)


@pytest.mark.parametrize(
    ("line", "described", "says", "expected"),
    [
        ("7", {"format": "rate"}, "any second can be made again", Standing.SAFE),
        ('{"mine":7}', {"format": "mine"}, "nobody asked it", Standing.UNKNOWN),
    ],
)
def test_other_kinds_say_what_they_can(
    tmp_path: Path, line: str, described: dict[str, str], says: str, expected: Standing
) -> None:
    flow = flow_at(tmp_path, line)
    inputs.note_sources(flow, [described])

    row = looked(flow)

    assert says in row.why
    assert row.problem == ""
    assert judged(flow) is expected


def test_what_was_seen_of_another_position_is_not_kept(
    streaming: Flow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, Unread(Reach(False, "Gone.")))
    looks.look(streaming)
    stand(tmp_path, streaming, '{"orders":{"0":9}}')

    answering(monkeypatch, Unreachable("It does not answer."))
    row = looked(streaming)

    assert (row.readable, row.why, row.seen_at) == (None, "", None)
    assert judged(streaming) is Standing.UNKNOWN


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ([KAFKA, KAFKA], "The checkpoint has 1 sources, the code that was studied last has 2"),
        ([{"format": "json", "path": "/in"}], "of kind kafka, in the code that was studied last it is of kind files"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_other_code_is_not_looked_at_with_these_readers(
    streaming: Flow, described: list[dict[str, Any]], says: str
) -> None:
    inputs.note_sources(streaming, described)

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
    answering(monkeypatch, Unread(Reach(True, "All is there.", until_ms=2**62)))

    assert looked(streaming).until is None
    assert judged(streaming) is Standing.SAFE


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

    def look(_progress: Any, _told: Any, *, noted: Any) -> Unread:
        given.append(dict(noted(ids)))
        return Unread(Reach(True, ""))

    monkeypatch.setattr(unread, "look", look)
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
        ("failed", True, 5 * H, H, Standing.SOON),
        ("stopped", True, 5 * H, H, Standing.SOON),
        ("failed", True, 30 * H, H, Standing.KEPT),
        ("ok", True, 23 * H, H, Standing.KEPT),  # a topic kept for a day, read every hour
        ("ok", True, 12 * H, 12 * H, Standing.SOON),  # nobody has run it for half of that
        ("running", True, 2 * H, H, Standing.KEPT),
        ("running", True, -H, H, Standing.DUE),
        ("ok", False, None, H, Standing.GONE),
        ("failed", False, 5 * H, H, Standing.GONE),
        ("failed", True, None, H, Standing.SAFE),
        ("failed", None, None, H, Standing.UNKNOWN),
    ],
)
def test_how_input_stands(
    state: str, readable: bool | None, left: timedelta | None, stood: timedelta, expected: Standing
) -> None:
    now = timezone.now()
    row = FlowInput(
        seen_at=now, readable=readable, until=None if left is None else now + left, stands_since=now - stood
    )

    assert retention.standing(row, state, now) is expected
    assert retention.standing(FlowInput(), state, now) is Standing.UNKNOWN


def test_a_flow_stands_as_its_worst_source_does_and_of_equals_as_the_one_that_goes_first() -> None:
    now = timezone.now()
    far, near = (FlowInput(seen_at=now, readable=True, until=now + n * H) for n in (5, 2))
    safe = FlowInput(seen_at=now, readable=True)
    flow = Flow(state="failed")

    found = retention.of(flow, [safe, far, near], now)

    assert found is not None
    assert (found.source, found.standing, found.seconds(now)) == (near, Standing.SOON, 7200)
    assert retention.of(Flow(streaming=False), [], now) is None
