"""Rows that a Delta table has too often are counted, deleted and measured by Spark: by value, in one commit, once."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recovery.sinks.live import delta
from recovery.spark.api import Measure, MeasureRequest, measure
from recovery.spark.backups import (
    BackupRefusal,
    CommittedComparison,
    CorrectionRequest,
    FillAnswer,
    delete_repeats,
)
from tests.integration.spark_room import SCHEMA, SIMPLE, Room, row
from tests.integration.test_topping_on_spark import DEDUPED, NULL, OTHER, Held

pytestmark = pytest.mark.spark


class Repeated(Held):
    """A Delta table that has rows too often."""

    @property
    def folder(self) -> Path:
        return Path(self.place.removeprefix("file:"))

    def delete(self, code: str, *uris: str, rows: int, before: int, app: str = "app") -> FillAnswer:
        study = self.bare.request(code, sets={"processed": uris})
        return delete_repeats(
            CorrectionRequest(self.bare.answers, self.name, self.place, before, study, ("id",), app, rows)
        )

    def measured_after(self, code: str, *uris: str, before: int) -> Measure:
        study = self.bare.request(code, sets={"processed": uris})
        asked = MeasureRequest(
            self.bare.answers, self.name, (), (), study, old_version=before, key=("id",), deduplicated=True
        )
        return measure(asked)

    def actions(self, version: int) -> list[dict[str, Any]]:
        log = self.folder / "_delta_log" / f"{version:020}.json"
        return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.fixture
def held(bare: Room, bare_session: Any) -> Repeated:
    name = f"spark_catalog.default.repeated_{abs(hash(bare.folder)) % 10**8}"
    bare_session.sql(f"CREATE TABLE {name} ({SCHEMA}) USING delta").collect()
    return Repeated(bare, bare_session, name)


COUNTS: dict[str, tuple[str, tuple[dict[str, Any], ...], tuple[dict[str, Any], ...], CommittedComparison]] = {
    "each row is there as often as the input yields it": (
        SIMPLE,
        (row(1), row(2), row(2)),
        (row(1), row(2), row(2)),
        CommittedComparison(rows=3),
    ),
    "equal rows too often, and a key that is NULL": (
        SIMPLE,
        (row(1), row(2), row(2), NULL),
        (row(1), row(1), row(2), row(2), row(2), NULL, NULL, NULL),
        CommittedComparison(rows=4, extra=4, extra_keys=3, differing=0),
    ),
    "rows of such a key differ": (
        SIMPLE,
        (row(1), row(2)),
        (row(1), OTHER, row(2), row(2)),
        CommittedComparison(rows=2, extra=2, extra_keys=2, differing=1),
    ),
    "rows of a key differ that is not there too often": (
        SIMPLE,
        (row(1), OTHER, row(2)),
        (row(1), OTHER, row(2), row(2)),
        CommittedComparison(rows=3, extra=1, extra_keys=1, differing=0),
    ),
    "dropDuplicates lets one of them through": (
        DEDUPED,
        (row(1), row(1), OTHER),
        (row(1), row(1)),
        CommittedComparison(rows=1, extra=1, extra_keys=1, differing=0),
    ),
    "rows of no input are not looked at": (
        SIMPLE,
        (row(1),),
        (row(1), row(7), row(7)),
        CommittedComparison(rows=1, beyond=2),
    ),
}


@pytest.mark.parametrize("case", COUNTS)
def test_repeats_are_counted_with_the_keys_whose_rows_differ(held: Repeated, case: str) -> None:
    code, read, there, expected = COUNTS[case]
    uri = held.bare.put("a/1.json", *read)
    held.write(*there)
    assert held.counted(code, uri) == expected


def test_repeats_are_deleted_in_one_commit(held: Repeated) -> None:
    """Within one data file, across several, and under a key that is NULL; nothing else is touched."""
    uri = held.bare.put("a/1.json", row(1), row(2), row(2), row(3), NULL)
    held.write(row(1), row(1), row(2), row(2), row(3), NULL)
    held.write(row(9), row(9))  # of no input
    before = held.write(row(1), row(2), NULL)
    stood = Counter(held.rows())

    assert held.delete(SIMPLE, uri, rows=4, before=before) == FillAnswer(rows=4)

    gone = stood - Counter(held.rows())
    assert not Counter(held.rows()) - stood, "no row came"
    assert Counter(r[0] for r in gone.elements()) == Counter({1: 2, 2: 1, None: 1})
    assert Counter(r[0] for r in held.rows()) == Counter({1: 1, 2: 2, 3: 1, None: 1, 9: 2})
    assert held.version() == before + 1, "one commit"
    assert delta.rows_deleted(str(held.folder), before + 1) == 4
    assert [c.apps for c in delta.commits_since(str(held.folder), before)] == [("app",)]
    assert delta.data_files_since(str(held.folder), before), "its log says that rows went"


def test_a_second_time_deletes_nothing(held: Repeated) -> None:
    uri = held.bare.put("a/1.json", row(1))
    before = held.write(row(1), row(1), row(1))
    held.delete(SIMPLE, uri, rows=2, before=before)
    assert held.delete(SIMPLE, uri, rows=2, before=before).refused is BackupRefusal.MOVED
    assert (held.version(), len(held.rows())) == (before + 1, 1)
    held.write(row(1))
    held.delete(SIMPLE, uri, rows=1, before=held.version())
    assert len(held.rows()) == 2, "under the same id Delta deletes once, whatever is asked"
    held.delete(SIMPLE, uri, rows=1, before=held.version(), app="another")
    assert len(held.rows()) == 1


@pytest.mark.parametrize("meanwhile", ["DELETE FROM {t}", "INSERT INTO {t} SELECT * FROM {t} LIMIT 1"])
def test_a_table_that_another_writer_changed_meanwhile_is_left_as_it_is(
    held: Repeated, meanwhile: str
) -> None:
    uri = held.bare.put("a/1.json", row(1))
    before = held.write(row(1), row(1))
    moved, stood = held.sql(meanwhile), held.rows()
    assert held.delete(SIMPLE, uri, rows=1, before=before).refused is BackupRefusal.MOVED
    assert (held.version(), held.rows()) == (moved, stood)


def test_nothing_is_deleted_where_it_is_not_as_planned_or_not_allowed(held: Repeated) -> None:
    uri = held.bare.put("a/1.json", row(1), row(2))
    before = held.write(row(1), row(1), row(2))
    assert held.delete(SIMPLE, uri, rows=2, before=before).refused is BackupRefusal.OTHER_ROWS
    assert held.delete("def broken(:", uri, rows=1, before=before).refused is BackupRefusal.UNREADABLE
    differs = held.write({**row(2), "kind": "other"})
    assert held.delete(SIMPLE, uri, rows=2, before=differs).refused is BackupRefusal.DIFFERS
    assert held.version() == differs
    held.sql("DELETE FROM {t} WHERE kind = 'other'")
    closed = held.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    assert held.delete(SIMPLE, uri, rows=1, before=closed).refused is BackupRefusal.APPEND_ONLY
    assert (held.version(), len(held.rows())) == (closed, 3)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_it_is_one_commit_with_and_without_deletion_vectors(held: Repeated, vectors: str) -> None:
    held.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    uri = held.bare.put("a/1.json", *(row(n) for n in range(20)))
    held.write(*(row(n) for n in range(20)))
    before = held.write(*(row(n) for n in range(0, 20, 3)))
    assert held.delete(SIMPLE, uri, rows=7, before=before).refused is None
    assert Counter(r[0] for r in held.rows()) == Counter(range(20))
    assert held.version() == before + 1
    again = held.write(row(4), row(4))
    assert held.delete(SIMPLE, uri, rows=2, before=again, app="again").refused is None
    assert Counter(r[0] for r in held.rows()) == Counter(range(20))


CHANGES = {
    "as deleted": ("", (0, 0), (2, 0, 0)),
    "one more row is deleted, and none of it is left": ("DELETE FROM {t} WHERE id = 2", (1, 0), (3, 0, 1)),
    "a row is there twice again": ("INSERT INTO {t} SELECT * FROM {t} WHERE id = 1", (0, 1), (1, 0, 0)),
    "a row that stays is changed": ("UPDATE {t} SET kind = 'y' WHERE id = 2", (0, 0), (3, 1, 1)),
    "a new row came": ("INSERT INTO {t} VALUES (8, 'x', 1.0)", (0, 0), (2, 1, 0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_measure_sees_each_change_of_a_deduplicated_table(held: Repeated, change: str) -> None:
    """`missing` and `extra` by key beside the input; deleted, added and vanished of the versions before and after."""
    statement, of_all, of_versions = CHANGES[change]
    uri = held.bare.put("a/1.json", row(1), row(2))
    before = held.write(row(1), row(1), row(1), row(2))
    held.delete(SIMPLE, uri, rows=2, before=before)
    if statement:
        held.sql(statement)

    measured = held.measured_after(SIMPLE, uri, before=before)

    assert measured.problem is None
    assert measured.topped is not None
    assert measured.deleted is not None
    assert (measured.topped.rows, measured.topped.missing, measured.topped.extra) == (2, *of_all)
    assert (measured.deleted.deleted, measured.deleted.added, measured.deleted.vanished) == of_versions
    assert (measured.old_rows, measured.duplicates_before) == (4, 2)


def test_columns_that_no_row_compares_and_names_that_are_quoted_come_through_unchanged(
    bare: Room, bare_session: Any
) -> None:
    """Maps, parts of rows, NULL, NaN, a time and letters of another spelling."""
    name = f"spark_catalog.default.kinds_{abs(hash(bare.folder)) % 10**8}"
    columns = "id int, `a-b` map<string,int>, s struct<x: array<int>, y: double>, t timestamp, Up string"
    code = f"""
    @dp.table
    def t():
        return spark.readStream.schema("{columns}").json("IN/a")
    """
    bare_session.sql(f"CREATE TABLE {name} ({columns}) USING delta").collect()
    held = Repeated(bare, bare_session, name)
    uri = bare.put("a/1.json", '{"id": 1}', '{"id": 2}')
    values = (
        "map('k', 1, 'l', null), struct(array(1, null), double('NaN')), timestamp'2026-11-26 01:02:03.000004'"
    )
    for key in (1, 1, 2, 1):
        before = held.sql(f"INSERT INTO {{t}} SELECT {key}, {values}, 'É'")
    stood = {str(r) for r in held.rows()}
    assert held.counted(code, uri) == CommittedComparison(rows=2, extra=2, extra_keys=1, differing=0)

    assert held.delete(code, uri, rows=2, before=before) == FillAnswer(rows=2)

    assert {str(r) for r in held.rows()} == stood
    assert Counter(r[0] for r in held.rows()) == Counter((1, 2))
    measured = held.measured_after(code, uri, before=before)
    assert measured.deleted is not None
    assert (measured.deleted.deleted, measured.deleted.added, measured.deleted.vanished) == (2, 0, 0)
