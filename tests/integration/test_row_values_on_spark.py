"""Rows that are identified by a key are compared in their other columns with every row that the code makes."""

from typing import Any

import pytest

from recovery.spark.api import RowValues
from tests.integration.spark_room import SCHEMA, SIMPLE, Room, Written, compared, row

pytestmark = pytest.mark.spark
FUNCTIONS = "from pyspark.sql import functions as F\n"
DEDUPED = SIMPLE.replace('json("IN/a")', 'json("IN/a").dropDuplicates(["id"])')
EARLY = SIMPLE.replace(
    'json("IN/a")',
    'json("IN/a").withColumn("at", F.timestamp_seconds("id")).withWatermark("at", "1 minute").drop("at")'
    '.dropDuplicates(["id"])',
)
UNSURE = """
import random
import uuid

def chance(number):
    return random.random()
"""


def with_amount(code: str, amount: str) -> str:
    """The same code with another value in the column amount."""
    return FUNCTIONS + code.replace('json("IN/a")', f'json("IN/a").withColumn("amount", {amount})')


CASES: list[tuple[str, str, RowValues]] = [
    ("any of the rows with one key", DEDUPED, RowValues(rows=0)),
    ("another value", with_amount(DEDUPED, 'F.col("amount") * 2'), RowValues(rows=1, differing=("amount",))),
    ("another value in every row", with_amount(DEDUPED, 'F.lit(7.0)'),
     RowValues(rows=2, differing=("amount",), rests_on_more=True)),
    ("a value of each run", with_amount(DEDUPED, "F.rand()"),
     RowValues(rows=0, left_out=("amount",))),
    ("a value of each run that no plan shows", UNSURE + with_amount(DEDUPED, "F.lit(random.random())"),
     RowValues(rows=0, left_out=("amount",))),
    ("a value of each run by a function of Python",
     UNSURE + with_amount(DEDUPED, 'F.udf(chance, "double")("id")'),
     RowValues(rows=0, left_out=("amount",))),
    ("another value by a function of Python",
     with_amount(DEDUPED, 'F.udf(lambda x: -1.0, "double")("id")'),
     RowValues(rows=2, differing=("amount",), rests_on_more=True)),
    ("a table beside it without repeats, too", with_amount(DEDUPED, 'F.col("amount") * 2').replace(
        '.dropDuplicates(["id"])', '.join(spark.range(9).dropDuplicates(["id"]), "id").dropDuplicates(["id"])'),
     RowValues()),
    ("a value of each run beside an exploded one", with_amount(DEDUPED, 'F.rand()').replace(
        ".drop", '.withColumn("kind", F.explode(F.array(F.lit("z")))).drop'),
     RowValues(rows=2, differing=("kind",), left_out=("amount",), rests_on_more=True)),
    ("a column of the table that is null", with_amount(DEDUPED, 'F.col("amount")').replace(
        ".drop", '.withColumn("gone", F.lit(None).cast("string")).drop'),
     RowValues(rows=0, left_out=("gone",))),
    ("a column of another type",
     with_amount(DEDUPED, 'F.struct(F.col("amount"))'), RowValues(rows=0, other_types=("amount",))),
    ("a column that the table does not have",
     FUNCTIONS + DEDUPED.replace('json("IN/a")', 'json("IN/a").withColumn("day", F.lit(1))'),
     RowValues(absent=("day",))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "values"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_values_of_rows_with_a_key(room: Room, written: Written, code: str, values: RowValues) -> None:
    uri = room.put("a/1.json", row(1, amount=1.5), row(2, amount=None))
    new = written.run()
    again = room.put("a/2.json", row(1, amount=9.0))
    found: Any = compared(room, written, (uri, again), (), new, code, key=("id",))
    assert found.values == values


@pytest.mark.parametrize(
    ("kinds", "code", "values"),
    [
        (("placed", "paid"), SIMPLE, RowValues(rows=0)),
        (("placed", "placed"), SIMPLE, RowValues(rows=1)),
        (("placed",), DEDUPED, RowValues(rows=0)),
    ],
    ids=["as the code makes them", "twice the same", "the choice of dropDuplicates"],
)
def test_a_row_stands_for_no_other_row_of_its_key(
    room: Room, written: Written, kinds: tuple[str, ...], code: str, values: RowValues
) -> None:
    room.put("a/1.json", *[row(1, kind) for kind in kinds])
    new = written.run()
    uri = room.put("a/1.json", row(1, "placed"), row(1, "paid"))
    found: Any = compared(room, written, (uri,), (), new, code, key=("id",))
    assert (found.problem, found.missing, found.extra) == (None, 0, 0)
    assert found.values == values


def test_rows_that_a_rehearsal_expects_are_compared_with_late_rows_too(room: Room, written: Written) -> None:
    uri = room.put("a/1.json", row(1, amount=1.5), row(2, amount=None))
    new = written.run()
    rehearsed = str(room.folder / "rehearsed")
    written.connect.read.schema(SCHEMA).json(uri).write.parquet(rehearsed)
    for code, values in (
        (EARLY, RowValues(rows=0)),
        (
            EARLY.replace("drop(", 'withColumn("amount", F.lit(7.0)).drop('),
            RowValues(2, ("amount",), rests_on_more=True),
        ),
    ):
        found = compared(room, written, (uri,), (), new, FUNCTIONS + code, key=("id",), expected=rehearsed)
        assert (found.problem, found.missing, found.extra) == (None, 0, 0)
        assert found.values == values


def test_maps_are_compared_too(room: Room, written: Written) -> None:
    written.schema = "id int, m map<string, int>"
    code = SIMPLE.replace(SCHEMA, written.schema).replace(
        'json("IN/a")', 'json("IN/a"){}.dropDuplicates(["id"])'
    )
    uri = room.put("a/1.json", {"id": 1, "m": {"x": 1, "y": 2}}, {"id": 2, "m": None})
    new = written.run()
    same = compared(room, written, (uri,), (), new, FUNCTIONS + code.format(""), key=("id",))
    assert same.values == RowValues(rows=0)
    change = '.withColumn("m", F.transform_values("m", lambda k, v: v + F.col("id")))'
    other = compared(room, written, (uri,), (), new, FUNCTIONS + code.format(change), key=("id",))
    assert (other.values.rows, other.values.differing) == (1, ("m",))
