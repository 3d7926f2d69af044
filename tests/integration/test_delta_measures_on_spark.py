"""The Spark room measures Delta tables: what they gained since a version, beside what was expected."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from recovery.sources.input_ranges import InputRange
from recovery.spark import counting, lookups
from recovery.spark.api import (
    TYPES_DIFFER,
    BoundedBy,
    Budgets,
    Limit,
    Measure,
    MeasureRequest,
    measure,
)
from recovery.workflow import evidence
from tests.integration.spark_room import SCHEMA, SIMPLE, Room, row
from tests.kafka import KafkaBroker

pytestmark = pytest.mark.spark


@dataclass
class Table:
    """A Delta table; rows go in as an update would write them."""

    bare: Room
    session: Any
    name: str

    def write(self, *rows: dict[str, Any]) -> int:
        """The version after it."""
        frame = self.session.createDataFrame([tuple(r.values()) for r in rows], SCHEMA)
        frame.write.format("delta").mode("append").saveAsTable(self.name)
        return self.version()

    def sql(self, text: str) -> int:
        self.session.sql(text.replace("{t}", self.name))
        return self.version()

    def version(self) -> int:
        return int(self.session.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").collect()[0].version)

    def measured(self, inputs: tuple[str, ...], since: int, code: str = SIMPLE, **more: Any) -> Measure:
        """By what the log says where it says enough; the same as by both versions whole."""
        study = self.bare.request(code, sets={"new": inputs}, **more.pop("study", {}))
        asked = MeasureRequest(self.bare.answers, self.name, (), (), study, old_version=since, **more)
        by_versions = measure(asked)
        came = evidence.came_since(self.place, since)
        if came is None:
            return by_versions
        by_log = measure(replace(asked, since=came))
        # rows that vanished are seen by whole versions alone where rows cannot be compared
        known = by_log if not by_log.problem_code else replace(by_log, vanished=by_versions.vanished)
        assert known == by_versions
        return by_log

    @property
    def place(self) -> str:
        return str(self.session.sql(f"DESCRIBE DETAIL {self.name}").collect()[0].location)


@pytest.fixture
def table(bare: Room, bare_session: Any) -> Table:
    name = f"spark_catalog.default.measured_{abs(hash(bare.folder)) % 10**8}"
    bare_session.sql(f"CREATE TABLE {name} ({SCHEMA}) USING delta")
    return Table(bare, bare_session, name)


def test_what_was_written_is_what_the_table_has_beyond_its_version(bare: Room, table: Table) -> None:
    since = table.write(row(1), row(2, None), row(2, None))
    uri = bare.put("a/2.json", row(2, None), row(3))
    table.write(row(2, None))
    table.write(row(3))
    for key in (None, ("id",)):
        found = table.measured((uri,), since, key=key)
        assert found.problem is None
        assert (found.missing, found.extra, found.vanished) == (0, 0, 0)
        assert (found.expected_rows, found.new_rows, found.old_rows) == (2, 2, 3)
        assert (found.table_rows, found.listed_rows) == (5, 5)
        assert (found.duplicates_in_table, found.duplicates_before, found.duplicates_explained) == (2, 1, 1)
        assert found.held_before == 1


def test_lost_doubled_and_vanished_rows_are_told_apart(bare: Room, table: Table) -> None:
    since = table.write(row(1), row(2), row(3))
    uri = bare.put("a/2.json", row(4), row(5))
    table.write(row(5), row(5))
    table.sql("DELETE FROM {t} WHERE id IN (2, 3)")
    found = table.measured((uri,), since, key=("id",))
    assert (found.missing, found.extra, found.vanished) == (1, 1, 2)
    assert [s["key"]["id"] for s in found.samples["missing"]] == ["4"]
    assert [s["key"]["id"] for s in found.samples["extra"]] == ["5"]
    assert (found.table_rows, found.old_rows, found.new_rows) == (3, 3, 2)


def test_a_row_that_was_changed_vanished_and_is_one_too_many_by_the_whole_row(
    bare: Room, table: Table
) -> None:
    since = table.write(row(1), row(2))
    table.sql("UPDATE {t} SET kind = 'y' WHERE id = 2")
    found = table.measured((), since)
    assert (found.missing, found.extra, found.vanished, found.new_rows) == (0, 1, 1, 1)


def test_a_table_rewritten_without_change_has_gained_nothing(bare: Room, table: Table) -> None:
    table.write(row(1))
    since = table.write(row(2))
    table.sql("OPTIMIZE {t}")
    found = table.measured((), since)
    assert (found.new_rows, found.vanished, found.missing, found.extra, found.table_rows) == (0, 0, 0, 0, 2)


def test_after_a_full_refresh_everything_is_new(bare: Room, table: Table) -> None:
    table.write(row(1), row(9))
    table.sql("TRUNCATE TABLE {t}")
    uri = bare.put("a/1.json", row(1), row(2))
    table.write(row(1), row(2))
    found = table.measured((uri,), -1)
    assert (found.missing, found.extra, found.vanished) == (0, 0, 0)
    assert (found.old_rows, found.new_rows, found.table_rows, found.listed_rows) == (0, 2, 2, 2)


def test_a_column_that_the_rerun_brought_is_null_in_the_old_rows(bare: Room, table: Table) -> None:
    since = table.write(row(1))
    table.sql("ALTER TABLE {t} ADD COLUMNS (late STRING)")
    code = SIMPLE.replace(SCHEMA, f"{SCHEMA}, late string")
    uri = bare.put("a/1.json", {**row(1), "late": "x"})
    table.sql("INSERT INTO {t} VALUES (1, 'x', 1.0, 'x')")
    found = table.measured((uri,), since, code)
    assert (found.problem, found.missing, found.extra, found.vanished) == (None, 0, 0, 0)
    assert (found.old_rows, found.new_rows) == (1, 1)


def test_a_kept_state_does_not_let_keys_of_the_old_version_through_again(bare: Room, table: Table) -> None:
    since = table.write(row(1), row(2, None))
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").dropDuplicates(["id", "kind"])')
    uri = bare.put("a/2.json", row(1), row(2, None), row(3), row(3))
    table.write(row(3))
    found = table.measured((uri,), since, code, state_kept=True)
    assert (found.expected_rows, found.missing, found.extra) == (1, 0, 0)


STATEFUL = SIMPLE.replace(
    'json("IN/a")', 'json("IN/a").groupBy("id", "kind", "amount").count().drop("count")'
)


def test_rows_of_a_rehearsal_are_expected_in_place_of_what_the_code_yields(
    bare: Room, bare_session: Any, table: Table
) -> None:
    since = table.write(row(1))
    folder = bare.folder / "out {x}"
    rows = bare_session.createDataFrame([tuple(row(n).values()) for n in (2, 3)], SCHEMA)
    rows.write.parquet(str(folder))
    table.write(row(2))
    found = table.measured((), since, STATEFUL, expected=str(folder), key=("id",))
    assert (found.problem, found.expected_rows, found.missing, found.extra) == (None, 2, 1, 0)
    (bare.folder / "empty").mkdir()
    nothing = table.measured((), since, STATEFUL, expected=str(bare.folder / "empty"))
    assert (nothing.problem, nothing.expected_rows, nothing.extra) == (None, 0, 1)
    absent = table.measured((), since, STATEFUL, expected=str(bare.folder / "absent"))
    assert (absent.problem or "").startswith("The rows could not be compared: ")


def test_the_table_is_counted_where_the_input_cannot_be_replayed(bare: Room, table: Table) -> None:
    since = table.write(row(1), row(1), row(2))
    table.write(row(3))
    table.sql("DELETE FROM {t} WHERE id = 2")
    found = table.measured((), since, STATEFUL)
    assert "depends on its state" in (found.problem or "")
    assert (found.table_rows, found.listed_rows, found.old_rows, found.new_rows) == (3, 3, 3, 1)
    assert (found.vanished, found.missing) == (1, None)


def test_slices_of_all_labels_together_are_expected_once(
    bare: Room, table: Table, kafka: KafkaBroker
) -> None:
    topic = f"measured-{abs(hash(bare.folder)) % 10**8}"
    kafka.topic(topic)
    kafka.put(topic, range(10))
    code = f"""
@dp.table
def t():
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{kafka.address}")
    frame = reader.option("subscribe", "{topic}").load()
    return frame.selectExpr("cast(cast(value as string) as int) id", "'x' as kind", "cast(1 as double) amount")
"""
    spans = [(2, 5), (4, 7), (9, 10)]
    parts = [InputRange("kafka", start={topic: {"0": a}}, end={topic: {"0": b}}).as_dict() for a, b in spans]
    table.write(*[row(n) for n in (2, 3, 4, 5, 6)])
    slices = {str(i): {"0": part} for i, part in enumerate(parts)}
    found = table.measured((), -1, code, study={"slices": slices})
    assert (found.problem, found.expected_rows, found.missing, found.extra) == (None, 6, 1, 0)
    assert [s["key"]["id"] for s in found.samples["missing"]] == ["9"]


def test_a_version_that_cannot_be_read_is_a_problem(bare: Room, bare_session: Any, table: Table) -> None:
    table.write(row(1))
    assert "could not be compared" in (table.measured((), 7).problem or "")
    parquet = f"{table.name}_p"
    bare_session.sql(f"CREATE TABLE {parquet} USING parquet AS SELECT 1 AS id")
    found = Table(bare, bare_session, parquet).measured((), 0)
    assert found.problem == f"The table {parquet} is no Delta table, so it has no version 0."
    assert found.table_rows == 1


# ---- what could fool a comparison by what came


def partitioned(table: Table) -> None:
    table.sql(f"CREATE OR REPLACE TABLE {{t}} ({SCHEMA}) USING delta PARTITIONED BY (kind)")


def with_vectors(table: Table) -> None:
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")


def mapped(table: Table) -> None:
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')")


OLD = row(1), row(2, "a b/c=%"), row(None, None)  # type: ignore[arg-type]
NEW = row(2, "a b/c=%"), row(3), row(None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "after"),
    [(None, "OPTIMIZE {t}"), (partitioned, ""), (with_vectors, "OPTIMIZE {t}"), (mapped, "")],
    ids=["rewritten", "partitions", "rewritten with vectors", "mapped names"],
)
def test_a_key_of_an_old_file_in_a_new_one_is_found_wherever_rows_lie(
    bare: Room, table: Table, made: Callable[[Table], None] | None, after: str
) -> None:
    if made:
        made(table)
    since = table.write(*OLD)
    uri = bare.put("a/2.json", *NEW)
    table.write(*NEW)
    if after:
        table.sql(after)
    found = table.measured((uri,), since, key=("id",))
    assert (found.problem, found.missing, found.extra, found.vanished) == (None, 0, 0, 0)
    assert (found.keys_twice, found.new_repeats, found.repeats_added, found.held_before) == (2, 2, 2, 2)
    assert (found.old_rows, found.new_rows, found.listed_rows, found.table_rows) == (3, 3, 6, 6)


def test_a_row_deleted_by_a_vector_has_vanished(bare: Room, table: Table) -> None:
    with_vectors(table)
    since = table.write(*OLD)
    uri = bare.put("a/2.json", row(3))
    table.write(row(3))
    table.sql("DELETE FROM {t} WHERE id = 1")
    found = table.measured((uri,), since, key=("id",))
    assert (found.vanished, found.missing, found.extra, found.old_rows) == (1, 0, 0, 3)


def test_other_rows_in_files_that_are_called_rewritten_are_seen(bare: Room, table: Table) -> None:
    since = table.write(row(1), row(2))
    frame = table.session.createDataFrame([tuple(row(n).values()) for n in (1, 7)], SCHEMA)
    frame.write.format("delta").mode("overwrite").option("dataChange", "false").saveAsTable(table.name)
    found = table.measured((), since, key=("id",))
    assert (found.vanished, found.extra) == (1, 1)
    study = bare.request(SIMPLE, sets={"new": ()})
    asked = MeasureRequest(bare.answers, table.name, (), (), study, old_version=since, key=("id",))
    asked = replace(asked, since=evidence.came_since(table.place, since), budgets=Budgets(versions=Limit(0)))
    bounded = measure(asked)
    assert (bounded.vanished, bounded.old_rows, bounded.problem is None) == (None, None, False)
    assert [one.by for one in bounded.bounded] == [BoundedBy.REWRITTEN]


def test_a_key_that_was_renamed_is_not_taken_for_one_that_the_old_rows_lack(bare: Room, table: Table) -> None:
    mapped(table)
    since = table.write(row(1))
    table.sql("ALTER TABLE {t} RENAME COLUMN id TO number")
    table.sql("INSERT INTO {t} VALUES (1, 'x', 1.0)")
    uri = bare.put("a/2.json", row(1))
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").withColumnRenamed("id", "number")')
    found = table.measured((uri,), since, code, key=("number",))
    assert not (found.missing == found.extra == found.vanished == found.new_repeats == 0)


def test_budgets_bound_what_is_asked_of_the_old_rows_and_nothing_of_the_new(bare: Room, table: Table) -> None:
    since = table.write(*OLD)
    uri = bare.put("a/2.json", *NEW)
    table.write(*NEW)
    study = bare.request(SIMPLE, sets={"new": (uri,)}, table=table.name, key=("id",))
    asked = MeasureRequest(bare.answers, table.name, (), (), study, old_version=since, key=("id",))
    asked = replace(asked, since=evidence.came_since(table.place, since))
    ungrouped = measure(replace(asked, budgets=Budgets(grouping=Limit(0))))
    assert (ungrouped.new_repeats, ungrouped.repeats_added, ungrouped.missing, ungrouped.extra) == (
        2,
        2,
        0,
        0,
    )
    assert (ungrouped.table_keys, ungrouped.duplicates_in_table, ungrouped.duplicates_before) == (
        None,
        None,
        None,
    )
    unasked = measure(replace(asked, budgets=Budgets(Limit(0), Limit(0))))
    assert (unasked.new_repeats, unasked.repeats_added, unasked.held_before) == (None, None, None)
    assert (unasked.missing, unasked.extra, unasked.old_rows, unasked.new_rows) == (0, 0, 3, 3)
    told = [[one.by for one in found.bounded] for found in (ungrouped, unasked)]
    assert told == [[BoundedBy.GROUPING], [BoundedBy.LOOKUP, BoundedBy.GROUPING]]
    sealed = bare.study(
        SIMPLE, sets={"waiting": (uri,)}, table=table.name, key=("id",), budgets=Budgets(Limit(0))
    )
    assert (sealed.problem, sealed.rows, sealed.table_rows) == (None, {"waiting": 3}, 6)
    assert (sealed.repeats, sealed.fresh, [one.by for one in sealed.bounded]) == ({}, {}, [BoundedBy.LOOKUP])


def test_what_takes_too_long_is_ended(bare_session: Any) -> None:
    limit = Limit(seconds=0.5)
    with pytest.raises(lookups.OverBudget) as caught, lookups.limited(bare_session, limit, BoundedBy.LOOKUP):
        bare_session.range(10**15).selectExpr("sum(hash(id))").collect()
    assert caught.value.bounded.seconds == 0
    assert bare_session.range(3).count() == 3


def test_equal_keys_of_every_type_are_found_by_their_hashes(bare_session: Any) -> None:
    """NULL, both zeros, NaN, and types of two sides that differ."""
    values = {
        "double": ["0.0", "-0.0", "'NaN'", "NULL", "1.5"],
        "decimal(10,2)": ["0", "1.50", "NULL"],
        "string": ["''", "'a'", "'ä'", "NULL"],
        "date": ["'2026-01-01'", "NULL"],
        "bigint": ["-1", "7", "NULL"],
        "timestamp": ["'2026-01-01 00:00:00'", "NULL"],
        "array<string>": ["array('a', NULL)", "NULL"],
        "boolean": ["true", "NULL"],
    }
    for of, some in values.items():
        rows = bare_session.sql(" UNION ALL ".join(f"SELECT CAST({v} AS {of}) AS k0" for v in some))
        for value in some:
            keys = bare_session.sql(f"SELECT CAST({value} AS {of}) AS k0")
            hits = lookups.occurring(rows, keys, ["k0"])
            equal = rows.join(keys, rows.k0.eqNullSafe(keys.k0), "left_semi")
            assert equal.exceptAll(hits).count() == 0, (of, value)


LOWER = "SELECT n COLLATE UTF8_LCASE AS v FROM VALUES {} AS t(n)"
DIFFER = {
    "letters of a collation": (
        LOWER.format("('Alice'), ('ALICE')"),
        LOWER.format("('ALICE'), ('ALICE')"),
        (1, 1),
    ),
    "spaces of a collation": (
        "SELECT 'a ' COLLATE UTF8_BINARY_RTRIM v",
        "SELECT 'a' COLLATE UTF8_BINARY_RTRIM v",
        (1, 1),
    ),
    "a collation within": (
        "SELECT map('k', array('a' COLLATE UTF8_LCASE)) v",
        "SELECT map('k', array('A' COLLATE UTF8_LCASE)) v",
        (1, 1),
    ),
    "fields of a struct": (
        "SELECT named_struct('lat', 1, 'lon', 2) v",
        "SELECT named_struct('lon', 1, 'lat', 2) v",
        (1, 1),
    ),
    "the same fields in another order": (
        "SELECT named_struct('lat', 1, 'lon', 2) v UNION ALL SELECT NULL",
        "SELECT named_struct('lon', 2L, 'lat', 1) v UNION ALL SELECT NULL",
        (0, 0),
    ),
    "the same fields in another order within": (
        "SELECT map('k', array(named_struct('lat', 1, 'lon', 2))) v",
        "SELECT map('k', array(named_struct('lon', 2, 'lat', 1))) v",
        (0, 0),
    ),
    "what a write into whole numbers cut": ("SELECT 1.5BD v", "SELECT 1 v", (1, 1)),
    "what a write into shorter numbers kept": ("SELECT 7L v", "SELECT 7 v", (0, 0)),
    "a number as text": ("SELECT 7 v", "SELECT '007' v", (1, 1)),
    "a number spelled as the write does": ("SELECT 7 v", "SELECT '7' v", (0, 0)),
}
NOT_COMPARED = {
    "whole and floating numbers": ("SELECT 9007199254740993L v", "SELECT 9007199254740992D v"),
    "decimals beyond one": (
        "SELECT CAST(1.23456789 AS DECIMAL(38,10)) v",
        "SELECT CAST(1.23 AS DECIMAL(38,2)) v",
    ),
    "text in numbers": ("SELECT '007' v", "SELECT 7 v"),
    "times without a zone": (
        "SELECT TIMESTAMP'2026-01-01 00:00:00' v",
        "SELECT TIMESTAMP_NTZ'2026-01-01 00:00:00' v",
    ),
    "a field that the table lacks": (
        "SELECT named_struct('a', 1, 'b', 2) v",
        "SELECT named_struct('a', 1) v",
    ),
}


def asked(session: Any, expected: str, found: str, old: str | None = None, **more: Any) -> Measure:
    apart = more.get("apart") or counting.ComparedColumns.by(["v"])
    before = None if old is None else session.sql(old)
    sides = session.sql(expected), session.sql(found)
    out = counting.compare(session, before, *sides, apart, 5, Budgets())
    assert not out.bounded
    if before is not None:
        whole = counting.compare_versions(before, sides[0], sides[1].unionAll(before), apart, 5)
        both = {name for name, value in asdict(out).items() if value is not None}
        assert {name: asdict(whole)[name] for name in both} == {name: asdict(out)[name] for name in both}
    return out


@pytest.mark.parametrize(("expected", "found", "differ"), DIFFER.values(), ids=DIFFER.keys())
def test_values_are_equal_where_they_are_the_same(
    bare_session: Any, expected: str, found: str, differ: tuple[int, int]
) -> None:
    out = asked(bare_session, expected, found)
    assert (out.missing, out.extra) == differ


@pytest.mark.parametrize(("expected", "found"), NOT_COMPARED.values(), ids=NOT_COMPARED.keys())
def test_types_that_no_rule_brings_together_are_not_compared(
    bare_session: Any, expected: str, found: str
) -> None:
    with pytest.raises(counting.NotComparable) as refused:
        asked(bare_session, expected, found)
    assert refused.value.column == "v"


@pytest.mark.parametrize(("by_collation", "repeats"), [(False, 0), (True, 1)])
def test_a_key_goes_by_its_collation_where_drop_duplicates_does(
    bare_session: Any, by_collation: bool, repeats: int
) -> None:
    """'ALICE' of before is the key 'Alice' for dropDuplicates alone; other columns go by their bytes all the same."""
    row = "SELECT '{}' COLLATE UTF8_LCASE AS v, '{}' COLLATE UTF8_LCASE AS w"
    for apart in (
        counting.ComparedColumns(["v", "w"], ["v"], by_collation),
        counting.ComparedColumns.by(["v"], by_collation=by_collation),
    ):
        new, old = row.format("Alice", "x"), row.format("ALICE", "x")
        out = asked(bare_session, new, new, old, apart=apart)
        assert (out.missing, out.extra, out.repeats_added) == (0, 0, repeats)
        assert out.duplicates_in_table == repeats
    whole = counting.ComparedColumns(["v", "w"], ["v"], by_collation)
    out = asked(bare_session, row.format("a", "x"), row.format("a", "X"), row.format("b", "x"), apart=whole)
    assert (out.missing, out.extra) == (1, 1)


def test_columns_that_differ_in_case_alone_are_compared_each(bare_session: Any) -> None:
    bare_session.conf.set("spark.sql.caseSensitive", "true")
    try:
        apart = counting.ComparedColumns(["id", "ID"], ["id"])
        out = asked(bare_session, "SELECT 1 id, 5 ID", "SELECT 2 id, 5 ID", "SELECT 1 id, 7 ID", apart=apart)
    finally:
        bare_session.conf.unset("spark.sql.caseSensitive")
    assert (out.missing, out.extra, out.repeats_added) == (1, 1, 0)


def test_a_table_with_narrower_and_padded_columns_is_compared_as_the_write_fills_it(
    bare: Room, table: Table
) -> None:
    columns = "id SMALLINT, kind CHAR(4), amount FLOAT, at STRUCT<lon: INT, lat: INT>"
    table.session.sql(f"DROP TABLE {table.name}")
    table.session.sql(f"CREATE TABLE {table.name} ({columns}) USING delta")
    since = table.version()
    uri = bare.put("a/1.json", *({**row(n, "x", 0.5), "at": {"lat": 1, "lon": n}} for n in (1, 2)))
    table.sql("INSERT INTO {t} SELECT 1, 'x', 0.5, named_struct('lon', 1, 'lat', 1)")
    code = SIMPLE.replace(SCHEMA, f"{SCHEMA}, at struct<lat: int, lon: int>")
    found = table.measured((uri,), since, code, study={})
    assert (found.problem, found.missing, found.extra) == (None, 1, 0)
    table.sql("INSERT INTO {t} SELECT 2, 'x', 0.5, named_struct('lon', 2, 'lat', 1)")
    found = table.measured((uri,), since, code)
    assert (found.problem, found.missing, found.extra) == (None, 0, 0)


def test_a_table_of_another_type_is_counted_and_not_compared(bare: Room, table: Table) -> None:
    since = table.write(row(1))
    uri = bare.put("a/2.json", row(2))
    table.write(row(2))
    code = SIMPLE.replace("amount double", "amount bigint")
    found = table.measured((uri,), since, code)
    assert (found.problem_code, found.missing, found.extra) == (TYPES_DIFFER, None, None)
    assert all(word in (found.problem or "") for word in ("amount", "bigint", "double"))
    assert (found.table_rows, found.old_rows, found.new_rows) == (2, 1, 1)
    sealed = bare.study(code, sets={"waiting": (uri,)}, table=table.name, key=("amount",))
    assert (sealed.problem, sealed.rows, sealed.repeats, sealed.fresh) == (None, {"waiting": 1}, {}, {})
