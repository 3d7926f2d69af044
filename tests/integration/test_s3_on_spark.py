"""Spark's own checkpoint on s3a: read, seeded there, and gone on from exactly."""

import os
import tempfile
from pathlib import Path

import pytest

from console.supervisor import jars
from recovery.checkpoints import inspect_checkpoint, seed
from tests.s3 import KEY, SECRET, S3Server
from tests.spark_child import SparkChild
from tests.unit.checkpoints.seeding import free

pytestmark = pytest.mark.spark

# Runs one update after another, each told by a line of stdin: {version, stateful}; answers with the table's ids.
# In a process of its own: s3a's archives must be on the class path from the start.
CHILD = """
import json, sys
from pyspark.sql import SparkSession
told = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[1]")
for name, value in told["conf"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
base = told["base"]
for line in sys.stdin:
    asked = json.loads(line)
    rows = spark.createDataFrame([(n,) for n in asked["rows"]], "id long").coalesce(1)
    rows.write.mode("append").json(base + "/in")
    stream = spark.readStream.schema("id long").json(base + "/in")
    if asked["stateful"]:
        stream = stream.dropDuplicates(["id"])
    checkpoint = base + "/flow/" + str(asked["version"])
    query = stream.writeStream.format("parquet").option("path", base + "/table").trigger(availableNow=True)
    query.option("checkpointLocation", checkpoint).start().awaitTermination()
    spark.catalog.clearCache()
    ids = sorted(row.id for row in spark.read.parquet(base + "/table").collect())
    print("ANSWER " + json.dumps(ids), flush=True)
spark.stop()
"""


def conf(server: S3Server) -> dict[str, str]:
    archives = jars.ensure_jars("s3a", tell=lambda _: None)
    s3a = {
        "endpoint": server.endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": KEY,
        "secret.key": SECRET,
    }
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, archives)),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
    }


class Updates(SparkChild):
    """The child process; `run` gives the ids in the table after one more update."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        super().__init__(folder, CHILD, {"conf": conf(server), "base": server.url("lake", "s3a")})

    def run(self, version: int, rows: list[int], *, stateful: bool) -> list[int]:
        return [int(n) for n in self.answer({"version": version, "rows": rows, "stateful": stateful})]


def test_spark_goes_on_exactly_from_a_seed_on_s3(s3: S3Server) -> None:
    flow, table = s3.url("lake/flow", "s3a"), s3.url("lake/table", "s3a")
    with tempfile.TemporaryDirectory(prefix="reprise-s3a-") as folder:
        updates = Updates(s3, Path(folder))
        try:
            assert updates.run(0, [1, 2, 2], stateful=True) == [1, 2]
            assert updates.run(0, [2, 3], stateful=True) == [1, 2, 3]
            report = inspect_checkpoint(flow, sink=table, deep=True)
            assert [f.code for f in report.findings] == []
            assert (report.version, report.last_committed, len(report.sources[0].committed)) == (0, 1, 2)
            assert [o.name for o in report.state_operators] == ["dedupe"]
            plan = seed.plan_seed(report)
            made = seed.prepare_seed(flow, plan, recovery="R-1", fence=1, guard=free)
            assert seed.publish_checkpoint(flow, made, guard=free) == 1
            assert seed.probe_outcome(flow, recovery="R-1").published == 1
            assert updates.run(1, [3, 4], stateful=False) == [1, 2, 3, 3, 4]
            after = inspect_checkpoint(flow, sink=table, deep=True)
            assert (after.version, after.last_committed, after.query_id) == (1, 2, made.query_id)
            assert after.blockers == ()
        finally:
            updates.close()
