"""Delta tables that Spark itself wrote: positions, forecasts of start options, retention, seeds; rows are compared."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from recovery.checkpoints import deltalog, inspect, seed
from recovery.checkpoints.storage import Store
from recovery.errors import Refused
from recovery.sinks import delta as sink
from recovery.sinks import foreach_batch
from recovery.sinks.kinds import Start
from recovery.sinks.live import delta as live_sink
from recovery.sources import delta
from recovery.sources.base import Amount, Distance, Moved, Precision, Wanted
from recovery.sources.delta_facts import DeltaFacts, DeltaOffset, parse
from recovery.sources.live import delta as live
from tests.delta_room import DeltaRoom

pytestmark = pytest.mark.spark
ONE = {"maxFilesPerTrigger": 1}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaRoom]:
    room = DeltaRoom(tmp_path_factory.mktemp("delta"))
    yield room
    room.close()


@pytest.fixture(scope="module")
def model(spark: DeltaRoom, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("model") / "source"
    for first, files in ((0, 1), (100, 4), (200, 2)):
        spark.add(table, first, files)
    return table


@pytest.fixture
def source(model: Path, tmp_path: Path) -> Path:
    """Three versions: one file, four files, two files, two rows each. A copy, with an id that is another's too."""
    return Path(shutil.copytree(model, tmp_path / "source"))


def committed(checkpoint: Path) -> tuple[int, str]:
    """(newest committed batch, its line)."""
    batch = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    return batch, (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]


def uncommitted(checkpoint: Path) -> None:
    """As a crash leaves it that comes between the table's commit and the checkpoint's: nothing after is planned."""
    batch, _ = committed(checkpoint)
    for folder, number in (("commits", batch), ("offsets", batch + 1)):
        (checkpoint / folder / str(number)).unlink()
        (checkpoint / folder / f".{number}.crc").unlink()


def standing_at(checkpoint: Path, model: Path, line: str) -> Path:
    """A checkpoint by hand that has committed up to `line`, with the header of one that Spark wrote."""
    head = (model / "offsets" / "0").read_text().splitlines()[:2]
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    for batch in ("0", "1"):
        (checkpoint / "offsets" / batch).write_text("\n".join([*head, line]))
    shutil.copy(model / "commits" / "0", checkpoint / "commits" / "1")
    (checkpoint / "metadata").write_text(json.dumps({"id": "00000000-0000-0000-0000-000000000001"}))
    return checkpoint


def rows(amount: Any) -> int:
    assert amount is not None
    assert amount.exact, amount
    return int(amount.value)


def look(source: Path, *lines: str | None, **options: Any) -> DeltaFacts:
    return live.read(str(source), offsets=lines, options=options)


def test_the_reader_of_the_log_and_delta_rs_say_the_same(spark: DeltaRoom, tmp_path: Path) -> None:
    """Metadata and files at every version, across checkpoints, deletes and a compaction."""
    table = tmp_path / "table"
    for number in range(6):
        spark.add(table, 10 * number, 2)
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 31")  # noqa: S608
    spark.sql(f"OPTIMIZE delta.`{table}`")
    log = deltalog.listed(Store.open(str(table)))
    assert log
    assert (log.earliest, log.latest, bool(log.checkpoints)) == (0, 7, True)
    for version in (0, 4, 5, 6, 7):
        theirs, ours = DeltaTable(str(table), version=version), deltalog.state(log, version, files=True)
        assert str(theirs.metadata().id) == ours.table_id
        assert {f.path for f in ours.files.values()} == {Path(u).name for u in theirs.file_uris()}
        told = theirs.get_add_actions(flatten=True)
        assert sum(f.rows or 0 for f in ours.files.values()) == sum(told.column("num_records").to_pylist())


def test_inside_a_version_the_seed_is_exact_and_the_option_doubles_as_foretold(
    spark: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    flow, table = tmp_path / "flow", tmp_path / "table"
    words = {"options": {**ONE, "startingVersion": 1}, "stateful": True}
    assert "planned only" in spark.stream(source, table, flow / "0", breaks=104, **words)
    _, line = committed(flow / "0")
    facts = look(source, line, startingVersion=1)
    assert delta.label(line, facts) == "version 1, file 2 of 4"
    done, everything = spark.ids(table), [*range(100, 108), *range(200, 204)]
    assert done == [100, 101, 102, 103]
    waits = delta.distance(line, delta.at(Wanted(latest=True), line, facts).offset_json, facts)
    assert (rows(waits.rows), rows(waits.files)) == (8, 4)
    told = delta.option(line, facts)
    assert (told.options, told.precision) == ({"startingVersion": "1"}, Precision.AT_LEAST_ONCE)

    other = shutil.copytree(table, tmp_path / "by option")
    assert spark.stream(source, other, tmp_path / "empty", options=told.options) == ""
    assert sorted([*done, *everything]) == spark.ids(other)
    assert len(spark.ids(other)) - len(everything) == rows(told.doubled) == 4

    late = shutil.copytree(table, tmp_path / "by the next version")
    assert spark.stream(source, late, tmp_path / "empty too", options={"startingVersion": 2}) == ""
    assert f"would miss {len(everything) - len(spark.ids(late))} rows instead" in told.note

    seed_next(flow, table)
    assert spark.stream(source, table, flow / "1", options=words["options"]) == ""
    assert spark.ids(table) == everything


def seed_next(flow: Path, table: Path) -> None:
    plan = seed.plan_seed(inspect(str(flow), sink=str(table)))
    made = seed.prepare(str(flow), plan, recovery="R-1", fence=1, guard=lambda: None)
    seed.publish(str(flow), made, guard=lambda: None)


def test_inside_the_first_snapshot_only_the_seed_goes_on(
    spark: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    flow, table = tmp_path / "flow", tmp_path / "table"
    assert spark.stream(source, table, flow / "0", options=ONE, stateful=True, until=1) == ""
    spark.add(source, 300, 1)
    _, line = committed(flow / "0")
    done = spark.ids(table)
    facts = look(source, line)
    assert delta.label(line, facts) == f"first snapshot (version 2), file {len(done) // 2} of 7"
    told = delta.option(line, facts)
    assert not told.supported
    other = shutil.copytree(table, tmp_path / "by no option")
    assert spark.stream(source, other, tmp_path / "empty") == ""
    assert len(spark.ids(other)) - 16 == rows(told.doubled) == len(done)
    waits = delta.distance(line, delta.at(Wanted(latest=True), line, facts).offset_json, facts)
    assert rows(waits.rows) == 16 - len(done)
    seed_next(flow, table)
    assert spark.stream(source, table, flow / "1", options=ONE) == ""
    assert spark.ids(table) == [0, 1, *range(100, 108), *range(200, 204), 300, 301]


@pytest.mark.parametrize("crash", ["planned", "in the table"])
def test_a_stateful_query_from_delta_to_delta_goes_on_exactly_once(
    spark: DeltaRoom, source: Path, tmp_path: Path, crash: str
) -> None:
    """dropDuplicates is removed; the newest batch is planned only, or is in the table and not committed."""
    flow, table = tmp_path / "flow", tmp_path / "table"
    words: dict[str, Any] = {"options": {**ONE, "startingVersion": 0}, "stateful": True}
    assert "planned only" in spark.stream(source, table, flow / "0", breaks=104, **words)
    if crash == "in the table":
        uncommitted(flow / "0")
    report = inspect(str(flow), sink=str(table))
    assert report.last_planned == (report.last_committed or 0) + 1
    in_table = crash == "in the table"
    held = live_sink.read(str(table), query_id=report.query_id)
    assert (held.head == report.last_planned) is in_table
    assert ("SINK_UNCOMMITTED_BATCH" in [f.code for f in report.findings]) is in_table
    error = spark.stream(source, table, flow / "0", options=words["options"])
    assert "STREAMING_STATEFUL_OPERATOR_NOT_MATCH" in error
    seed_next(flow, table)
    assert spark.stream(source, table, flow / "1", options=words["options"]) == ""
    assert spark.ids(table) == [0, 1, *range(100, 108), *range(200, 204)]


def test_a_kept_query_id_with_lower_batch_numbers_skips_just_the_batches_that_are_foretold(
    spark: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    table, old, new = tmp_path / "table", tmp_path / "old", tmp_path / "new"
    assert spark.stream(source, table, old, options={**ONE, "startingVersion": 1}) == ""
    query_id = json.loads((old / "metadata").read_text())["id"]
    told = live_sink.read(str(table), query_id=query_id)
    assert told.head == committed(old)[0] == 5
    spark.add(source, 300, 8)
    new.mkdir()
    shutil.copy(old / "metadata", new / "metadata")
    skipped = sink.risk(Start(0, query_id_kept=True), told).vanished
    found = sink.next_batch_finding(told, 0, query_id)
    assert found
    assert (len(skipped), found.code) == (6, "SINK_SWALLOWS")
    assert sink.next_batch_finding(told, 0, None) is None
    assert spark.stream(source, table, new, options={**ONE, "startingVersion": 3}) == ""
    assert spark.ids(table) == [*range(100, 108), *range(200, 204), *range(300 + 2 * len(skipped), 316)]


def test_for_each_batch_absorbs_repeats_only_with_its_own_application_id(
    spark: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    for keyed, expected in (("orders", 12), ("", 24)):
        table = tmp_path / f"table {keyed}"
        for checkpoint in ("one", "two"):
            where = tmp_path / f"{checkpoint} {keyed}"
            assert spark.stream(source, table, where, options={"startingVersion": 1}, keyed=keyed) == ""
        told = live_sink.read(str(table), query_id=None)
        guarded = foreach_batch.Facts(keyed or None, told.heads.get(keyed), bool(keyed))
        risk = foreach_batch.risk(Start(0, reread=Distance(rows=Amount(12))), guarded)
        assert foreach_batch.memory(guarded).absorbs_repeats is bool(keyed)
        assert (len(risk.vanished), risk.doubled) == ((1, None) if keyed else (0, Amount(12)))
        assert len(spark.ids(table)) == expected


def test_at_the_end_of_the_table_only_latest_is_an_option(
    spark: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    assert spark.stream(source, tmp_path / "table", tmp_path / "ck", options={"startingVersion": 1}) == ""
    _, line = committed(tmp_path / "ck")
    facts = look(source, line)
    assert parse(line) == DeltaOffset(facts.table_id, 3)
    told = delta.option(line, facts)
    assert told.options == {"startingVersion": "latest"}
    refused = spark.stream(source, tmp_path / "no", tmp_path / "by number", options={"startingVersion": 3})
    assert "DELTA_VERSION_NOT_FOUND" in refused
    assert delta.reach(line, facts).readable is True


def test_after_the_log_was_cleaned_the_position_is_unreachable_and_the_bounds_are_said(
    spark: DeltaRoom, tmp_path: Path
) -> None:
    source, table, checkpoint = tmp_path / "source", tmp_path / "table", tmp_path / "ck"
    spark.add(source, 0, 2)
    assert spark.stream(source, table, checkpoint, options={"startingVersion": 0}) == ""
    _, line = committed(checkpoint)
    for number in range(1, 6):  # a checkpoint at 5
        spark.add(source, 10 * number, 1)
    assert delta.reach(line, look(source, line)).readable is True
    log, old = source / "_delta_log", time.time() - 40 * 24 * 3600
    for file in log.glob(
        "0*"
    ):  # all commits, and that checkpoint: Delta cleans up to one that has expired as well
        version = int(file.name.split(".")[0])
        os.utime(file, (old + version, old + version))
    assert "at any time" in delta.reach(line, look(source, line)).why
    for number in range(6, 11):  # a checkpoint at 10 lets Spark clean
        spark.add(source, 10 * number, 1)
    facts = look(source, line)
    assert (facts.earliest, facts.latest) == (5, 10)
    assert not (log / f"{1:020}.json").exists()
    told = delta.reach(line, facts)
    assert told.readable is False
    assert "4 versions from 1 on are no longer in the log, which begins at version 5" in told.why
    again = spark.stream(source, table, checkpoint, options={"startingVersion": 0})
    assert "DELTA_VERSION_NOT_FOUND" in again, again  # of batch 0 a restart asks for the range once more
    failed = spark.stream(source, table, standing_at(tmp_path / "stuck", checkpoint, line))
    assert "DELTA_MISSING_FILES_UNEXPECTED_VERSION" in failed, failed
    assert not delta.option(line, facts).supported
    with pytest.raises(Refused, match="Version 2 is out of bounds: the log holds 5 to 10"):
        delta.at(Wanted(version=2), line, facts)
    first = delta.at(Wanted(earliest=True), line, facts)
    assert "Versions before 5" in first.fallbacks[facts.table_id]
    went_on = standing_at(tmp_path / "by hand", checkpoint, first.offset_json)
    assert spark.stream(source, table, went_on) == ""
    assert spark.ids(table) == [0, 1, 2, 3, *(n for v in range(5, 11) for n in (10 * v, 10 * v + 1))]


def test_vacuum_takes_files_that_are_still_to_be_read_and_the_rows_are_counted(
    spark: DeltaRoom, source: Path, tmp_path: Path
) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "ck"
    assert spark.stream(source, table, checkpoint, options={**ONE, "startingVersion": 1}, breaks=104) != ""
    _, line = committed(checkpoint)
    spark.sql(f"OPTIMIZE delta.`{source}`")
    before = delta.reach(line, look(source, line))
    assert before.readable is True
    week = 7 * 24 * 3600 * 1000
    assert before.until_ms
    assert abs(before.until_ms - time.time() * 1000 - week) < 600_000
    spark.sql(f"VACUUM delta.`{source}` RETAIN 0 HOURS")
    facts = look(source, line)
    told = delta.reach(line, facts)
    assert told.readable is False
    assert told.lost
    assert (rows(told.lost.rows), rows(told.lost.files)) == (8, 4)
    failed = spark.stream(source, table, checkpoint, options={"startingVersion": 1})
    assert "FILE_NOT_EXIST" in failed or "DELTA_FILE_NOT_FOUND" in failed, failed


def test_a_table_that_was_made_anew_is_told_by_its_id(spark: DeltaRoom, source: Path, tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "ck"
    assert spark.stream(source, table, checkpoint) == ""
    _, line = committed(checkpoint)
    shutil.rmtree(source)
    spark.add(source, 500, 2)
    facts = look(source, line)
    assert delta.reach(line, facts).readable is False
    failed = spark.stream(source, table, checkpoint)
    assert "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE" in failed
    chosen = delta.at(Wanted(earliest=True), line, facts)
    assert [c.moved for c in chosen.changes] == [Moved.GONE, Moved.NEW]
    assert chosen.lost.rows is None
    with pytest.raises(Refused, match="The line names table"):
        delta.at(Wanted(by_hand=line), line, facts)
    assert spark.stream(source, table, standing_at(tmp_path / "new", checkpoint, chosen.offset_json)) == ""
    assert spark.ids(table) == [0, 1, *range(100, 108), *range(200, 204), 500, 501, 502, 503]


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
    spark: DeltaRoom,
    source: Path,
    tmp_path: Path,
    statement: str,
    condition: str,
    option: str,
    waiting: list[int],
) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "ck"
    assert spark.stream(source, table, checkpoint) == ""
    _, line = committed(checkpoint)
    done = spark.ids(table)
    spark.sql(statement.format(t=f"delta.`{source}`"))
    spark.add(source, 300, 1)
    told = delta.reach(line, look(source, line))
    assert (told.readable, condition in told.why) == (False, True)
    assert condition in spark.stream(source, table, checkpoint)
    facts = look(source, line, **{option: "true"})
    assert delta.reach(line, facts).readable is True
    waits = delta.distance(line, delta.at(Wanted(latest=True), line, facts).offset_json, facts)
    assert rows(waits.rows) == len(waiting)
    assert spark.stream(source, table, checkpoint, options={option: "true"}) == ""
    assert spark.ids(table) == sorted([*done, *waiting])


def test_a_schema_that_only_grows_is_readable_and_a_renamed_column_is_not(
    spark: DeltaRoom, tmp_path: Path
) -> None:
    source, table, checkpoint = tmp_path / "source", tmp_path / "table", tmp_path / "ck"
    name = f"delta.`{source}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    spark.add(source, 0, 1)
    assert spark.stream(source, table, checkpoint) == ""
    _, line = committed(checkpoint)
    spark.add(source, 10, 1)
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (more STRING)")
    assert delta.reach(line, look(source, line)).readable is True
    assert spark.stream(source, table, checkpoint) == ""
    _, line = committed(checkpoint)
    spark.add(source, 20, 1)
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN k TO kind")
    told = delta.reach(line, look(source, line))
    assert (told.readable, "schemaTrackingLocation" in told.why) == (False, True)
    assert "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE" in spark.stream(source, table, checkpoint)


def test_a_change_feed_is_counted_change_by_change(spark: DeltaRoom, tmp_path: Path) -> None:
    source, table = tmp_path / "source", tmp_path / "table"
    name, feed = f"delta.`{source}`", {"readChangeFeed": "true"}
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.add(source, 0, 2)
    spark.add(source, 10, 3)
    spark.sql(f"UPDATE {name} SET k = 9 WHERE id IN (1, 10)")  # noqa: S608
    spark.sql(f"DELETE FROM {name} WHERE id < 2")  # noqa: S608
    spark.sql(f"OPTIMIZE {name}")
    words: dict[str, Any] = {"select": ["id", "k", "_change_type as change"]}
    options = {**feed, **ONE, "startingVersion": 1}
    assert spark.stream(source, table, tmp_path / "ck", options=options, breaks=12, **words) != ""
    _, line = committed(tmp_path / "ck")
    facts = look(source, line, **options)
    done, told = len(spark.ids(table)), delta.option(line, facts)
    assert delta.label(line, facts) == "version 2, file 1 of 3"
    waits = delta.distance(line, delta.at(Wanted(latest=True), line, facts).offset_json, facts)
    assert told.options == {"readChangeFeed": "true", "startingVersion": "2"}
    other = shutil.copytree(table, tmp_path / "by option")
    assert spark.stream(source, other, tmp_path / "empty", options=told.options, **words) == ""
    assert spark.stream(source, table, tmp_path / "ck", options=options, **words) == ""
    assert len(spark.ids(table)) - done == rows(waits.rows)
    assert len(spark.ids(other)) - len(spark.ids(table)) == rows(told.doubled) == 2
    assert delta.reach(line, facts).readable is True


@pytest.mark.parametrize("which", ["time", "version", "file", "by hand", "back"])
def test_a_chosen_position_loses_and_reads_again_as_foretold(
    spark: DeltaRoom, source: Path, tmp_path: Path, which: str
) -> None:
    """Against a checkpoint that has read version 1; the chosen line is put into a checkpoint and run."""
    spark.add(source, 300, 2)
    facts = look(source, DeltaOffset("x", 0).as_json())
    line = DeltaOffset(facts.table_id, 2).as_json()
    facts = look(source, line, DeltaOffset(facts.table_id, 0).as_json())
    wanted = {
        "time": Wanted(at_ms=facts.times[3]),
        "version": Wanted(version=3),
        "file": Wanted(file=facts.commits[2].files[0].path),
        "by hand": Wanted(by_hand=DeltaOffset(facts.table_id, 2, 0).as_json()),
        "back": Wanted(version=1),
    }[which]
    chosen = delta.at(wanted, line, facts)
    model = tmp_path / "model"
    assert spark.stream(source, tmp_path / "none", model, options={"startingVersion": 3}) == ""
    checkpoint = standing_at(tmp_path / "ck", model, chosen.offset_json)
    assert spark.stream(source, tmp_path / "table", checkpoint) == ""
    usual, seen = {*range(200, 204), *range(300, 304)}, set(spark.ids(tmp_path / "table"))
    assert (len(usual - seen), len(seen - usual)) == (rows(chosen.lost.rows), rows(chosen.reread.rows))
    assert (chosen.lost.rows.value if chosen.lost.rows else None) == {"file": 2, "by hand": 2, "back": 0}.get(
        which, 4
    )
