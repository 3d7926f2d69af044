"""What happens to Delta tables behind a stream's back: cleaned, vacuumed, made anew, changed; rows are compared."""

import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.pipelines import folding, losses
from recovery.sources import delta
from recovery.sources.base import PartMove, StartChoice
from tests.delta_room import DeltaRoom
from tests.integration.delta_tables import ONE, caught_up, committed, look, rows, standing_at

pytestmark = pytest.mark.spark


def test_after_the_log_was_cleaned_the_position_is_unreachable_and_the_bounds_are_said(
    lake: DeltaRoom, tmp_path: Path
) -> None:
    source, table, checkpoint = tmp_path / "source", tmp_path / "table", tmp_path / "ck"
    lake.add(source, 0, 2)
    assert lake.stream(source, table, checkpoint, options={"startingVersion": 0}) == ""
    _, line = committed(checkpoint)
    for number in range(1, 6):  # a checkpoint at 5
        lake.add(source, 10 * number, 1)
    assert delta.judge_reach(line, look(source, line)).readable is True
    log, old = source / "_delta_log", time.time() - 40 * 24 * 3600
    # all commits, and that checkpoint: Delta cleans up to one that has expired as well
    for file in log.glob("0*"):
        version = int(file.name.split(".")[0])
        os.utime(file, (old + version, old + version))
    assert "at any time" in delta.judge_reach(line, look(source, line)).why
    for number in range(6, 11):  # a checkpoint at 10 lets Spark clean
        lake.add(source, 10 * number, 1)
    facts = look(source, line)
    assert (facts.earliest, facts.latest) == (5, 10)
    assert not (log / f"{1:020}.json").exists()
    told = delta.judge_reach(line, facts)
    assert told.readable is False
    assert "4 versions from 1 on are no longer in the log, which begins at version 5" in told.why
    again = lake.stream(source, table, checkpoint, options={"startingVersion": 0})
    assert "DELTA_VERSION_NOT_FOUND" in again, again  # of batch 0 a restart asks for the range once more
    failed = lake.stream(source, table, standing_at(tmp_path / "stuck", checkpoint, line))
    assert "DELTA_MISSING_FILES_UNEXPECTED_VERSION" in failed, failed
    assert not delta.find_start_option(line, facts).supported
    with pytest.raises(Refused, match="Version 2 is out of bounds: the log holds 5 to 10"):
        delta.find_position(StartChoice(version=2), line, facts)
    first = delta.find_position(StartChoice(earliest=True), line, facts)
    assert "Versions before 5" in first.fallbacks[facts.table_id]
    went_on = standing_at(tmp_path / "by hand", checkpoint, first.offset_json)
    assert lake.stream(source, table, went_on) == ""
    assert lake.ids(table) == [0, 1, 2, 3, *(n for v in range(5, 11) for n in (10 * v, 10 * v + 1))]


def test_vacuum_takes_files_that_are_still_to_be_read_and_the_rows_are_counted(
    lake: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "ck"
    assert lake.stream(source, table, checkpoint, options={**ONE, "startingVersion": 1}, breaks=104) != ""
    _, line = committed(checkpoint)
    lake.sql(f"OPTIMIZE delta.`{source}`")
    before = delta.judge_reach(line, look(source, line))
    assert before.readable is True
    week = 7 * 24 * 3600 * 1000
    assert before.until_ms
    assert abs(before.until_ms - time.time() * 1000 - week) < 600_000
    lake.sql(f"VACUUM delta.`{source}` RETAIN 0 HOURS")
    facts = look(source, line)
    told = delta.judge_reach(line, facts)
    assert told.readable is False
    assert told.lost
    assert (rows(told.lost.rows), rows(told.lost.files)) == (8, 4)
    failed = lake.stream(source, table, checkpoint, options={"startingVersion": 1})
    assert "FILE_NOT_EXIST" in failed or "DELTA_FILE_NOT_FOUND" in failed, failed


def test_a_table_that_was_made_anew_is_told_by_its_id(lake: DeltaRoom, source: Path, tmp_path: Path) -> None:
    table, checkpoint, line = caught_up(lake, source, tmp_path)
    shutil.rmtree(source)
    lake.add(source, 500, 2)
    facts = look(source, line)
    assert delta.judge_reach(line, facts).readable is False
    failed = lake.stream(source, table, checkpoint)
    assert "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE" in failed
    chosen = delta.find_position(StartChoice(earliest=True), line, facts)
    assert [c.moved for c in chosen.changes] == [PartMove.GONE, PartMove.NEW]
    assert chosen.lost.rows is None
    with pytest.raises(Refused, match="The line names table"):
        delta.find_position(StartChoice(by_hand=line), line, facts)
    assert lake.stream(source, table, standing_at(tmp_path / "new", checkpoint, chosen.offset_json)) == ""
    assert lake.ids(table) == [0, 1, *range(100, 108), *range(200, 204), 500, 501, 502, 503]


@pytest.mark.parametrize(
    ("statement", "condition", "option", "waiting"),
    [
        ("DELETE FROM {t} WHERE id < 2", "DELTA_SOURCE_IGNORE_DELETE", "skipChangeCommits", [300, 301]),
        ("DELETE FROM {t} WHERE id < 2", "DELTA_SOURCE_IGNORE_DELETE", "ignoreDeletes", [300, 301]),
        (
            "DELETE FROM {t} WHERE id = 100",
            "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
            "ignoreChanges",
            [101, 300, 301],
        ),
        (
            "UPDATE {t} SET k = 9 WHERE id = 1",
            "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
            "skipChangeCommits",
            [300, 301],
        ),
    ],
)
def test_deletes_and_updates_stop_a_stream_and_options_read_just_what_is_counted(
    lake: DeltaRoom,
    source: Path,
    tmp_path: Path,
    statement: str,
    condition: str,
    option: str,
    waiting: list[int],
) -> None:
    table, checkpoint, line = caught_up(lake, source, tmp_path)
    done = lake.ids(table)
    lake.sql(statement.format(t=f"delta.`{source}`"))
    lake.add(source, 300, 1)
    told = delta.judge_reach(line, look(source, line))
    assert (told.readable, condition in told.why) == (False, True)
    assert condition in lake.stream(source, table, checkpoint)
    facts = look(source, line, **{option: "true"})
    assert delta.judge_reach(line, facts).readable is True
    waits = delta.measure_distance(
        line, delta.find_position(StartChoice(latest=True), line, facts).offset_json, facts
    )
    assert rows(waits.rows) == len(waiting)
    assert lake.stream(source, table, checkpoint, options={option: "true"}) == ""
    assert lake.ids(table) == sorted([*done, *waiting])


def test_a_schema_that_only_grows_is_readable_and_a_renamed_column_is_not(
    lake: DeltaRoom, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    name = f"delta.`{source}`"
    lake.sql(
        f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    lake.add(source, 0, 1)
    table, checkpoint, line = caught_up(lake, source, tmp_path)
    lake.add(source, 10, 1)
    lake.sql(f"ALTER TABLE {name} ADD COLUMNS (more STRING)")
    assert delta.judge_reach(line, look(source, line)).readable is True
    assert lake.stream(source, table, checkpoint) == ""
    _, line = committed(checkpoint)
    lake.add(source, 20, 1)
    lake.sql(f"ALTER TABLE {name} RENAME COLUMN k TO kind")
    told = delta.judge_reach(line, look(source, line))
    assert (told.readable, "schemaTrackingLocation" in told.why) == (False, True)
    assert "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE" in lake.stream(source, table, checkpoint)


FLOW, DATASET = "c.s.load", "c.s.orders"


def completed(update: str, told: list[str]) -> dict[str, Any]:
    """An update that completed, as a poll remembers it by the progress that Spark has written."""
    at = "2026-11-20T02:00:00.000Z"
    said: list[tuple[str, dict[str, Any]]] = [
        *(("stream_progress", {"progress_json": one}) for one in told),
        ("flow_progress", {"status": "COMPLETED"}),
        ("update_progress", {"state": "COMPLETED"}),
    ]
    events = [
        {
            "id": f"e{number}",
            "event_type": kind,
            "timestamp": at,
            "origin": {"update_id": update} | ({} if kind == "update_progress" else {"flow_name": FLOW}),
            "details": {kind: body},
            "sequence": {"control_plane_seq_no": number},
        }
        for number, (kind, body) in enumerate(said, start=1)
    ]
    whole = {"update_id": update, "state": "COMPLETED", "creation_time": 0}
    return folding.remembered(folding.read(whole, events, now=datetime.now(UTC)))


def judged(*updates: dict[str, Any]) -> tuple[str, str]:
    """State and condition of the flow after these updates, oldest first."""
    values = {FLOW: {"state": "ok", "dataset": DATASET, "streaming": True}}
    found = losses.over(values, {}, updates[::-1])[FLOW]
    return found["state"], found.get("condition", "")


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_table_that_passes_over_the_batches_of_a_renewed_query_shows_as_lost_rows(
    lake: DeltaRoom, source: Path, tmp_path: Path, kind: str
) -> None:
    """Of a checkpoint all but the query's id was removed: its numbers begin again, and the table has them already."""
    table, checkpoint = tmp_path / "table", tmp_path / "ck"

    def ids() -> list[int]:
        return sorted(row[0] for row in lake.sql(f"SELECT id FROM {kind}.`{table}`"))  # noqa: S608

    first = completed("u1", lake.progress(source, table, checkpoint, options=ONE, format=kind))
    held = ids()
    lake.add(source, 900, 1)
    second = completed("u2", lake.progress(source, table, checkpoint, options=ONE, format=kind))
    assert ids() == [*held, 900, 901]
    assert judged(first, second) == ("ok", "")
    for name in ("offsets", "commits"):
        shutil.rmtree(checkpoint / name)
    lake.add(source, 950, 1)
    third = completed("u3", lake.progress(source, table, checkpoint, format=kind))
    assert ids() == [*held, 900, 901]  # it completed, and 950 and 951 are in no table
    assert judged(first, second, third) == ("failed", "SINK_PASSED_OVER")


def test_a_table_takes_the_batches_of_a_new_query_whatever_their_numbers(
    lake: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "ck"
    first = completed("u1", lake.progress(source, table, checkpoint))
    shutil.rmtree(checkpoint)
    second = completed("u2", lake.progress(source, table, checkpoint))
    ids = lake.ids(table)
    assert [ids.count(one) for one in sorted(set(ids))] == [2] * len(set(ids))
    assert judged(first, second) == ("ok", "")
