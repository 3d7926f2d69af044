"""What a look finds behind a flow's position, and until when: over files and Delta and Iceberg tables on disk."""

import json
import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from django.utils import timezone

from recovery.contracts.readers import SourceReader
from recovery.models import Flow
from recovery.pipelines import inputs, looks, tasks
from recovery.pipelines.retention import RetentionState
from recovery.sources.live import file_source_facts
from tests.checkpoint_builder import Built, input_uri
from tests.unread import checkpoint_of, delta_line, flow_at, judged, looked, stand, told

pytestmark = pytest.mark.django_db

DAY = 24 * 3600


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
    inputs.note_sources(flow, [SourceReader("json", f"{folder}0")])
    return flow


def test_files_that_wait_are_counted_and_nothing_takes_them(arriving: Flow) -> None:
    row = looked(arriving)

    assert (row.readable, row.until, row.problem) == (True, None, "")
    assert row.unread["files"] == {"value": 2, "exact": True, "why": "", "bound": "exact"}
    assert row.unread["bytes"]["value"] == 3 * 3 + 4 * 3
    assert (row.label.startswith("2 read"), "000001.json (log entry 1)" in row.label) == (True, True)
    assert judged(arriving) is RetentionState.SAFE
    assert told() == []


def test_a_look_at_one_flow_counts_what_waits_there_now(arriving: Flow) -> None:
    tasks.look_at_flow(arriving.pk)
    assert arriving.sources.get().unread["files"]["value"] == 2


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
    inputs.note_sources(arriving, [SourceReader("json", str(tmp_path / "in0"), options)])

    row = looked(arriving)

    assert (judged(arriving) is RetentionState.GONE) == is_gone
    assert (row.lost.get("files", {}).get("value") == 1) == is_gone


def test_a_stream_that_goes_on_passes_over_files_that_are_too_old_and_raises_no_alarm(
    arriving: Flow, tmp_path: Path
) -> None:
    late = tmp_path / "in0" / "part 000003.json"
    os.utime(late, (1_790_000_000 - 10 * DAY, 1_790_000_000 - 10 * DAY))

    row = looked(arriving)

    assert (row.readable, row.lost["files"]["value"]) == (False, 1)
    assert judged(arriving) is RetentionState.PASSED
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
    inputs.note_sources(flow, [SourceReader("delta", str(table))])
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

    assert row.unread["rows"] == {"value": 4, "exact": True, "why": "", "bound": "exact"}
    assert row.readable is True
    assert row.until is not None
    assert timedelta(days=30) <= row.until - timezone.now() <= timedelta(days=31)
    assert row.until.time().isoformat() == "00:00:00"
    assert judged(reading) is RetentionState.KEPT
    assert (row.place, row.label.partition(",")[0]) == (str(table), "version 2")


def test_a_deadline_that_is_near_is_announced_once_and_again_when_it_is_another(
    reading: Flow, table: Path
) -> None:
    today = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    tomorrow, yesterday = today + timedelta(days=1), today - timedelta(days=1)
    cleaned_from(table, tomorrow)

    assert looked(reading).until == tomorrow
    looks.look(reading)
    assert judged(reading) is RetentionState.SOON
    cleaned_from(table, yesterday)
    looks.look(reading)
    looks.look(reading)

    assert judged(reading) is RetentionState.DUE
    assert [t["unread"].rpartition("until ")[2] for t in told()] == [
        f"{at:%Y-%m-%d} 00:00 UTC" for at in (tomorrow, yesterday)
    ]
    assert {(t["flow"], t["source"], t["position"].partition(",")[0]) for t in told()} == {
        (reading.short, str(table), "version 2")
    }


def test_rows_that_vacuum_took_are_counted_and_said_once(reading: Flow, table: Path) -> None:
    looks.look(reading)
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    row = looked(reading)
    looks.look(reading)

    assert row.readable is False
    assert row.lost["rows"] == {"value": 4, "exact": True, "why": "", "bound": "exact"}
    assert judged(reading) is RetentionState.GONE
    assert ["no longer" in t["unread"] for t in told()] == [True]
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
    named = SourceReader("table", "main.shop.orders")
    inputs.note_sources(reading, [named])
    assert looked(reading).problem == file_source_facts.NO_PLACE

    inputs.note_sources(reading, [replace(named, location=str(table))])

    row = looked(reading)
    assert (row.kind, row.place, row.unread["rows"]["value"]) == ("delta", "main.shop.orders", 4)


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
    inputs.note_sources(flow, [SourceReader("iceberg", str(history))])

    row = looked(flow)

    assert (row.problem, row.readable, row.unread["rows"]["value"]) == ("", True, 20)
    assert row.until is not None
    assert timedelta(days=4) < row.until - timezone.now() < timedelta(days=5)


@pytest.mark.parametrize(
    ("line", "kind", "says", "expected"),
    [
        ("7", "rate", "any second can be made again", RetentionState.SAFE),
        ('{"mine":7}', "mine", "was not read", RetentionState.UNKNOWN),
    ],
)
def test_other_kinds_say_what_they_can(
    tmp_path: Path, line: str, kind: str, says: str, expected: RetentionState
) -> None:
    flow = flow_at(tmp_path, line)
    inputs.note_sources(flow, [SourceReader(kind)])

    row = looked(flow)

    assert says in row.why
    assert row.problem == ""
    assert judged(flow) is expected
