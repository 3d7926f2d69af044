"""A partition of text whose folders look like numbers or days is compared as the text that the code wrote."""

from pathlib import Path
from typing import Any

import pytest

from recovery.spark.api import MeasureRequest, measure
from recovery.spark.programs_words import CHECKPOINT, ENGINE, PLAIN
from tests.integration.spark_room import SCHEMA, Room, row

pytestmark = pytest.mark.spark
PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("{schema}").json("IN/a")
rows.writeStream.option("checkpointLocation", "/checkpoints/c").partitionBy("kind").start("{table}")
"""
SETTINGS = {ENGINE: PLAIN, CHECKPOINT: "/checkpoints/c"}


def data_files(table: str) -> set[str]:
    return {f"file://{file}" for file in Path(table).rglob("*.parquet")}


def append(spark: Any, table: str, number: int, kind: str) -> None:
    rows = spark.createDataFrame([(number, kind, 1.0)], SCHEMA)
    rows.write.mode("append").partitionBy("kind").parquet(table)


@pytest.mark.parametrize(
    ("before", "expected", "written", "missing"),
    [
        ("07", "08", "08", 0),
        ("07", "08", "8", 1),
        ("2026-11-27", "2026-11-28", "2026-11-28", 0),
        ("a", "", "", 0),
        ("a", "", "b", 1),
    ],
    ids=["hours", "another hour", "days", "an empty text", "another text than an empty one"],
)
def test_new_rows(
    before: str, expected: str, written: str, missing: int, bare: Room, bare_session: Any, tmp_path: Path
) -> None:
    table = f"{tmp_path}/by kind"
    append(bare_session, table, 1, before)
    old = data_files(table)
    append(bare_session, table, 2, written)
    given = bare.put("a/2.json", row(2, expected))
    code = PROGRAM.format(schema=SCHEMA, table=table)
    asked = bare.request(code, configuration=SETTINGS, sets={"new": (given,)})
    new = tuple(data_files(table) - old)
    found = measure(MeasureRequest(bare.answers, f"parquet.`{table}`", tuple(old), new, asked))
    assert (found.problem, found.table_rows, found.new_rows) == (None, 2, 1)
    assert (found.missing, found.extra) == (missing, missing)


def test_keys_that_the_table_has_already(bare: Room, bare_session: Any, tmp_path: Path) -> None:
    table = f"{tmp_path}/by kind"
    append(bare_session, table, 1, "07")
    given = bare.put("a/2.json", row(1, "07"), row(1, "7"))
    study = bare.look(
        PROGRAM.format(schema=SCHEMA, table=table), configuration=SETTINGS, table=f"parquet.`{table}`",
        sets={"waiting": (given,)}, key=("kind",),
    )  # fmt: skip
    assert (study.problem, study.notes, study.rows["waiting"], study.repeats["waiting"]) == (None, (), 2, 1)
