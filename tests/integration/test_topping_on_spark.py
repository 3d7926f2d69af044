"""Rows that a Delta table lacks are counted, added and measured by Spark: by value and once."""

from dataclasses import dataclass
from typing import Any

import pytest

from recovery.spark.api import Measure, MeasureRequest, measure
from recovery.spark.backups import BackupRefusal, CommittedComparison, CorrectionRequest, FillAnswer, top_up
from tests.integration.spark_room import SCHEMA, SIMPLE, Room, row

pytestmark = pytest.mark.spark

DEDUPED = f"""
@dp.table
def t():
    return spark.readStream.schema("{SCHEMA}").json("IN/a").dropDuplicates(["id"])
"""
FILTERED_AFTER = DEDUPED.replace('["id"])', '["id"]).where("amount > 0")')
CHANGED_AFTER = DEDUPED.replace('["id"])', '["id"]).withColumnRenamed("kind", "kind")')
UPPER = SIMPLE.replace('.json("IN/a")', '.json("IN/a").withColumnRenamed("id", "ID")')


@dataclass
class Held:
    """A Delta table, and the input of the code that writes it."""

    bare: Room
    session: Any
    name: str

    def write(self, *rows: dict[str, Any]) -> int:
        """The version after it."""
        frame = self.session.createDataFrame([tuple(r.values()) for r in rows], SCHEMA)
        frame.write.format("delta").mode("append").saveAsTable(self.name)
        return self.version()

    def sql(self, text: str) -> int:
        self.session.sql(text.replace("{t}", self.name)).collect()
        return self.version()

    def version(self) -> int:
        return int(self.session.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").collect()[0].version)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((tuple(r) for r in self.session.read.table(self.name).collect()), key=str)

    @property
    def place(self) -> str:
        return str(self.session.sql(f"DESCRIBE DETAIL {self.name}").collect()[0].location)

    def counted(
        self, code: str, *uris: str, key: tuple[str, ...] | None = ("id",)
    ) -> CommittedComparison | None:
        asked = self.bare.look(
            code, sets={"processed": uris}, table=self.name, key=key, committed="processed"
        )
        assert asked.problem is None, asked.problem
        return asked.committed

    def add(self, code: str, *uris: str, rows: int, before: int, app: str = "app") -> FillAnswer:
        study = self.bare.request(code, sets={"processed": uris})
        return top_up(
            CorrectionRequest(self.bare.answers, self.name, self.place, before, study, ("id",), app, rows)
        )

    def measured(self, code: str, *uris: str, before: int, whole_rows: bool = True) -> Measure:
        study = self.bare.request(code, sets={"processed": uris})
        return measure(
            MeasureRequest(
                self.bare.answers, self.name, (), (), study,
                old_version=before, key=("id",), topped=True, whole_rows=whole_rows,
            )
        )  # fmt: skip


@pytest.fixture
def held(bare: Room, bare_session: Any) -> Held:
    name = f"spark_catalog.default.topped_{abs(hash(bare.folder)) % 10**8}"
    bare_session.sql(f"CREATE TABLE {name} ({SCHEMA}) USING delta").collect()
    return Held(bare, bare_session, name)


NULL = {**row(1), "id": None, "kind": "null"}
OTHER = {**row(1), "kind": "other"}
COUNTS: dict[str, tuple[str, tuple[dict[str, Any], ...], tuple[dict[str, Any], ...], CommittedComparison]] = {
    "nothing is missing": (SIMPLE, (row(1), row(2)), (row(1), row(2)), CommittedComparison(rows=2)),
    "a row is missing, and a key that is NULL": (
        SIMPLE,
        (row(1), row(2), NULL),
        (row(1),),
        CommittedComparison(rows=3, absent=2, absent_keys=2),
    ),
    "a missing key is there twice in the input": (
        SIMPLE,
        (row(1), row(2), row(2)),
        (row(1),),
        CommittedComparison(rows=3, absent=2, absent_keys=1),
    ),
    "one of two rows of a key is missing": (
        SIMPLE,
        (row(1), OTHER),
        (row(1),),
        CommittedComparison(rows=2, short=1),
    ),
    "the input repeats a key, and the table too": (
        SIMPLE,
        (row(1), OTHER, row(2)),
        (row(1), OTHER),
        CommittedComparison(rows=3, absent=1, absent_keys=1),
    ),
    "the table has a key too often": (
        SIMPLE,
        (row(1), row(2)),
        (row(1), row(1)),
        CommittedComparison(rows=2, absent=1, absent_keys=1, extra=1, extra_keys=1, differing=0),
    ),
    "a row of the table comes from no input": (
        SIMPLE,
        (row(1),),
        (row(3),),
        CommittedComparison(rows=1, absent=1, absent_keys=1, beyond=1),
    ),
    "a repeat that dropDuplicates takes away is no missing row": (
        DEDUPED,
        (row(1), OTHER),
        (row(1),),
        CommittedComparison(rows=1),
    ),
    "equal repeats of a missing key are one row": (
        DEDUPED,
        (row(1), row(2), row(2)),
        (row(1),),
        CommittedComparison(rows=2, absent=1, absent_keys=1),
    ),
    "repeats of a missing key that differ are not settled": (
        DEDUPED,
        (row(1), OTHER),
        (row(3),),
        CommittedComparison(rows=1, absent=1, absent_keys=1, beyond=1, unsettled=1),
    ),
    "columns that are only renamed after dropDuplicates change nothing": (
        CHANGED_AFTER,
        (row(1), row(2)),
        (row(1),),
        CommittedComparison(rows=2, absent=1, absent_keys=1),
    ),
    "what a filter takes away after dropDuplicates cannot be told": (
        FILTERED_AFTER,
        (row(1), row(2)),
        (row(1),),
        CommittedComparison(rows=2, absent=1, absent_keys=1, unsettled=None),
    ),
    "the key has other letters in the code": (
        UPPER,
        (row(1), row(2)),
        (row(1),),
        CommittedComparison(rows=2, absent=1, absent_keys=1),
    ),
}


@pytest.mark.parametrize("case", COUNTS)
def test_missing_rows_are_counted_by_key_as_often_as_the_code_yields_them(held: Held, case: str) -> None:
    code, read, there, expected = COUNTS[case]
    uri = held.bare.put("a/1.json", *read)
    held.write(*there)
    assert held.counted(code, uri) == expected


def test_columns_that_do_not_fit_and_texts_with_a_collation_are_named_and_not_counted(held: Held) -> None:
    uri = held.bare.put("a/1.json", row(1))
    held.sql("ALTER TABLE {t} ADD COLUMN more int")
    assert held.counted(SIMPLE, uri) == CommittedComparison(unfit=("more",))
    by_letters = SIMPLE.replace("kind string", "kind string COLLATE UTF8_LCASE")
    assert held.counted(by_letters, uri, key=("kind",)) == CommittedComparison(collated=("kind",))


def test_each_missing_row_is_added_once_and_a_second_time_not_at_all(held: Held) -> None:
    uri = held.bare.put("a/1.json", row(1), row(2), NULL)
    before = held.write({**row(1), "kind": "as it was"})

    assert held.add(SIMPLE, uri, rows=2, before=before).rows == 2

    found, version = held.rows(), held.version()
    assert {(r[0], r[1]) for r in found} == {(1, "as it was"), (2, "x"), (None, "null")}
    assert (len(found), version) == (3, before + 1)
    held.add(SIMPLE, uri, rows=2, before=before)
    assert (held.version(), held.rows()) == (version, found)
    assert held.add(SIMPLE, uri, rows=0, before=version, app="another").rows == 0
    assert held.version() == version


def test_nothing_is_added_where_other_rows_lack_than_were_planned_or_the_code_does_not_run(
    held: Held,
) -> None:
    uri = held.bare.put("a/1.json", row(1), row(2))
    before = held.write(row(1))
    assert held.add(SIMPLE, uri, rows=2, before=before).refused is BackupRefusal.OTHER_ROWS
    assert held.add("def broken(:", uri, rows=1, before=before).refused is BackupRefusal.UNREADABLE
    held.sql("ALTER TABLE {t} ADD COLUMN more int")
    told = held.add(SIMPLE, uri, rows=1, before=held.version())
    assert (told.refused, told.about, len(held.rows())) == (BackupRefusal.COLUMNS, ("more",), 1)


CHANGES = {
    "as added": ("", (0, 0), (0, 0)),
    "an added row is removed": ("DELETE FROM {t} WHERE id = 2", (1, 0), (1, 0)),
    "an added row is there twice": ("INSERT INTO {t} SELECT * FROM {t} WHERE id = 2", (0, 1), (0, 1)),
    "an added row is changed": ("UPDATE {t} SET kind = 'y' WHERE id = 2", (1, 1), (0, 0)),
    "a row of before is removed": ("DELETE FROM {t} WHERE id = 1", (0, 0), (1, 0)),
    "a row of before is there twice": ("INSERT INTO {t} SELECT * FROM {t} WHERE id = 1", (0, 1), (0, 1)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_measure_sees_each_change_of_a_topped_up_table(held: Held, change: str) -> None:
    """`missing` and `extra`: of the rows that were added in every column, and by key of the whole table."""
    statement, of_added, of_all = CHANGES[change]
    uri = held.bare.put("a/1.json", row(1), row(2))
    before = held.write(row(1))
    held.add(SIMPLE, uri, rows=1, before=before)
    if statement:
        held.sql(statement)

    found = held.measured(SIMPLE, uri, before=before)

    assert found.problem is None
    assert found.topped is not None
    assert (found.missing, found.extra) == of_added
    assert (found.topped.rows, found.topped.missing, found.topped.extra) == (2, *of_all)
