"""Spark with the connectors in a process of the matrix's own.

The code runs in the process's main thread, as a pipeline's does: beside other threads `toTable` finds no catalog of
Delta's (DELTA_INVALID_V1_TABLE_CALL), so the Spark that other tests share does not serve here.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from console.supervisor import jars
from recovery.server.driver import connector_settings
from tests.spark_child import QUICK, SparkChild

# Runs the code that a line of stdin holds, with `spark` and what the line's `words` name; `answer` goes back.
CHILD = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
for line in sys.stdin:
    told = json.loads(line)
    words = {"spark": spark, "answer": None, **told["words"]}
    try:
        exec(told["code"], words)
        said = {"answer": words["answer"]}
    except Exception as problem:
        said = {"problem": f"{type(problem).__name__}: {problem}"}
    print("ANSWER " + json.dumps(said), flush=True)
spark.stop()
"""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
}


class MatrixSpark(SparkChild):
    """The child. `run` executes Python there; what it assigns to `answer` comes back."""

    def __init__(self, folder: Path, more: Mapping[str, str]) -> None:
        archives = jars.ensure_jars("connectors", tell=lambda _: None)[0].parent
        told = {
            **SETTINGS,
            **connector_settings(str(archives)),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        super().__init__(folder, CHILD, {**told, **more})

    def run(self, code: str, **words: Any) -> Any:
        """What the code answered. AssertionError with the text of its failure."""
        said = self.attempt(code, **words)
        assert "problem" not in said, said["problem"]
        return said["answer"]

    def attempt(self, code: str, **words: Any) -> dict[str, Any]:
        """{"answer": …}, or {"problem": its text}."""
        said: dict[str, Any] = self.answer({"code": code, "words": words})
        return said


@contextlib.contextmanager
def matrix_spark(**more: str) -> Iterator[MatrixSpark]:
    """A Spark with connectors while this lasts; `more` are settings."""
    with tempfile.TemporaryDirectory(prefix="reprise-matrix-", ignore_cleanup_errors=True) as folder:
        child = MatrixSpark(Path(folder), more)
        try:
            yield child
        finally:
            child.close()
