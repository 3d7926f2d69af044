"""Spark of the matrix: one JVM that runs the streams and answers Spark Connect, where the product asks."""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from tests.answering import Beside
from tests.matrix.child import MatrixSpark, matrix_spark
from tests.s3 import free_port

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "spark.master": "local[2]",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "5",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}
# One update of one flow, as a pipeline makes it: the code defines the query, a trigger of AvailableNow runs it.
UPDATE = """
import os, sys, tempfile
from pathlib import Path
sys.path[:0] = [root]
from recovery.spark.definitions import find_flow, load, write_files
folder, where, before = Path(tempfile.mkdtemp()), os.getcwd(), list(sys.path)
session = spark.newSession()
for setting, value in conf.items():
    session.conf.set(setting, value)
try:
    found = load(session, write_files(files, "/p", folder), libraries, folder)
    flow = find_flow(found, name, "spark_catalog", "default")
    writer = flow.func().writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    writer = writer.trigger(availableNow=True)
    if sink in ("parquet", "delta"):
        query = writer.format(sink).toTable(table)
    elif sink == "kafka":
        query = writer.format("kafka").options(**options).start()
    else:
        each = lambda batch, number: batch.write.format("parquet").mode("append").save(table)
        query = writer.foreachBatch(each).start()
    query.awaitTermination()
    answer = sum(p["numInputRows"] for p in query.recentProgress)
finally:
    os.chdir(where)
    sys.path[:] = before
"""
ROWS = """
frame = spark.newSession().read.table(table) if not path else spark.newSession().read.parquet(table)
answer = [[r["id"], r["count"]] for r in frame.groupBy("id").count().collect()]
"""
RECORDS = """
reader = spark.read.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", topic)
frame = reader.option("startingOffsets", start).load()
frame = frame.selectExpr("from_json(cast(value as string), 'id long').id as id")
answer = [[r["id"], r["count"]] for r in frame.groupBy("id").count().collect()]
"""
# Delta keeps what it knows of a table by its path, and would not see that it was put back to an older state.
FORGET = "spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()"
APPEND = """
frame = spark.sql("SELECT * FROM VALUES " + ", ".join(f"({i}L, {k}L)" for i, k in rows) + " AS t(id, k)")
frame.repartition(files).write.format("delta").mode("append").save(table)
"""
WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")


class Room:
    """The JVM. `remote` is its Spark Connect address."""

    def __init__(self, child: MatrixSpark, remote: str) -> None:
        self.child, self.remote = child, remote
        place = child.run("answer = spark.conf.get('spark.sql.warehouse.dir')")
        self.warehouse = Path(str(place).removeprefix("file:"))

    def update(self, files: Mapping[str, str], **told: Any) -> dict[str, Any]:
        """{"answer": rows read}, or {"problem": the text of its failure}. Files: path -> text of the code."""
        told = {"options": {}, "table": "", "conf": {}, "libraries": list(files), **told}
        return self.child.attempt(UPDATE, root=str(ROOT), files=dict(files), **told)

    def rows(self, table: str, *, path: bool = False) -> Counter[int]:
        """How often each id is in a table, or in the Parquet files below a path."""
        return Counter(dict(self.child.run(ROWS, table=table, path=path)))

    def records(self, address: str, topic: str, start: str) -> Counter[int]:
        """How often each id is in a topic, from these offsets on."""
        return Counter(dict(self.child.run(RECORDS, address=address, topic=topic, start=start)))

    def sql(self, text: str) -> None:
        self.child.run("spark.newSession().sql(text).collect()", text=text)

    def forget(self) -> None:
        self.child.run(FORGET)

    def append(self, table: Path, rows: list[tuple[int, int]], files: int) -> None:
        self.child.run(APPEND, table=str(table), rows=rows, files=files)


@contextlib.contextmanager
def running() -> Iterator[Room]:
    """The room while this lasts; the product asks it meanwhile, as it would ask a server."""
    port = free_port()
    remote = f"sc://localhost:{port}/;user_id=matrix"
    with matrix_spark(**SETTINGS, **{"spark.connect.grpc.binding.port": str(port)}) as child:
        answers = Beside(remote)
        with mock.patch("recovery.workflow.flow_snapshot.questions_service", return_value=answers):
            yield Room(child, remote)


def first(problem: str) -> str:
    """What a failure of Spark says, without stack and places of this machine."""
    if not problem:
        return ""
    classes = re.findall(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\]", problem)
    inner = [c for c in classes if c not in WRAPPERS]
    if inner:
        return inner[-1]
    told = problem.partition("terminated with exception: ")[2] or problem
    return re.sub(r"\s*SQLSTATE: \w+", "", re.sub(r"(file:)?/+tmp/\S+", "…", told.splitlines()[0]))[:200]
