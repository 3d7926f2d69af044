"""A plain PySpark program that nothing of Reprise knows: it fails, is adopted, and is recovered by its commands."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import tables
from tests.stack import Stack

pytestmark = pytest.mark.spark

PROGRAM = """\
import sys

from pyspark.sql import SparkSession, functions as F

base = sys.argv[1]
spark = (
    SparkSession.builder.appName("orders").master("local[1]")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", f"file://{base}/events")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
orders = spark.readStream.schema("id int, v string").json(f"{base}/in")
kept = orders.select("id", F.upper("v").alias("v"))STEP
query = (
    kept.writeStream.format("parquet").queryName("orders")
    .option("path", f"{base}/out").option("checkpointLocation", f"{base}/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
"""


class Program:
    """The program and its folders."""

    def __init__(self, base: Path) -> None:
        self.base, self.file = base, base / "orders_program.py"
        for name in ("in", "events"):
            (base / name).mkdir(parents=True)
        self.written = 0

    def write(self, step: str) -> None:
        self.file.write_text(PROGRAM.replace("STEP", step))

    def arrive(self, rows: int) -> None:
        """One more file of input."""
        told = [json.dumps({"id": self.written + n, "v": f"v{self.written + n}"}) for n in range(rows)]
        self.written += rows
        (self.base / "in" / f"{self.written:04}.json").write_text("\n".join(told))

    @property
    def words(self) -> list[str]:
        return [sys.executable, str(self.file), str(self.base)]

    def run(self) -> subprocess.CompletedProcess[str]:
        without = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        return subprocess.run(
            self.words, capture_output=True, text=True, timeout=300, env=without, check=False
        )

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in tables.rows(self.base / "out"))


def answered(stack: Stack, *words: str, token: str = "admin") -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(*words, "--json", token=token, seconds=700)
    assert out, err
    return code, json.loads(out)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def failed(program: Program) -> None:
    """Its step was taken out after a batch, and two files wait."""
    program.write('.dropDuplicates(["id"])')
    for _ in range(2):
        program.arrive(5)
    assert program.run().returncode == 0
    program.write("")
    for _ in range(2):
        program.arrive(5)
    assert "STATE" in program.run().stderr


def adopted(stack: Stack, program: Program, *more: str) -> dict[str, Any]:
    start = shlex.join(["env", f"PATH={os.environ['PATH']}", *program.words])
    code, told = answered(
        stack, "adopt", str(program.base / "checkpoint"), "--name", f"orders-{program.base.name}",
        "--sink", str(program.base / "out"), "--event-log", str(program.base / "events"),
        "--program", str(program.file), "--argument", str(program.base),
        "--start", start, "--stop", f"pkill -f {program.file}", "--running", f"pgrep -f {program.file}",
        "--environment", "development", *more,
    )  # fmt: skip
    assert code == 0, told
    return told


def test_a_program_whose_step_was_taken_out_is_recovered_to_proof(stack: Stack, program: Program) -> None:
    failed(program)
    stream = adopted(stack, program)
    assert stream["state"] == "failed"
    code, told = answered(stack, "diagnose", stream["pipeline"])
    assert code == 1, told
    assert told["diagnosis"]["condition"] == "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    code, answer = answered(
        stack, "recover", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue"
    )
    assert (code, answer.get("state")) == (0, "succeeded"), answer
    assert program.ids() == list(range(20))
    assert all(c["ok"] is True for c in answer["verification"])
    assert [answer["forecast"][k]["rows"] for k in ("lost", "doubled", "reread")] == [0, 0, 0]
