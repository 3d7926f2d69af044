"""Delta tables that Spark itself wrote: positions, forecasts of start options, retention, seeds; rows are compared."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from recovery.checkpoints import deltalog, inspect_checkpoint, seed
from recovery.checkpoints.storage import Store
from recovery.sinks import delta as sink
from recovery.sinks.kinds import PlannedStart
from recovery.sinks.live import delta as live_sink
from recovery.sources import delta
from recovery.sources.base import Precision, StartChoice
from recovery.sources.delta_facts import DeltaOffset, parse_offset
from tests.delta_room import DeltaRoom
from tests.integration.delta_tables import ONE, committed, look, rows, standing_at, uncommitted

pytestmark = pytest.mark.spark


def test_the_reader_of_the_log_and_delta_rs_say_the_same(lake: DeltaRoom, tmp_path: Path) -> None:
    """Metadata and files at every version, across checkpoints, deletes and a compaction."""
    table = tmp_path / "table"
    for number in range(6):
        lake.add(table, 10 * number, 2)
    lake.sql(f"DELETE FROM delta.`{table}` WHERE id = 31")  # noqa: S608
    lake.sql(f"OPTIMIZE delta.`{table}`")
    log = deltalog.list_log(Store.open(str(table)))
    assert log
    assert (log.earliest, log.latest, bool(log.checkpoints)) == (0, 7, True)
    for version in (0, 4, 5, 6, 7):
        theirs, ours = DeltaTable(str(table), version=version), deltalog.table_state(log, version, files=True)
        assert str(theirs.metadata().id) == ours.table_id
        assert {f.path for f in ours.files.values()} == {Path(u).name for u in theirs.file_uris()}
        told = theirs.get_add_actions(flatten=True)
        assert sum(f.rows or 0 for f in ours.files.values()) == sum(told.column("num_records").to_pylist())


def test_inside_a_version_the_seed_is_exact_and_the_option_doubles_as_foretold(
    lake: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    flow, table = tmp_path / "flow", tmp_path / "table"
    words = {"options": {**ONE, "startingVersion": 1}, "stateful": True}
    assert "planned only" in lake.stream(source, table, flow / "0", breaks=104, **words)
    _, line = committed(flow / "0")
    facts = look(source, line, startingVersion=1)
    assert delta.label_position(line, facts) == "version 1, file 2 of 4"
    done, everything = lake.ids(table), [*range(100, 108), *range(200, 204)]
    assert done == [100, 101, 102, 103]
    waits = delta.measure_distance(
        line, delta.find_position(StartChoice(latest=True), line, facts).offset_json, facts
    )
    assert (rows(waits.rows), rows(waits.files)) == (8, 4)
    told = delta.find_start_option(line, facts)
    assert (told.options, told.precision) == ({"startingVersion": "1"}, Precision.AT_LEAST_ONCE)

    other = shutil.copytree(table, tmp_path / "by option")
    assert lake.stream(source, other, tmp_path / "empty", options=told.options) == ""
    assert sorted([*done, *everything]) == lake.ids(other)
    assert len(lake.ids(other)) - len(everything) == rows(told.doubled) == 4

    late = shutil.copytree(table, tmp_path / "by the next version")
    assert lake.stream(source, late, tmp_path / "empty too", options={"startingVersion": 2}) == ""
    assert f"would miss {len(everything) - len(lake.ids(late))} rows instead" in told.note

    seed_next(flow, table)
    assert lake.stream(source, table, flow / "1", options=words["options"]) == ""
    assert lake.ids(table) == everything


def seed_next(flow: Path, table: Path) -> None:
    plan = seed.plan_seed(inspect_checkpoint(str(flow), sink=str(table)))
    made = seed.prepare_seed(str(flow), plan, recovery="R-1", fence=1, guard=lambda: None)
    seed.publish_checkpoint(str(flow), made, guard=lambda: None)


def test_inside_the_first_snapshot_only_the_seed_goes_on(
    lake: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    flow, table = tmp_path / "flow", tmp_path / "table"
    assert lake.stream(source, table, flow / "0", options=ONE, stateful=True, until=1) == ""
    lake.add(source, 300, 1)
    _, line = committed(flow / "0")
    done = lake.ids(table)
    facts = look(source, line)
    assert delta.label_position(line, facts) == f"first snapshot (version 2), file {len(done) // 2} of 7"
    told = delta.find_start_option(line, facts)
    assert not told.supported
    other = shutil.copytree(table, tmp_path / "by no option")
    assert lake.stream(source, other, tmp_path / "empty") == ""
    assert len(lake.ids(other)) - 16 == rows(told.doubled) == len(done)
    waits = delta.measure_distance(
        line, delta.find_position(StartChoice(latest=True), line, facts).offset_json, facts
    )
    assert rows(waits.rows) == 16 - len(done)
    seed_next(flow, table)
    assert lake.stream(source, table, flow / "1", options=ONE) == ""
    assert lake.ids(table) == [0, 1, *range(100, 108), *range(200, 204), 300, 301]


@pytest.mark.parametrize("crash", ["planned", "in the table"])
def test_a_stateful_query_from_delta_to_delta_goes_on_exactly_once(
    lake: DeltaRoom, source: Path, tmp_path: Path, crash: str
) -> None:
    """dropDuplicates is removed; the newest batch is planned only, or is in the table and not committed."""
    flow, table = tmp_path / "flow", tmp_path / "table"
    words: dict[str, Any] = {"options": {**ONE, "startingVersion": 0}, "stateful": True}
    assert "planned only" in lake.stream(source, table, flow / "0", breaks=104, **words)
    if crash == "in the table":
        uncommitted(flow / "0")
    report = inspect_checkpoint(str(flow), sink=str(table))
    assert report.last_planned == (report.last_committed or 0) + 1
    in_table = crash == "in the table"
    held = live_sink.read_table_report(str(table), query_id=report.query_id)
    assert (held.head == report.last_planned) is in_table
    assert ("SINK_UNCOMMITTED_BATCH" in [f.code for f in report.findings]) is in_table
    error = lake.stream(source, table, flow / "0", options=words["options"])
    assert "STREAMING_STATEFUL_OPERATOR_NOT_MATCH" in error
    seed_next(flow, table)
    assert lake.stream(source, table, flow / "1", options=words["options"]) == ""
    assert lake.ids(table) == [0, 1, *range(100, 108), *range(200, 204)]


def test_a_kept_query_id_with_lower_batch_numbers_skips_just_the_batches_that_are_foretold(
    lake: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    table, old, new = tmp_path / "table", tmp_path / "old", tmp_path / "new"
    assert lake.stream(source, table, old, options={**ONE, "startingVersion": 1}) == ""
    query_id = json.loads((old / "metadata").read_text())["id"]
    told = live_sink.read_table_report(str(table), query_id=query_id)
    assert told.head == committed(old)[0] == 5
    lake.add(source, 300, 8)
    new.mkdir()
    shutil.copy(old / "metadata", new / "metadata")
    skipped = sink.judge_risk(PlannedStart(0, query_id_kept=True), told).vanished
    assert len(skipped) == 6
    assert lake.stream(source, table, new, options={**ONE, "startingVersion": 3}) == ""
    assert lake.ids(table) == [*range(100, 108), *range(200, 204), *range(300 + 2 * len(skipped), 316)]


def test_for_each_batch_absorbs_repeats_only_with_its_own_application_id(
    lake: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    for keyed, expected in (("orders", 12), ("", 24)):
        table = tmp_path / f"table {keyed}"
        for checkpoint in ("one", "two"):
            where = tmp_path / f"{checkpoint} {keyed}"
            assert lake.stream(source, table, where, options={"startingVersion": 1}, keyed=keyed) == ""
        told = live_sink.read_table_report(str(table), query_id=None)
        assert told.heads.get("orders") == (0 if keyed else None)
        assert len(lake.ids(table)) == expected


def test_at_the_end_of_the_table_only_latest_is_an_option(
    lake: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    assert lake.stream(source, tmp_path / "table", tmp_path / "ck", options={"startingVersion": 1}) == ""
    _, line = committed(tmp_path / "ck")
    facts = look(source, line)
    assert parse_offset(line) == DeltaOffset(facts.table_id, 3)
    told = delta.find_start_option(line, facts)
    assert told.options == {"startingVersion": "latest"}
    refused = lake.stream(source, tmp_path / "no", tmp_path / "by number", options={"startingVersion": 3})
    assert "DELTA_VERSION_NOT_FOUND" in refused
    assert delta.judge_reach(line, facts).readable is True


def test_a_change_feed_is_counted_change_by_change(lake: DeltaRoom, tmp_path: Path) -> None:
    source, table = tmp_path / "source", tmp_path / "table"
    name, feed = f"delta.`{source}`", {"readChangeFeed": "true"}
    lake.sql(
        f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    lake.add(source, 0, 2)
    lake.add(source, 10, 3)
    lake.sql(f"UPDATE {name} SET k = 9 WHERE id IN (1, 10)")  # noqa: S608
    lake.sql(f"DELETE FROM {name} WHERE id < 2")  # noqa: S608
    lake.sql(f"OPTIMIZE {name}")
    words: dict[str, Any] = {"select": ["id", "k", "_change_type as change"]}
    options = {**feed, **ONE, "startingVersion": 1}
    assert lake.stream(source, table, tmp_path / "ck", options=options, breaks=12, **words) != ""
    _, line = committed(tmp_path / "ck")
    facts = look(source, line, **options)
    done, told = len(lake.ids(table)), delta.find_start_option(line, facts)
    assert delta.label_position(line, facts) == "version 2, file 1 of 3"
    waits = delta.measure_distance(
        line, delta.find_position(StartChoice(latest=True), line, facts).offset_json, facts
    )
    assert told.options == {"readChangeFeed": "true", "startingVersion": "2"}
    other = shutil.copytree(table, tmp_path / "by option")
    assert lake.stream(source, other, tmp_path / "empty", options=told.options, **words) == ""
    assert lake.stream(source, table, tmp_path / "ck", options=options, **words) == ""
    assert len(lake.ids(table)) - done == rows(waits.rows)
    assert len(lake.ids(other)) - len(lake.ids(table)) == rows(told.doubled) == 2
    assert delta.judge_reach(line, facts).readable is True


@pytest.mark.parametrize("which", ["time", "version", "file", "by hand", "back"])
def test_a_chosen_position_loses_and_reads_again_as_foretold(
    lake: DeltaRoom, source: Path, tmp_path: Path, which: str
) -> None:
    """Against a checkpoint that has read version 1; the chosen line is put into a checkpoint and run."""
    lake.add(source, 300, 2)
    facts = look(source, DeltaOffset("x", 0).as_json())
    line = DeltaOffset(facts.table_id, 2).as_json()
    facts = look(source, line, DeltaOffset(facts.table_id, 0).as_json())
    wanted = {
        "time": StartChoice(at_ms=facts.times[3]),
        "version": StartChoice(version=3),
        "file": StartChoice(file=facts.commits[2].files[0].path),
        "by hand": StartChoice(by_hand=DeltaOffset(facts.table_id, 2, 0).as_json()),
        "back": StartChoice(version=1),
    }[which]
    chosen = delta.find_position(wanted, line, facts)
    model = tmp_path / "model"
    assert lake.stream(source, tmp_path / "none", model, options={"startingVersion": 3}) == ""
    checkpoint = standing_at(tmp_path / "ck", model, chosen.offset_json)
    assert lake.stream(source, tmp_path / "table", checkpoint) == ""
    usual, seen = {*range(200, 204), *range(300, 304)}, set(lake.ids(tmp_path / "table"))
    assert (len(usual - seen), len(seen - usual)) == (rows(chosen.lost.rows), rows(chosen.reread.rows))
    assert (chosen.lost.rows.value if chosen.lost.rows else None) == {"file": 2, "by hand": 2, "back": 0}.get(
        which, 4
    )
