"""The Spark room measures tables: what they hold beside what was expected."""

from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.spark.api import (
    MeasureRequest,
    WholeComparison,
    WholeInput,
    count,
    location,
    measure,
    table_location,
    whereabouts,
)
from tests.integration.spark_room import SCHEMA, SIMPLE, Room, Written, compared, row

pytestmark = pytest.mark.spark


def test_locations_are_the_catalogs(room: Room, written: Written) -> None:
    assert table_location(room.answers, written.name) is None
    room.put("a/1.json", row(1))
    written.run()
    place = location(room.answers, written.name)
    assert (Path(place.removeprefix("file:")) / "_spark_metadata" / "0").exists()
    told = whereabouts(room.answers, [written.name, "spark_catalog.no_such_schema.t"])
    assert {name: table.location for name, table in told.tables.items()} == {written.name: place}
    assert told.tables[written.name].made
    assert told.driver == whereabouts(room.answers, []).driver != ""


def test_a_flow_over_another_table_of_files_is_replayed_over_them(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1), row(1), row(2))
    files = written.run()
    code = f'@dp.table\ndef t():\n    return spark.readStream.table("{written.name}").dropDuplicates()\n'
    found = room.look(code, sets={"all": files, "none": ()})
    assert (found.problem, found.operators) == (None, ("dedupe",))
    assert {name: found.distinct[name] for name in ("all", "none")} == {"all": 2, "none": 0}


def test_files_are_counted_where_the_input_cannot_be_replayed(room: Room, written: Written) -> None:
    uri = room.put("a/1.json", row(1), row(2))
    new = written.run()
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").groupBy("kind").count()')
    found = compared(room, written, (uri,), (), new, code)
    assert "depends on its state" in (found.problem or "")
    assert (found.table_rows, found.listed_rows, found.new_rows, found.missing) == (2, 2, 2, None)


def test_repeats_are_rows_whose_key_the_table_holds(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1), row(2, None))
    written.run()
    uri = room.put("a/2.json", row(1, "x"), row(2, None), row(2, None), row(3), row(3))
    found = room.look(SIMPLE, sets={"waiting": (uri,)}, table=written.name, key=("id", "kind"))
    assert found.table_rows == 2
    assert found.rows == {"waiting": 5}
    assert found.repeats == {"waiting": 3}
    assert found.fresh == {"waiting": 1}


@pytest.mark.parametrize("key", [None, ("kind",), ("id", "kind")], ids=str)
def test_what_a_kept_drop_duplicates_lets_through_hangs_on_its_own_columns(
    room: Room, written: Written, key: tuple[str, ...] | None
) -> None:
    """Whatever key a person names to tell rows apart."""
    room.put("a/1.json", row(1, "x"))
    written.run()
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").dropDuplicates(["id"])')
    uri = room.put("a/2.json", row(2, "x"), row(3, "x"), row(1, "z"))
    found = room.look(code, sets={"waiting": (uri,)}, table=written.name, key=key)
    assert (found.problem, found.dedupe) == (None, ("id",))
    assert found.fresh == {"waiting": 2}


def test_every_expected_row_once_is_measured_as_no_difference(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1), row(2, None))
    old = written.run()
    uri = room.put("a/2.json", row(2, None), row(3), row(None, None, None))  # type: ignore[arg-type]
    new = written.run()
    for key in (None, ("id", "kind")):
        found = compared(room, written, (uri,), old, new, key=key)
        assert found.problem is None
        assert (found.missing, found.extra, found.samples) == (0, 0, {"missing": (), "extra": ()})
        assert (found.expected_rows, found.new_rows, found.old_rows) == (3, 3, 2)
        assert (found.table_rows, found.listed_rows) == (5, 5)
        assert (found.duplicates_in_table, found.duplicates_before, found.duplicates_explained) == (1, 0, 1)
        assert (
            found.held_before == 1
        )  # the table had row 2 before, so its second one is not the input's doing


def test_a_column_that_the_new_code_adds_to_a_table_named_by_its_path_is_compared(
    room: Room, written: Written, tmp_path: Path
) -> None:
    """Spark reads such a table by the columns of any one of its files."""
    place = tmp_path / "table"
    room.put("a/1.json", row(1, "x"))
    old = put_rows(written.connect, place, "id int, kind string", (1, "x"))
    uri = room.put("a/2.json", row(2, "y"), row(3, "z"))
    wide = "id int, kind string, upper string"
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").selectExpr("id", "kind", "upper(kind) as upper")')
    asked = room.request(code, sets={"new": (uri,)})

    def measured(*rows: tuple[object, ...]) -> Any:
        new = put_rows(written.connect, place, wide, *rows)
        return measure(MeasureRequest(room.answers, f"parquet.`{place}`", old, new, asked))

    found = measured((2, "y", "Y"), (3, "z", "wrong"))
    assert (found.problem, found.expected_rows, found.new_rows) == (None, 2, 2)
    assert (found.missing, found.extra) == (1, 1)
    assert (measured((2, "y", "Y"), (3, "z", "Z")).missing) == 0


def put_rows(connect: Any, place: Path, schema: str, *rows: tuple[object, ...]) -> tuple[str, ...]:
    """The data file that one write adds."""
    before = {*place.glob("*.parquet")}
    connect.createDataFrame(list(rows), schema).coalesce(1).write.mode("append").parquet(str(place))
    return tuple(f"file://{path}" for path in {*place.glob("*.parquet")} - before)


def test_lost_and_doubled_rows_are_found_and_shown(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1))
    old = written.run()
    lost = room.put("a/2.json", row(2), row(2), row(3, None))
    new = written.run()
    found = compared(room, written, (lost,), old, (), key=("id",))
    assert (found.missing, found.extra) == (3, 0)
    assert sorted((s["key"]["id"], s["times"]) for s in found.samples["missing"]) == [("2", 2), ("3", 1)]
    assert found.listed_rows != found.table_rows
    twice = compared(room, written, (), old, new)
    assert (twice.missing, twice.extra, twice.expected_rows) == (0, 3, 0)
    one = room.put("a/3.json", row(2))
    partly = compared(room, written, (one,), old, new, key=("id",))
    assert (partly.missing, partly.extra) == (0, 2)


def test_a_changed_value_shows_by_whole_row_and_not_by_key(room: Room, written: Written) -> None:
    uri = room.put("a/1.json", row(1, "x"))
    new = written.run()
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").withColumn("kind", __import__("pyspark.sql.functions", '
                          'fromlist=["lit"]).lit("y"))')  # fmt: skip
    assert compared(room, written, (uri,), (), new, code, key=("id",)).missing == 0
    whole = compared(room, written, (uri,), (), new, code)
    assert (whole.missing, whole.extra) == (1, 1)


def test_a_key_is_looked_for_in_the_whole_table_while_rows_are_compared_in_every_column(
    room: Room, written: Written
) -> None:
    first = room.put("a/1.json", row(1), row(2), row(2, "y"))
    old = written.run()
    uri = room.put("a/2.json", row(1, "z"), row(3))
    new = written.run()
    every = WholeInput((first, uri))
    found = compared(room, written, (uri,), old, new, key=("id",), whole_rows=True, whole=every)
    assert (found.problem, found.missing, found.extra, found.expected_rows) == (None, 0, 0, 2)
    assert (found.table_keys, found.keys_twice, found.new_repeats) == (3, 1, 1)
    assert (found.duplicates_in_table, found.duplicates_before, found.held_before) == (2, 1, 1)
    assert found.whole == WholeComparison(5, 3, 5, 3, absent=0, doubled=2, beyond=0)
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").where("kind != \'z\'")')
    other = compared(room, written, (uri,), old, new, code, key=("id",), whole_rows=True)
    assert (other.missing, other.extra, other.new_repeats) == (0, 1, 1)
    assert [s["key"]["kind"] for s in other.samples["extra"]] == ["z"]
    assert compared(room, written, (uri,), old, new, code, key=("id",)).extra == 1


def test_a_column_that_differs_at_every_run_loses_no_row_where_rows_are_compared_in_every_column(
    room: Room, written: Written
) -> None:
    uri = room.put("a/1.json", row(1), row(2))
    new = written.run()
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").withColumn("kind", __import__("pyspark.sql.functions", '
                          'fromlist=["f"]).current_timestamp().cast("string"))')  # fmt: skip
    found = compared(room, written, (uri,), (), new, code, key=("id",), whole_rows=True)
    assert (found.problem, found.missing, found.extra) == (None, 0, 0)
    assert found.values is not None
    assert (found.values.rows, found.values.left_out) == (0, ("kind",))


def test_the_whole_flow_finds_what_was_lost_and_doubled_long_ago(room: Room, written: Written) -> None:
    gone, first = room.put("a/0.json", row(9)), room.put("a/1.json", row(1), row(2), row(2))
    old = written.run()
    lost = room.put("b/1.json", row(7), row(7))
    code = SIMPLE.replace("/a", "/*")
    every = WholeInput((first, lost))
    by_key = compared(room, written, (), old, (), code, key=("id",), whole=every).whole
    assert by_key == WholeComparison(5, 3, 4, 3, 1, 1, 1, samples=({"key": {"id": "7"}, "times": 1},))
    by_row = compared(room, written, (), old, (), code, whole=every).whole
    assert (by_row.absent, by_row.doubled, by_row.beyond) == (2, 0, 1)
    assert gone not in every.files
    counted = SIMPLE.replace('json("IN/a")', 'json("IN/a").groupBy("id").count()')
    stateful = compared(room, written, (), old, (), counted, whole=every).whole
    assert (stateful.absent, stateful.problem is None) == (None, False)
    timed = SIMPLE.replace('json("IN/a")', 'json("IN/a").selectExpr("id", "kind", "rand() as amount")')
    random = compared(room, written, (), old, (), timed, whole=every).whole
    assert (random.absent, random.problem is None) == (None, False), "no two runs yield the same rows"


def test_a_kept_state_does_not_let_known_keys_through_again(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1), row(2, None))
    old = written.run()
    written.source = room.folder / "in" / "b"
    written.folder = room.folder / "second"
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").dropDuplicates(["id", "kind"])')
    uri = room.put("a/2.json", row(1), row(2, None), row(3), row(3))
    kept = compared(room, written, (uri,), old, (), code, state_kept=True)
    assert (kept.expected_rows, kept.missing) == (1, 1)
    assert compared(room, written, (uri,), old, (), code).expected_rows == 3


def test_nested_columns_are_compared_as_values(room: Room, written: Written) -> None:
    written.schema = "id int, s struct<a: int, b: array<string>>, m map<string, int>"
    code = SIMPLE.replace(SCHEMA, written.schema)
    same = '{"id": 1, "s": {"a": null, "b": ["x", null]}, "m": {"p": 1, "q": 2}}'
    uri = room.put("a/1.json", same, same.replace('"p": 1, "q": 2', '"q": 2, "p": 1'), '{"id": 2}')
    new = written.run()
    found = compared(room, written, (uri,), (), new, code)
    assert (found.problem, found.missing, found.extra, found.duplicates_in_table) == (None, 0, 0, 1)
    other = room.put("a/2.json", same.replace('["x", null]', '["x", "y"]'))
    assert compared(room, written, (other,), (), new, code).missing == 1


def test_code_that_is_broken_refuses_a_measure_with_the_line(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1))
    new = written.run()
    with pytest.raises(Refused, match="line 2: ZeroDivisionError"):
        compared(room, written, (), (), new, "1 / 0\n")


def test_a_table_that_is_not_there_is_a_problem(room: Room, written: Written) -> None:
    assert "no table" in (compared(room, written, (), (), ()).problem or "")


def test_a_text_that_looks_like_a_number_stays_a_text_in_the_partition_of_a_file_table(
    room: Room, written: Written
) -> None:
    written.schema = "id int, kind string"
    name, place = written.name, room.folder / "parts"
    written.connect.sql(
        f"CREATE TABLE {name} ({written.schema}) USING parquet PARTITIONED BY (kind) LOCATION '{place}'"
    )
    uri = room.put("a/1.json", '{"id": 1, "kind": "007"}')
    written.connect.sql("SELECT 1, '007'").write.insertInto(name)
    first = [f"file://{path}" for path in place.rglob("*.parquet")]
    code = SIMPLE.replace(SCHEMA, written.schema)
    found = compared(room, written, (uri,), (), first, code)
    assert (found.problem, found.missing, found.extra, found.new_rows) == (None, 0, 0, 1)
    other = room.put("a/2.json", '{"id": 1, "kind": "7"}')
    found = compared(room, written, (other,), (), first, code)
    assert (found.missing, found.extra) == (1, 1)


def test_columns_that_only_the_table_has_are_told(room: Room, written: Written) -> None:
    """Code that yields a column less leaves it empty in new rows; the comparison did not say a word of it."""
    uri = room.put("a/1.json", row(1), row(2))
    new = written.run()
    found = compared(room, written, (uri,), (), new, SIMPLE.rstrip() + '.select("id", "KIND")')
    assert (found.problem, found.missing, found.extra) == (None, 0, 0)
    assert found.table_only == ("amount",)
    assert compared(room, written, (uri,), (), new, SIMPLE).table_only == ()


def origins(found: Any) -> dict[str, set[tuple[str, tuple[int, ...], int | None]]]:
    """File, lines and number of lines, by the missing row's id."""
    held: dict[str, set[tuple[str, tuple[int, ...], int | None]]] = {}
    for one in found.origins:
        number = found.samples["missing"][one.sample]["key"]["id"]
        held.setdefault(number, set()).add((one.file.rsplit("/", 1)[-1], one.lines, one.of))
    return held


def test_a_missing_row_is_told_with_its_file_and_line(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1))
    old = written.run()
    one = room.put("a/2 ü.json", row(2), "", row(3, None), "{broken")
    other = room.put("a/3.json", row(3, None), row(4), row(4), row(5))
    found = compared(room, written, (one, other), old, (), key=("id",))
    assert origins(found) == {
        "2": {("2 ü.json", (1,), 4)},
        "3": {("2 ü.json", (3,), 4), ("3.json", (1,), 4)},
        "4": {("3.json", (2, 3), 4)},
        "5": {("3.json", (4,), 4)},
        None: {("2 ü.json", (4,), 4)},
    }


WAYS = {
    "other columns narrow it down": ('"id + 0 AS id", "kind", "amount"', (1, 3)),
    "names of its own": ('"amount AS a", "id AS id", "upper(kind) AS kind"', (3,)),
    "another value": ('"-id AS id", "kind AS kind"', (1, 3)),
    "nothing as it was": ('"id + 0 AS id", "upper(kind) AS kind"', ()),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_line_is_told_by_the_columns_that_the_code_leaves_as_they_are(
    room: Room, written: Written, way: str
) -> None:
    chosen, lines = WAYS[way]
    room.put("a/0.json", row(0))
    written.run()
    uri = room.put("a/1.json", row(6), row(8, "y"), row(7))
    code = SIMPLE.replace('/a")', f'/a").selectExpr({chosen})')
    found = compared(room, written, (uri,), (), (), code, key=("id",))
    told = {found.samples["missing"][one.sample]["key"]["id"].strip("-"): one.lines for one in found.origins}
    assert (found.problem, found.missing, told["7"]) == (None, 3, lines)


WHOLE_FILES = {
    "a file of one record": SIMPLE.replace(".json(", '.option("multiLine", "true").json('),
    "a file with ends of lines of its own": SIMPLE.replace(".json(", '.option("lineSep", ";").json('),
}


@pytest.mark.parametrize("code", WHOLE_FILES.values(), ids=WHOLE_FILES.keys())
def test_no_line_is_told_where_a_record_is_no_line(room: Room, written: Written, code: str) -> None:
    room.put("a/0.json", row(0))
    written.run()
    uri = room.put("a/1.json", row(7))
    found = compared(room, written, (uri,), (), (), code, key=("id",))
    assert [(one.file, one.lines, one.of) for one in found.origins] == [(uri, (), None)]


def test_a_file_whose_rows_meet_those_of_others_is_not_told(room: Room, written: Written) -> None:
    one, other = room.put("a/1.json", row(1)), room.put("b/2.json", row(2))
    written.run()
    code = """
    @dp.table
    def t():
        schema = "id int, kind string, amount double"
        return spark.readStream.schema(schema).json("IN/a").unionByName(spark.readStream.schema(schema).json("IN/b"))
    """
    found = compared(room, written, (one, other), (), (), code, key=("id",))
    assert (found.problem, found.missing, found.origins) == (None, 2, ())


def test_a_table_that_spark_cannot_read_is_a_problem_of_the_table(room: Room, written: Written) -> None:
    uri = room.put("a/1.json", row(1))
    place = room.folder / "mixed"
    written.connect.createDataFrame([(1, "x", 1.0)], SCHEMA).write.orc(str(place))
    name = f"parquet.`{place}`"
    with pytest.raises(Refused):
        count(room.answers, name, {})
    asked = room.request(SIMPLE, sets={"new": (uri,)})
    found = measure(MeasureRequest(room.answers, name, (), (), asked))
    assert (found.problem is None, found.table_rows, found.missing) == (False, None, None)
