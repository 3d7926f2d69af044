"""Spark with the connectors on its class path, in a process of its own: they must be there from the start."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from console.supervisor import jars
from recovery.server.driver import connectors
from tests.s3 import free_port
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


class ConnectedSpark(SparkChild):
    """The child. `run` executes Python there; what it assigns to `answer` comes back."""

    def __init__(self, folder: Path, more: Mapping[str, str]) -> None:
        archives = jars.ensure("connectors", tell=lambda _: None)[0].parent
        told = {**SETTINGS, **connectors(str(archives)), "spark.sql.warehouse.dir": str(folder / "warehouse")}
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
def connected_spark(**more: str) -> Iterator[ConnectedSpark]:
    """A Spark with connectors while this lasts; `more` are settings."""
    with tempfile.TemporaryDirectory(prefix="reprise-connected-", ignore_cleanup_errors=True) as folder:
        child = ConnectedSpark(Path(folder), more)
        try:
            yield child
        finally:
            child.close()


@contextlib.contextmanager
def connect_server(**more: str) -> Iterator[str]:
    """The address (`sc://…`) of Spark Connect on a Spark with connectors, while this lasts."""
    port = free_port()
    plugin = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with connected_spark(**plugin, **more) as child:
        child.run("answer = spark.range(1).count()")
        yield f"sc://127.0.0.1:{port}"
