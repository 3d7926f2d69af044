"""A rehearsal yields exactly what the update then writes: on real streams, in several batches, with late rows."""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect, placing, transplant
from recovery.checkpoints.formats import parse_offsets
from recovery.errors import Refused
from recovery.spark import scratch
from recovery.spark.api import Rehearsal, RehearsalRequest, rehearse
from tests.connected_spark import ConnectedSpark, connected_spark
from tests.integration.spark_room import Room
from tests.s3 import free_port

pytestmark = pytest.mark.spark

EPOCH = 1_700_000_000
FIELDS = "k string, z string, t timestamp"
# One update of the flow's code in the driver's own session, as the update of a pipeline runs it; all rows of the table.
UPDATE = """
from pyspark.sql import functions as F
spark.conf.set("spark.sql.session.timeZone", "UTC")
class dp:
    table = staticmethod(lambda function: defined.append(function))
defined = []
exec(flow_code, {"spark": spark, "dp": dp, "F": F})
writer = defined[-1]().writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
query = writer.trigger(availableNow=True).start()
query.awaitTermination()
spark.catalog.refreshByPath(table)
answer = {
    "rows": sorted(json.dumps(r.asDict(recursive=True), default=str) for r in spark.read.parquet(table).collect()),
    "late": sum(s.numRowsDroppedByWatermark for p in query.recentProgress for s in p.stateOperators),
    "batches": len(query.recentProgress),
}
"""
READ = """
from pyspark.sql import functions as F
def read(folder):
    return spark.readStream.schema("k string, z string, t timestamp").option("maxFilesPerTrigger", FILES).json("IN/" + folder)
@dp.table
def t():
"""
WINDOWED = """
    rows = read("a").withWatermark("t", "10 seconds")
    return rows.groupBy(F.window("t", "5 seconds"), "k").agg(F.count("*").alias("n"))
"""
BY_Z = WINDOWED.replace('"k")', '"z")')
QUERIES = {
    "windows": WINDOWED,
    "sliding windows": WINDOWED.replace('"5 seconds"', '"6 seconds", "2 seconds"'),
    "sessions": WINDOWED.replace('F.window("t", "5 seconds")', 'F.session_window("t", "4 seconds")'),
    "repeats within the watermark": """
    return read("a").withWatermark("t", "3 seconds").dropDuplicatesWithinWatermark(["k"]).select("k")
""",
    "repeats with their time": """
    return read("a").withWatermark("t", "3 seconds").dropDuplicates(["k", "t"]).select("k", "t")
""",
    "a join of two streams": """
    left = read("a").withWatermark("t", "4 seconds").alias("l")
    right = read("b").withWatermark("t", "4 seconds").alias("r")
    near = F.expr("l.k = r.k and r.t between l.t - interval 3 seconds and l.t + interval 3 seconds")
    return left.join(right, near, "leftOuter").select("l.k", "l.t", F.col("r.t").alias("u"))
""",
}


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ConnectedSpark, str]]:
    """A driver with connectors that serves Spark Connect beside its own session; its address."""
    port = free_port()
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
    }
    with connected_spark(**settings) as child:
        yield child, f"sc://localhost:{port}"


@dataclass
class Flow:
    """JSON files (or a topic) -> parquet; version `version` of its checkpoint is in use."""

    driver: ConnectedSpark
    room: Room
    version: int = 0
    files: int = 1
    put_so_far: dict[str, list[str]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return str(self.room.folder / "flow")

    def code(self, query: str) -> str:
        return (READ + query).replace("FILES", str(self.files)).replace("IN/", f"{self.room.folder}/in/")

    def put(self, *rows: tuple[str, int], folder: str = "a") -> str:
        """One file of rows: (the key, its second). Its URI."""
        so_far = self.put_so_far.setdefault(folder, [])
        name = f"{folder}/part {len(so_far):03d}.json"
        uri = self.room.put(name, *({"k": k, "z": k[0], "t": at(second)} for k, second in rows))
        os.utime(uri.removeprefix("file://"), (EPOCH + len(so_far),) * 2)
        so_far.append(uri)
        return uri

    def update(self, query: str) -> dict[str, Any]:
        """Rows in the table after one more update, and what it dropped."""
        table, checkpoint = str(self.room.folder / "table"), f"{self.place}/{self.version}"
        words = {"flow_code": self.code(query), "table": table, "checkpoint": checkpoint}
        found: dict[str, Any] = self.driver.run("import json" + UPDATE, **words)
        return found

    def rehearse(self, query: str, files: Sequence[str] | None = None, **more: Any) -> Rehearsal:
        named = [f for some in self.put_so_far.values() for f in some] if files is None else files
        study = self.room.request(self.code(query), sets={"new": tuple(named)}, slices=more.pop("slices", {}))
        timeout = more.pop("timeout", 120)
        asked = RehearsalRequest(study, str(self.room.folder / "scratch"), **more)
        return rehearse(asked, timeout=timeout)

    def rows(self, found: Rehearsal) -> list[str]:
        assert found.problem is None, found.problem
        read = """
import json
rows = spark.read.parquet(output).collect()
answer = sorted(json.dumps(r.asDict(recursive=True), default=str) for r in rows)
"""
        rows: list[str] = self.driver.run(read, output=found.output)
        assert found.rows == len(rows)
        return rows

    def header(self) -> tuple[dict[str, str], int]:
        """(settings, watermark) after the last committed batch."""
        report = inspect(self.place)
        place = Path(report.location)
        settings = parse_offsets((place / f"offsets/{report.last_committed}").read_bytes()).conf
        told = json.loads((place / f"commits/{report.last_committed}").read_text().split("\n")[1])
        return dict(settings), told["nextBatchWatermarkMs"]


def at(second: int) -> str:
    return f"2024-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


START_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z


@pytest.fixture
def flow(server: tuple[ConnectedSpark, str], tmp_path: Path) -> Flow:
    for side in ("a", "b"):
        (tmp_path / "in" / side).mkdir(parents=True)
    return Flow(server[0], Room(server[1], tmp_path))


CASES = [(name, 1) for name in QUERIES] + [("windows", 2), ("repeats within the watermark", 100)]


@pytest.mark.parametrize(
    ("query", "files"), CASES, ids=[f"{name}, {files} at a time" for name, files in CASES]
)
def test_a_rehearsal_yields_what_an_update_writes_in_the_same_batches(
    flow: Flow, query: str, files: int
) -> None:
    """Rows come out of order, far behind the watermark, and again after they were forgotten."""
    flow.files = files
    for rows in (
        [("a", 1), ("b", 2)],
        [("a", 21)],
        [("b", 24)],
        [("a", 3), ("a", 21)],
        [("c", 60), ("a", 25)],
    ):
        flow.put(*rows)
    for rows in ([("a", 2)], [("b", 23), ("c", 61)], [("b", 1)], [("a", 4)]):
        flow.put(*rows, folder="b")
    written = flow.update(QUERIES[query])
    found = flow.rehearse(QUERIES[query])
    assert flow.rows(found) == written["rows"] != []
    assert (found.late, found.why) == (written["late"], "")
    assert files > 1 or found.late, "of single files, some come too late"
