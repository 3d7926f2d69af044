"""A Delta table is kept, filled back and put back by Spark: by value, once, and only where the rows fit."""

from dataclasses import dataclass
from typing import Any

import pytest

from recovery.spark.api import Measure, MeasureRequest, measure
from recovery.spark.backups import (
    BackupRefusal,
    FillRequest,
    FillToMeasure,
    KeepRequest,
    RestoreRequest,
    TableCopy,
    fill,
    keep,
    restore,
)
from tests.integration.spark_room import SCHEMA, SIMPLE, Room, row

pytestmark = pytest.mark.spark


@dataclass
class Held:
    """A Delta table, and a folder for copies of it."""

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

    def copy(self, name: str) -> str:
        return f"file:{self.bare.folder}/{name}"

    def keep(self, version: int, name: str = "rows", key: tuple[str, ...] = ("id",)) -> TableCopy:
        return keep(KeepRequest(self.bare.answers, self.name, version, self.copy(name), key))

    def fill(self, before: int, app_id: str = "app") -> Any:
        return fill(
            FillRequest(self.bare.answers, self.name, self.place, before, self.copy("rows"), ("id",), app_id)
        )


@pytest.fixture
def held(bare: Room, bare_session: Any) -> Held:
    name = f"spark_catalog.default.filled_{abs(hash(bare.folder)) % 10**8}"
    bare_session.sql(f"CREATE TABLE {name} ({SCHEMA}) USING delta").collect()
    return Held(bare, bare_session, name)


def test_a_key_that_the_table_lacks_is_filled_back_once_whatever_is_repeated(held: Held) -> None:
    """A key that is NULL too; rows whose key is there stay as they are; a second fill writes nothing."""
    null = {**row(1), "id": None, "kind": "null"}
    kept = held.keep(held.write(row(1), row(2), null))
    assert (kept.refused, kept.rows, kept.copied_rows) == (None, 3, 3)
    assert kept.digest == kept.copied_digest
    held.sql("TRUNCATE TABLE {t}")
    before = held.write({**row(2), "kind": "new"})

    assert held.fill(before).rows == 2

    found = held.rows()
    assert [(r[0], r[1]) for r in found if r[0] in (2, None)] == [(2, "new"), (None, "null")]
    assert len(found) == 3
    version = held.version()
    held.fill(before)
    assert (held.version(), held.rows()) == (version, found)


def test_two_rows_of_one_key_are_not_kept(held: Held) -> None:
    told = held.keep(held.write(row(1), {**row(1), "kind": "other"}))
    assert (told.refused, told.about) == (BackupRefusal.KEY_REPEATS, ("id",))


def test_rows_that_do_not_fit_the_columns_are_not_filled_back(held: Held) -> None:
    held.keep(held.write(row(1)))
    held.sql("TRUNCATE TABLE {t}")
    before = held.sql("ALTER TABLE {t} ADD COLUMN more int")
    told = held.fill(before)
    assert (told.refused, told.about, held.rows()) == (BackupRefusal.COLUMNS, ("more",), [])


def test_a_microsecond_or_an_empty_field_is_another_digest(held: Held) -> None:
    held.sql("ALTER TABLE {t} ADD COLUMN at timestamp")
    digests = set()
    for number, value in enumerate(
        ("TIMESTAMP'2026-01-01 00:00:00.000001'", "TIMESTAMP'2026-01-01'", "NULL")
    ):
        held.sql("TRUNCATE TABLE {t}")
        version = held.sql(f"INSERT INTO {{t}} VALUES (1, 'a', 1.0, {value})")  # noqa: S608
        digests.add(held.keep(version, f"copy-{number}").digest)
    assert len(digests) == 3


def test_a_table_is_put_back_to_the_rows_that_were_kept(held: Held) -> None:
    version = held.write(row(1), row(2))
    kept, rows = held.keep(version), held.rows()
    held.sql("TRUNCATE TABLE {t}")
    held.write(row(3))
    told = restore(RestoreRequest(held.bare.answers, held.name, held.place, version, kept.digest, "note"))
    assert (told.refused, told.problem, told.rows) == (None, None, 2)
    assert held.rows() == rows


def test_a_table_is_put_back_by_its_place_and_not_by_its_name_alone(held: Held) -> None:
    version, elsewhere = held.write(row(1)), f"{held.place}-moved"
    held.write(row(2))
    refused = restore(RestoreRequest(held.bare.answers, held.name, elsewhere, version))
    assert (refused.refused, len(held.rows())) == (BackupRefusal.ELSEWHERE, 2)
    back = restore(RestoreRequest(held.bare.answers, held.name, held.place, version))
    assert (back.refused, back.problem, back.rows, len(held.rows())) == (None, None, None, 1)


def measured(held: Held, uri: str, before: int) -> Measure:
    study = held.bare.request(SIMPLE, sets={"new": (uri,)})
    told = FillToMeasure(held.copy("rows"), before, held.version())
    return measure(
        MeasureRequest(held.bare.answers, held.name, (), (), study, old_version=-1, key=("id",), filled=told)
    )


CHANGES = {
    "as filled": ("", (0, 0), (0, 0)),
    "a filled row is removed": ("DELETE FROM {t} WHERE id = 1", (1, 0), (1, 0)),
    "a filled row is there twice": ("INSERT INTO {t} SELECT * FROM {t} WHERE id = 1", (0, 1), (0, 1)),
    "a filled row is changed": ("UPDATE {t} SET kind = 'y' WHERE id = 1", (0, 0), (1, 1)),
    "a row of the code is removed": ("DELETE FROM {t} WHERE id = 2", (1, 0), (0, 0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_measure_sees_each_change_of_a_filled_table(held: Held, change: str) -> None:
    """`missing` and `extra`: by key over all rows, and in every column of those that were filled back."""
    statement, over_all, of_filled = CHANGES[change]
    held.keep(held.write(row(1), row(2)))
    held.sql("TRUNCATE TABLE {t}")
    uri = held.bare.put("a/1.json", row(2))
    before = held.write(row(2))
    held.fill(before)
    if statement:
        held.sql(statement)
    found = measured(held, uri, before)
    assert found.problem is None
    assert found.filled is not None
    assert (found.missing, found.extra) == over_all
    assert (found.filled.missing, found.filled.extra) == of_filled
    assert (found.filled.due, found.filled.batch_rows, found.filled.backup_rows) == (1, 1, 2)
