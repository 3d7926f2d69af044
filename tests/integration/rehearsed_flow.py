"""A flow with windows over JSON files, updated and rehearsed by hand on a Spark of its own."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect_checkpoint, seed
from recovery.checkpoints.formats import parse_offsets
from recovery.checkpoints.starts import SourceStart
from recovery.spark import session
from recovery.spark.api import Rehearsal, RehearsalRequest, rehearse
from tests.integration.spark_room import Room
from tests.unit.checkpoints.seeding import free

EPOCH = 1_700_000_000
START = 1_704_067_200  # 2024-01-01T00:00:00Z
READ = """
from pyspark.sql import functions as F
def read(folder):
    reader = spark.readStream.schema("k string, z string, t timestamp")
    return reader.option("maxFilesPerTrigger", FILES).json("IN/" + folder)
@dp.table
def t():
"""
WINDOWED = """
    rows = read("a").withWatermark("t", "10 seconds")
    return rows.groupBy(F.window("t", "5 seconds"), "k").agg(F.count("*").alias("n"))
"""


@dataclass
class Flow:
    """JSON files (or a topic) -> parquet; version `version` of its checkpoint is in use."""

    spark: Any
    room: Room
    files: int = 1
    version: int = 0
    code: str = ""
    put_so_far: dict[str, list[tuple[str, list[tuple[str, int]]]]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return str(self.room.folder / "flow")

    @property
    def table(self) -> str:
        return str(self.room.folder / "table")

    def query(self, text: str) -> None:
        """What the code of the flow is from now on."""
        self.code = (READ + text).replace("FILES", str(self.files)).replace("IN/", f"{self.room.folder}/in/")

    def put(self, *rows: tuple[str, int], folder: str = "a") -> None:
        """One file of rows: (the key, its second)."""
        so_far = self.put_so_far.setdefault(folder, [])
        told = [{"k": k, "z": k[0], "t": datetime.fromtimestamp(START + s, UTC).isoformat()} for k, s in rows]
        uri = self.room.put(f"{folder}/part {len(so_far):03d}.json", *told)
        os.utime(uri.removeprefix("file://"), (EPOCH + len(so_far),) * 2)
        so_far.append((uri, list(rows)))

    def uris(self) -> list[str]:
        return [uri for files in self.put_so_far.values() for uri, _ in files]

    def update(self) -> tuple[Counter[str], int]:
        """Rows in the table after one more update, and how many it dropped."""
        defined: list[Any] = []

        class Pipelines:
            table = staticmethod(defined.append)

        exec(self.code, {"spark": self.spark, "dp": Pipelines})  # noqa: S102 - the update of a pipeline, by hand
        writer = defined[0]().writeStream.format("parquet").option("path", self.table)
        writer = writer.option("checkpointLocation", f"{self.place}/{self.version}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        late = sum(s.numRowsDroppedByWatermark for p in query.recentProgress for s in p.stateOperators)
        return self.rows_in(self.table), late

    def rows_in(self, folder: str) -> Counter[str]:
        """By a fresh session: another one keeps an index of the files."""
        fresh = session.fresh(self.room.remote, {})
        rows = fresh.read.parquet(folder).collect()
        fresh.stop()
        return Counter(json.dumps(r.asDict(recursive=True), default=str) for r in rows)

    def request(
        self, folder: str = "scratch", sets: Sequence[str] | None = None, **more: Any
    ) -> RehearsalRequest:
        named = {"new": tuple(self.uris() if sets is None else sets)}
        study = self.room.request(self.code, sets=named, slices=more.pop("slices", {}))
        return RehearsalRequest(study, str(self.room.folder / folder), **more)

    def rehearse(self, folder: str = "scratch", sets: Sequence[str] | None = None, **more: Any) -> Rehearsal:
        found = rehearse(self.request(folder, sets, **more), timeout=300)
        assert found.problem is None, found.problem
        return found

    def rows(self, found: Rehearsal) -> Counter[str]:
        rows = self.rows_in(found.output)
        assert found.rows == rows.total()
        return rows

    def settings(self) -> tuple[dict[str, str], int, str]:
        """Of the last committed batch: its header's settings, its header's watermark, its first source's line."""
        report = inspect_checkpoint(self.place)
        read = parse_offsets(Path(report.location, f"offsets/{report.last_committed}").read_bytes())
        assert read.sources[0].offset_json
        return dict(read.conf), read.watermark_ms, read.sources[0].offset_json

    def begin(self, start: SourceStart, watermark_ms: int, state: str) -> None:
        """The next version of the checkpoint: seeded."""
        plan = seed.plan_seed(
            inspect_checkpoint(self.place, sink=self.table),
            starts=[start],
            watermark_ms=watermark_ms,
            state=state,
        )
        made = seed.prepare_seed(self.place, plan, recovery="R-1", fence=1, guard=free)
        self.version = seed.publish_checkpoint(self.place, made, guard=free)


def windows(rows: Sequence[tuple[str, int]], after_ms: int, until_ms: int) -> Counter[tuple[str, int]]:
    """(letter, end in s) of the windows of five seconds that close after one watermark and up to another one."""
    ends = ((k[0], START + s // 5 * 5 + 5) for k, s in rows)
    return Counter((k, end) for k, end in ends if after_ms < end * 1000 <= until_ms)


def told(rows: Counter[str]) -> Counter[tuple[str, int]]:
    """The same of rows that were written; each window is there once."""
    assert set(rows.values()) == {1}
    found = [json.loads(row) for row in rows]
    ends = [datetime.fromisoformat(row["window"]["end"]).replace(tzinfo=UTC) for row in found]
    return Counter({(r["k"], int(end.timestamp())): r["n"] for r, end in zip(found, ends, strict=True)})
