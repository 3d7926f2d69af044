"""A study of a program says whether its files fit those of the table."""

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.contracts.measured import TableMisfit
from recovery.spark.programs_words import CHECKPOINT, ENGINE, PLAIN
from tests.integration.spark_room import SCHEMA, Room, Written

pytestmark = pytest.mark.spark
PROGRAM = """
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("{schema}").json("IN/a"){change}
rows.writeStream.format("{kind}").option("checkpointLocation", "/checkpoints/c"){write}.start("{table}")
"""
SAME = ""
CASES = [
    ("the same", SAME, "", (), None),
    ("a further column", '.withColumn("more", F.lit(1))', "", (), None),
    ("another type", '.withColumn("amount", F.col("amount").cast("string"))', "", (),
     TableMisfit(columns=("amount",))),
    ("another format", SAME, '.format("csv")', (), TableMisfit(kinds=("KIND", "csv"))),
    ("a retention", SAME, '.option("retention", "1s")', (), TableMisfit(retention="1s")),
    ("partitions", SAME, '.partitionBy("kind")', (), TableMisfit(after=("kind",))),
    ("as an argument", SAME, "ARGUMENT", (), TableMisfit(after=("kind",))),
    ("the same partitions", SAME, '.partitionBy(["kind"])', ("kind",), None),
    ("no partitions any more", SAME, "", ("kind",), TableMisfit(before=("kind",))),
    ("other partitions", SAME, '.partitionBy("kind", "id")', ("kind",),
     TableMisfit(before=("kind",), after=("kind", "id"))),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize(
    ("change", "write", "before", "misfit"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_types_and_folders(
    room: Room, written: Written, tmp_path: Path, change: str, write: str, before: tuple[str, ...],
    misfit: TableMisfit | None, kind: str,
) -> None:  # fmt: skip
    table = f"{tmp_path}/table of {kind}"
    rows = written.connect.createDataFrame([(1, "x y", 1.0)], SCHEMA)
    rows.write.format(kind).partitionBy(*before).save(table)
    code = PROGRAM.format(
        schema=SCHEMA, change=change, kind=kind, write="" if write == "ARGUMENT" else write, table=table
    )
    if write == "ARGUMENT":
        code = code.replace(f'start("{table}")', f'start("{table}", partitionBy="kind")')
    settings = {ENGINE: PLAIN, CHECKPOINT: "/checkpoints/c"}
    study = room.look(code, configuration=settings, table=f"{kind}.`{table}`")
    if misfit and misfit.kinds:
        misfit = replace(misfit, kinds=(kind, "csv"))
    assert (study.problem, study.misfit) == (None, misfit)


def test_a_table_without_rows_fits_everything(room: Room, tmp_path: Path) -> None:
    code = PROGRAM.format(schema=SCHEMA, change="", kind="parquet", write="", table=f"{tmp_path}/none")
    settings = {ENGINE: PLAIN, CHECKPOINT: "/checkpoints/c"}
    assert room.look(code, configuration=settings, table=f"parquet.`{tmp_path}/none`").misfit is None
