"""What a flow yields over files of a Delta table: exactly theirs, in the state of their version."""

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.sources.slices import Slice
from tests.integration.spark_room import Room

pytestmark = pytest.mark.spark


def code(reader: str, more: str = "") -> str:
    return f"@dp.table\ndef t():\n    frame = spark.readStream.{reader}\n    return frame{more}\n"


def added(table: Path, version: int) -> list[str]:
    """Paths that a commit added, as its log writes them."""
    lines = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [json.loads(line)["add"]["path"] for line in lines if '"add"' in line]


def rows_of(bare: Room, session: Any, text: str, versions: dict[int, list[str]]) -> list[dict[str, Any]]:
    """What the flow yields over these files."""
    part = Slice("delta", versions=tuple((v, tuple(paths)) for v, paths in versions.items()))
    out = bare.folder / "out" / str(len(list((bare.folder / "out").glob("*"))))
    found = bare.look(text, slices={"x": {"0": part.as_dict()}}, write={"x": str(out)})
    assert found.problem is None
    rows = [r.asDict(recursive=True) for r in session.read.parquet(str(out)).collect()]
    assert found.rows == {"x": len(rows)}
    return sorted(rows, key=lambda r: r["id"])


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
    parts = {path: Slice("delta", versions=((0, (path,)),)) for path in paths}
    found = bare.look(code(reader), slices={path: {"0": part.as_dict()} for path, part in parts.items()})
    assert (found.problem, found.rows) == (None, dict.fromkeys(paths, 1))
    assert [r["p"] for r in rows_of(bare, bare_session, code(reader), {0: paths})] == ODD


def test_each_file_is_read_in_the_state_of_its_version(bare: Room, bare_session: Any) -> None:
    table = bare.folder / "t"
    settings = "'delta.columnMapping.mode'='name','delta.enableDeletionVectors'='true'"
    for statement in (
        "CREATE TABLE {t} (id INT NOT NULL, `x y` STRING, p INT) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({settings})",
        "INSERT INTO {t} SELECT id, 'v' || id, id % 2 FROM range(0, 10, 1, 1)",
        "DELETE FROM {t} WHERE id IN (3, 4)",
        "ALTER TABLE {t} RENAME COLUMN `x y` TO z",
        "ALTER TABLE {t} ADD COLUMNS (s STRUCT<a: INT>)",
        "INSERT INTO {t} SELECT 10, 'new', 0, named_struct('a', 1)",
    ):
        bare_session.sql(statement.replace("{t}", f"delta.`{table}`"))
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
    for statement in (
        "CREATE TABLE {t} (id INT NOT NULL, s STRUCT<a: INT>) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT id, named_struct('a', id) FROM range(0, 3, 1, 1)",
        "ALTER TABLE {t} ADD COLUMNS (s.b STRING, late DOUBLE)",
        "DELETE FROM {t} WHERE id = 1",
    ):
        bare_session.sql(statement.replace("{t}", f"delta.`{table}`"))
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
    found = bare.look(text, slices={"none": {}, "empty": {"0": Slice("delta").as_dict()}}, key=("id", "next"))
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
    part = Slice("delta", versions=((0, tuple(added(table, 0))),)).as_dict()
    found = bare.look(code(f'format("delta").load("{table}")'), slices={"x": {"0": part}})
    assert (found.problem or "").startswith("The rows could not be counted: ")
