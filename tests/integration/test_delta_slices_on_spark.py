"""What a flow yields over files of a Delta table: exactly theirs, in the state of their version."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from recovery.checkpoints import deltalog
from recovery.checkpoints.storage import Store
from recovery.sources.delta_facts import DeltaFacts, DeltaOffset
from recovery.sources.input_ranges import InputRange, of_delta
from recovery.sources.live import delta as live
from tests.integration.spark_room import Room

pytestmark = pytest.mark.spark


def code(reader: str, more: str = "") -> str:
    return f"@dp.table\ndef t():\n    frame = spark.readStream.{reader}\n    return frame{more}\n"


def added(table: Path, version: int) -> list[str]:
    """Paths that a commit added, as its log writes them."""
    lines = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [json.loads(line)["add"]["path"] for line in lines if '"add"' in line]


def rows_of(bare: Room, session: Any, text: str, versions: dict[int, list[str]]) -> list[dict[str, Any]]:
    """What the flow yields over these files, picked out of their versions."""
    part = InputRange("delta", versions=tuple((v, tuple(paths)) for v, paths in versions.items()))
    return rows_of_slice(bare, session, text, part)


def rows_of_slice(bare: Room, session: Any, text: str, part: InputRange) -> list[dict[str, Any]]:
    out = bare.folder / "out" / str(len(list((bare.folder / "out").glob("*"))))
    found = bare.look(text, slices={"x": {"0": part.as_dict()}}, write={"x": str(out)})
    assert found.problem is None
    rows = [r.asDict(recursive=True) for r in session.read.parquet(str(out)).collect()]
    assert found.rows == {"x": len(rows)}
    return sorted(rows, key=lambda r: r["id"])


def run(session: Any, table: Path, *statements: str) -> None:
    """Statements in which {t} stands for the table."""
    for statement in statements:
        session.sql(statement.replace("{t}", f"delta.`{table}`")).collect()


ODD = ["a b", "50%", "é+x", "a/b", "[x]{y}*?", "=,;&#", None]


@pytest.mark.parametrize("by_name", [False, True])
def test_files_are_found_whatever_place_and_partitions_are_called(
    bare: Room, bare_session: Any, by_name: bool
) -> None:
    table = bare.folder / "d 2%20[x]é+y"
    frame = bare_session.createDataFrame(list(enumerate(ODD)), "id int, p string")
    frame.write.format("delta").partitionBy("p").save(str(table))
    reader = f'format("delta").load({str(table)!r})'
    if by_name:
        name = f"odd_{abs(hash(bare.folder)) % 10**8}"
        frame.write.format("delta").partitionBy("p").option("path", str(bare.folder / "o d%")).saveAsTable(
            name
        )
        table, reader = bare.folder / "o d%", f"table('{name}').where('{name}.id >= 0')"
    paths = added(table, 0)
    assert len(paths) == len(ODD)
    parts = {path: InputRange("delta", versions=((0, (path,)),)) for path in paths}
    found = bare.look(code(reader), slices={path: {"0": part.as_dict()} for path, part in parts.items()})
    assert (found.problem, found.rows) == (None, dict.fromkeys(paths, 1))
    assert [r["p"] for r in rows_of(bare, bare_session, code(reader), {0: paths})] == ODD


def test_each_file_is_read_in_the_state_of_its_version(bare: Room, bare_session: Any) -> None:
    table = bare.folder / "t"
    settings = "'delta.columnMapping.mode'='name','delta.enableDeletionVectors'='true'"
    run(
        bare_session,
        table,
        "CREATE TABLE {t} (id INT NOT NULL, `x y` STRING, p INT) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({settings})",
        "INSERT INTO {t} SELECT id, 'v' || id, id % 2 FROM range(0, 10, 1, 1)",
        "DELETE FROM {t} WHERE id IN (3, 4)",
        "ALTER TABLE {t} RENAME COLUMN `x y` TO z",
        "ALTER TABLE {t} ADD COLUMNS (s STRUCT<a: INT>)",
        "INSERT INTO {t} SELECT 10, 'new', 0, named_struct('a', 1)",
    )
    text = code(f'format("delta").option("skipChangeCommits", "true").load("{table}")', '.select("*")')
    first, even = added(table, 1), [p for p in added(table, 1) if p in added(table, 2)]
    assert (len(first), len(even)) == (2, 2)
    old = rows_of(bare, bare_session, text, {4: first})
    assert [r["id"] for r in old] == [0, 1, 2, 5, 6, 7, 8, 9]
    assert old[1] == {"id": 1, "z": "v1", "p": 1, "s": None}
    both = rows_of(bare, bare_session, text, {4: first[:1], 5: added(table, 5)})
    assert both[-1] == {"id": 10, "z": "new", "p": 0, "s": {"a": 1}}
    assert len(both) == 5


def test_columns_that_came_later_are_null_and_deleted_rows_are_there_before(
    bare: Room, bare_session: Any
) -> None:
    table = bare.folder / "t"
    run(
        bare_session,
        table,
        "CREATE TABLE {t} (id INT NOT NULL, s STRUCT<a: INT>) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT id, named_struct('a', id) FROM range(0, 3, 1, 1)",
        "ALTER TABLE {t} ADD COLUMNS (s.b STRING, late DOUBLE)",
        "DELETE FROM {t} WHERE id = 1",
    )
    text = code(f'format("delta").load("{table}")', '.where("late IS NULL")')
    before = rows_of(bare, bare_session, text, {1: added(table, 1)})
    assert [r["id"] for r in before] == [0, 1, 2]
    assert before[1] == {"id": 1, "s": {"a": 1, "b": None}, "late": None}
    after = rows_of(bare, bare_session, text, {3: added(table, 3)})
    assert [r["id"] for r in after] == [0, 2]


def test_no_slice_is_no_row_of_the_same_columns(bare: Room, bare_session: Any) -> None:
    table = bare.folder / "t"
    bare_session.range(4).write.format("delta").save(str(table))
    text = code(f'format("delta").load("{table}")', '.selectExpr("id", "id + 1 as next")')
    found = bare.look(
        text, slices={"none": {}, "empty": {"0": InputRange("delta").as_dict()}}, key=("id", "next")
    )
    assert (found.problem, found.rows) == (None, {"none": 0, "empty": 0})
    assert found.columns == ("id", "next")


def test_files_of_the_table_that_a_shallow_clone_came_from_are_found(bare: Room, bare_session: Any) -> None:
    table, clone = bare.folder / "t", bare.folder / "c"
    bare_session.range(0, 4, 1, 2).write.format("delta").save(str(table))
    bare_session.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{table}`")
    paths = added(clone, 0)
    assert all("/" in path for path in paths)
    found = rows_of(bare, bare_session, code(f'format("delta").load("{clone}")'), {0: paths[:1]})
    assert len(found) == 2


def test_a_file_that_vacuum_took_stops_the_count(bare: Room, bare_session: Any) -> None:
    table = bare.folder / "t"
    bare_session.range(0, 4, 1, 2).write.format("delta").save(str(table))
    for file in table.glob("*.parquet"):
        file.unlink()
    part = InputRange("delta", versions=((0, tuple(added(table, 0))),)).as_dict()
    found = bare.look(code(f'format("delta").load("{table}")'), slices={"x": {"0": part}})
    assert (found.problem or "").startswith("The rows could not be counted: ")


def between(table: Path, start: int, end: int) -> tuple[InputRange, DeltaFacts]:
    """All that was committed from version `start` on and before `end`."""
    table_id = live.table_id(str(table))
    assert table_id
    lines = [DeltaOffset(table_id, version).as_json() for version in (start, end)]
    facts = live.read_table(str(table), offsets=lines, options={})
    found = of_delta(*lines, facts)
    assert found
    return found, facts


def spoil(table: Path, version: int) -> None:
    """Nobody can read the files of a version any more."""
    for path in added(table, version):
        (table / unquote(path)).write_bytes(b"no Parquet")


ROWS = """VALUES
    ({n}0, named_struct('a', 1, 'b', 'x'), 'a b', 7, DATE'2024-02-29', true, TIMESTAMP'2024-01-01 10:00:00', 1.5),
    ({n}1, NULL, '50%', -7, DATE'1900-01-01', false, NULL, NULL),
    ({n}2, named_struct('a', NULL, 'b', 'é'), 'é+x', NULL, NULL, NULL, TIMESTAMP'1899-01-01 00:00:00', 2),
    ({n}3, NULL, 'a/b', 0, DATE'9999-12-31', true, NULL, 0),
    ({n}4, NULL, NULL, 1, DATE'2024-01-01', true, NULL, 0),
    ({n}5, NULL, '', 1, DATE'2024-01-01', true, NULL, 0),
    ({n}6, NULL, '007', 1, DATE'2024-01-01', true, NULL, 0),
    ({n}7, NULL, '[x]{y}*?=,;&#', 1, DATE'2024-01-01', true, NULL, 0)"""


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (p)", "PARTITIONED BY (yes, d, p, n)"])
def test_a_plain_file_is_read_by_itself_as_the_table_reads_it(bare: Room, bare_session: Any, by: str) -> None:
    """Files of other versions are spoiled: whoever opens one fails."""
    table = bare.folder / "t [x]"
    run(
        bare_session,
        table,
        "CREATE TABLE {t} (id INT NOT NULL, s STRUCT<a: INT, b: STRING>, p STRING, n INT, d DATE, yes BOOLEAN, "
        f"at TIMESTAMP, amount DECIMAL(9, 2)) USING delta {by}",
        *("INSERT INTO {t} " + ROWS.replace("{n}", str(number)) for number in range(1, 4)),
    )
    part, _ = between(table, 2, 3)
    assert part.direct
    text = code(f'format("delta").load({str(table)!r})')
    by_table = rows_of_slice(bare, bare_session, text, replace(part, direct=False))
    spoil(table, 1)
    spoil(table, 3)
    found = rows_of_slice(bare, bare_session, text, part)
    assert [r["id"] for r in found] == list(range(20, 28))
    assert found == by_table
    refused = bare.look(text, slices={"x": {"0": replace(part, direct=False).as_dict()}})
    assert (refused.problem or "").startswith("The rows could not be counted: ")


NOT_BY_THEMSELVES = {
    "column mapping": ("id INT, p STRING", "'delta.columnMapping.mode'='name'", ""),
    "widened types": ("id INT, p STRING", "'delta.enableTypeWidening'='true'", ""),
    "a padded column": ("id INT, p CHAR(3)", "'a'='b'", ""),
    "a partition by time": ("id INT, p TIMESTAMP", "'a'='b'", "PARTITIONED BY (p)"),
    "deleted rows": ("id INT, p STRING", "'delta.enableDeletionVectors'='true'", ""),
}


@pytest.mark.parametrize("case", NOT_BY_THEMSELVES)
def test_a_file_that_does_not_stand_for_itself_is_picked_out_of_its_version(
    bare: Room, bare_session: Any, case: str
) -> None:
    columns, settings, by = NOT_BY_THEMSELVES[case]
    table = bare.folder / "t"
    run(
        bare_session,
        table,
        f"CREATE TABLE {{t}} ({columns}) USING delta {by} TBLPROPERTIES ({settings})",
        "INSERT INTO {t} SELECT id, NULL FROM range(0, 4, 1, 1)",
    )
    last = 2
    if case == "deleted rows":
        assert between(table, 1, last)[0].direct, "no row of it is deleted yet"
        run(bare_session, table, "DELETE FROM {t} WHERE id = 1")
        last = 3
    part, _ = between(table, last - 1, last)
    assert not part.direct
    text = code(f'format("delta").option("ignoreChanges", "true").load("{table}")')
    ids = [r["id"] for r in rows_of_slice(bare, bare_session, text, part)]
    assert ids == ([0, 2, 3] if case == "deleted rows" else [0, 1, 2, 3])


CHANGED = (
    "UPDATE {t} SET k = k + 100 WHERE id IN (1, 4)",
    "ALTER TABLE {t} ADD COLUMNS (note STRING)",
    "INSERT INTO {t} VALUES (10, 10, 'x'), (11, 11, NULL)",
    "DELETE FROM {t} WHERE id < 2 OR id = 10",
    "OPTIMIZE {t}",
    "MERGE INTO {t} USING (SELECT 5 AS id UNION ALL SELECT 20) AS s ON {t}.id = s.id "
    "WHEN MATCHED THEN UPDATE SET note = 'm' WHEN NOT MATCHED THEN INSERT (id, k, note) VALUES (20, 0, 'n')",
)


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("options", [{}, {"startingVersion": "1"}], ids=["from a snapshot", "from a version"])
def test_a_change_feed_yields_in_slices_what_its_stream_reads(
    bare: Room, bare_session: Any, vectors: str, options: dict[str, str]
) -> None:
    """Type, version and time of each change among it. The snapshot is the table as it was when the stream began."""
    table, told = bare.folder / "t", {"readChangeFeed": "true", **options}
    run(
        bare_session,
        table,
        "CREATE TABLE {t} (id INT, k INT) USING delta TBLPROPERTIES "
        f"('delta.enableChangeDataFeed'='true','delta.enableDeletionVectors'='{vectors}')",
        "INSERT INTO {t} SELECT id, id FROM range(0, 6, 1, 3)",
    )
    place = bare.folder / "ck"
    if not options:  # it begins now, and goes on after the changes
        streamed(bare_session, table, told, place)
    run(bare_session, table, *CHANGED)
    rows = streamed(bare_session, table, told, place)

    table_id = str(live.table_id(str(table)))
    begins = DeltaOffset(table_id, 1, initial=not options).as_json()
    facts = live.read_table(str(table), offsets=[begins], options=told)
    parts = [of_delta(begins, DeltaOffset(table_id, v).as_json(), facts) for v in (3, facts.latest + 1)]
    middle, whole = parts
    assert middle
    assert whole
    rest = of_delta(
        DeltaOffset(table_id, 3).as_json(), DeltaOffset(table_id, facts.latest + 1).as_json(), facts
    )
    assert rest
    reader = f'format("delta").options(**{told!r}).load("{table}")'
    text = code(reader, ".withColumn('_commit_timestamp', F.unix_millis('_commit_timestamp'))")
    text = f"from pyspark.sql import functions as F\n{text}"
    assert alike(rows_of_slice(bare, bare_session, text, whole)) == alike(rows)
    both = [*rows_of_slice(bare, bare_session, text, middle), *rows_of_slice(bare, bare_session, text, rest)]
    assert alike(both) == alike(rows)
    nothing = bare.look(text, slices={"none": {"0": InputRange("delta").as_dict()}}, key=("id",))
    assert (nothing.problem, nothing.rows) == (None, {"none": 0})


def alike(rows: list[dict[str, Any]]) -> list[str]:
    """Whatever order rows and columns come in."""
    return sorted(str(sorted(row.items())) for row in rows)


def streamed(session: Any, table: Path, options: dict[str, str], place: Path) -> list[dict[str, Any]]:
    """All rows that a stream over this checkpoint has written so far."""
    stream = session.readStream.format("delta").options(**options).load(str(table))
    stream = stream.selectExpr(
        "* EXCEPT (_commit_timestamp)", "unix_millis(_commit_timestamp) AS _commit_timestamp"
    )
    writer = stream.writeStream.format("delta").option("mergeSchema", "true").trigger(availableNow=True)
    writer.option("checkpointLocation", str(place)).start(str(place.parent / "read")).awaitTermination()
    return [
        r.asDict(recursive=True)
        for r in session.read.format("delta").load(str(place.parent / "read")).collect()
    ]


def test_a_change_feed_that_stands_within_a_version_is_not_counted(bare: Room, bare_session: Any) -> None:
    """Spark gives whole versions only, so that no slice is better than one that is too large."""
    table = bare.folder / "t"
    run(
        bare_session,
        table,
        "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed'='true')",
        "INSERT INTO {t} SELECT id FROM range(0, 6, 1, 3)",
        "INSERT INTO {t} SELECT id FROM range(0, 6, 1, 3)",
    )
    table_id = str(live.table_id(str(table)))
    facts = live.read_table(
        str(table), offsets=[DeltaOffset(table_id, 1).as_json()], options={"readChangeFeed": "true"}
    )
    files = len(facts.commits[1].files)
    assert files > 1
    end = DeltaOffset(table_id, 3).as_json()
    assert of_delta(DeltaOffset(table_id, 1, 0).as_json(), end, facts) is None
    read_whole = of_delta(DeltaOffset(table_id, 1, files - 1).as_json(), end, facts)
    assert read_whole
    assert read_whole.changes == (2, 2)


def test_a_version_is_as_large_as_its_files_whatever_came_and_went(bare: Room, bare_session: Any) -> None:
    table = bare.folder / "t"
    run(
        bare_session,
        table,
        "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT id FROM range(0, 40, 1, 4)",
        "DELETE FROM {t} WHERE id IN (3, 4)",
        "INSERT INTO {t} SELECT id FROM range(40, 50, 1, 2)",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id < 10",
        "INSERT INTO {t} SELECT 50",
    )
    _, facts = between(table, 0, 5)
    log = deltalog.list_log(Store.open(str(table)))
    assert log
    sizes = [
        sum(f.size for f in deltalog.table_state(log, v, files=True).files.values())
        for v in range(facts.latest + 1)
    ]
    assert [live.measure_table(facts).size_of(v) for v in range(facts.latest + 1)] == sizes
    assert sizes[0] == 0 < len(set(sizes)) - 3
