"""Queries, and for each a good checkpoint of it that Spark wrote.

Every file that is put holds one row; its key is the file's number (plus 1000 for the second source), so rows
that are lost or doubled are known one by one. A base is made once: some batches of one file each are
committed, then one more file is put. A damage is made on a copy at a place of its own, as tasks of a query that
failed may still write for a moment; the absolute paths in the copy's logs name that place.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EPOCH = 1_700_000_000
STREAMING = "spark.sql.streaming."
PROVIDER = {
    "stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}
CHANGELOG = "stateStore.rocksdb.changelogCheckpointing.enabled"
RUN_SECONDS = 180

Rows = Counter[int]


@dataclass
class Place:
    """One stream on disk: inputs, the flow's directory with the checkpoint as version 0, and its table."""

    root: Path
    within: str = "flow"

    @property
    def flow(self) -> Path:
        return self.root / self.within

    @property
    def checkpoint(self) -> Path:
        """The flow's newest version as SDP finds it (SystemMetadata): the highest number, whatever it names."""
        numbers = [p.name for p in self.flow.glob("*") if p.name.isdigit()]
        return self.flow / max(numbers, key=int, default="0")

    @property
    def table(self) -> Path:
        return self.root / "table"

    @property
    def sink_log(self) -> Path:
        return self.table / "_spark_metadata"

    def input(self, source: int = 0) -> Path:
        where = self.root / f"in{source}"
        where.mkdir(parents=True, exist_ok=True)
        return where

    def put(self, *numbers: int, source: int = 0) -> None:
        """One file with one row each; a blank in its name, so that URIs are encoded."""
        for n in numbers:
            hidden, visible = self.input(source) / ".new", self.input(source) / f"part {n:03d}.json"
            # base 4: a sum of these tells how often each row went in
            hidden.write_text(json.dumps({"k": n + 1000 * source, "v": 4**n, "t": EPOCH + 60 * n}) + "\n")
            os.utime(hidden, (EPOCH + n, EPOCH + n))
            hidden.rename(visible)

    def stream(self, spark: Any, source: int = 0, max_files: int | None = 1) -> Any:
        reader = spark.readStream.schema("k long, v long, t long")
        if max_files:
            reader = reader.option("maxFilesPerTrigger", max_files)
        return reader.json(str(self.input(source)))


Query = Callable[[Any, Place, int | None], Any]  # (session, place, maxFilesPerTrigger) -> a DataStreamWriter


def _to_table(frame: Any, place: Place) -> Any:
    return frame.writeStream.format("parquet").option("path", str(place.table))


def plain(spark: Any, place: Place, max_files: int | None) -> Any:
    return _to_table(place.stream(spark, 0, max_files).select("k"), place)


def union(spark: Any, place: Place, max_files: int | None) -> Any:
    both = place.stream(spark, 0, max_files).union(place.stream(spark, 1, max_files))
    return _to_table(both.select("k"), place)


def dedupe(spark: Any, place: Place, max_files: int | None) -> Any:
    return _to_table(place.stream(spark, 0, max_files).dropDuplicates(["k"]).select("k"), place)


def join(spark: Any, place: Place, max_files: int | None) -> Any:
    left = place.stream(spark, 0, max_files).select("k")
    right = place.stream(spark, 1, max_files).selectExpr("k - 1000 AS k")
    return _to_table(left.join(right, "k"), place)


def windows(spark: Any, place: Place, max_files: int | None) -> Any:
    """Counts per minute behind a watermark: a row comes out when the next file's time has passed it."""
    from pyspark.sql import functions as F

    frame = place.stream(spark, 0, max_files).withColumn("at", F.timestamp_seconds("t"))
    counts = (
        frame.withWatermark("at", "0 seconds").groupBy(F.window("at", "1 minute")).agg(F.max("k").alias("k"))
    )
    return _to_table(counts.select("k"), place)


def totals(spark: Any, place: Place, max_files: int | None) -> Any:
    """A stateful aggregate whose whole state comes out with every batch."""
    from pyspark.sql import functions as F

    sums = place.stream(spark, 0, max_files).groupBy((F.col("k") % 2).alias("g")).agg(F.sum("v").alias("s"))
    return sums.writeStream.format("memory").outputMode("complete").queryName(TOTALS)


def total(spark: Any, place: Place, max_files: int | None) -> Any:
    """One sum over all rows: state in one partition, whatever the setting of partitions."""
    from pyspark.sql import functions as F

    sums = place.stream(spark, 0, max_files).agg(F.sum("v").alias("s"))
    return sums.writeStream.format("memory").outputMode("complete").queryName(TOTALS)


def distinct_totals(spark: Any, place: Place, max_files: int | None) -> Any:
    """Two stateful operators: sums (operator 0) of what dropDuplicates (operator 1) lets through."""
    from pyspark.sql import functions as F

    frame = place.stream(spark, 0, max_files).withColumn("at", F.timestamp_seconds("t"))
    once = frame.withWatermark("at", "1 hour").dropDuplicates(["k", "at"])
    sums = once.groupBy(F.window("at", "1 hour")).agg(F.sum("v").alias("s"))
    return sums.writeStream.format("memory").outputMode("complete").queryName(TOTALS)


def ticks(spark: Any, place: Place, max_files: int | None) -> Any:
    options = {"rowsPerBatch": 1, "numPartitions": 1, "startTimestamp": 0, "advanceMillisPerBatch": 1000}
    frame = spark.readStream.format("rate-micro-batch").options(**options).load()
    return _to_table(frame.selectExpr("value AS k"), place)


def _read_table(spark: Any, place: Place) -> Rows:
    spark.catalog.refreshByPath(str(place.table))
    return Counter(r.k for r in spark.read.schema("k long").parquet(str(place.table)).collect())


TOTALS = "damages_totals"


def _read_totals(spark: Any, place: Place) -> Rows:
    found: Rows = Counter()
    for total in (r.s for r in spark.table(TOTALS).collect()):
        digits, n = total, 0
        while digits:
            found[n] += digits % 4
            digits, n = digits // 4, n + 1
    return found


@dataclass(frozen=True)
class Base:
    """A query with its good checkpoint. `put` is done before the first run, `pending` after it.

    `right`: the keys that must be in the sink once the pending files are read. `options`: of the writer; `later`:
    those of the run after the damage, where they differ. `after`: what else is done to the good checkpoint.
    """

    query: Query
    right: tuple[int, ...] = (0, 1, 2, 3)
    put: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: {0: (0, 1, 2)})
    pending: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: {0: (3,)})
    conf: Mapping[str, str] = field(default_factory=dict)
    file_sink: bool = True
    runs: int = 1
    read: Callable[[Any, Place], Rows] = _read_table
    options: Mapping[str, str] = field(default_factory=dict)
    later: Mapping[str, str] | None = None
    after: Callable[[Any, Place], object] | None = None


BASES: dict[str, Base] = {
    "files to a file table": Base(plain),
    "two sources to a file table": Base(
        union,
        (0, 1, 2, 3, 1000, 1001, 1002, 1003),
        {0: (0, 1, 2), 1: (0, 1)},
        {0: (3,), 1: (2, 3)},
    ),
    "dropDuplicates": Base(dedupe),
    "sums": Base(totals, file_sink=False, read=_read_totals),
    "one sum": Base(total, file_sink=False, read=_read_totals),
    "sums of distinct rows": Base(distinct_totals, file_sink=False, read=_read_totals),
    "windows": Base(windows, pending={0: (3, 4)}),
    "join": Base(join, (0, 1, 2), {0: (0, 1, 2), 1: (0, 1)}, {0: (3,), 1: (2,)}),
    "RocksDB snapshots": Base(dedupe, conf=PROVIDER),
    "RocksDB changelogs": Base(dedupe, conf={**PROVIDER, CHANGELOG: "true"}),
    "RocksDB, commits in format 2": Base(
        dedupe, conf={**PROVIDER, CHANGELOG: "true", "stateStore.checkpointFormatVersion": "2"}
    ),
    "offsets in format 2": Base(
        union,
        (0, 1, 2, 3, 1000, 1001, 1002, 1003),
        {0: (0, 1, 2), 1: (0, 1, 2)},
        {0: (3,), 1: (3,)},
        {"offsetLog.formatVersion": "2"},
    ),
    "compacted logs": Base(
        plain,
        tuple(range(8)),
        {0: tuple(range(7))},
        {0: (7,)},
        {"fileSource.log.compactInterval": "3", "fileSink.log.compactInterval": "3"},
    ),
    "rate source": Base(ticks, (0, 1, 2, 3), {}, {}, runs=3),
}


@contextmanager
def settings(spark: Any, conf: Mapping[str, str]) -> Iterator[None]:
    """Settings below `spark.sql.streaming.` for a while."""
    for name, value in conf.items():
        spark.conf.set(STREAMING + name, value)
    try:
        yield
    finally:
        for name in conf:
            spark.conf.unset(STREAMING + name)


def run(
    spark: Any,
    place: Place,
    base: Base,
    *,
    max_files: int | None = 1,
    conf: Mapping[str, str],
    options: Mapping[str, str] | None = None,
) -> str:
    """Everything that is there, then an end: "" or the text of the failure."""
    with settings(spark, conf):
        try:
            chosen = base.options if options is None else options
            writer = base.query(spark, place, max_files).options(**chosen)
            return _through(writer.option("checkpointLocation", str(place.checkpoint)), bool(chosen))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def _through(writer: Any, asynchronous: bool) -> str:
    """Raises what ends the query. Asynchronous progress tracking knows no availableNow."""
    if asynchronous:
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return ""
    query = writer.trigger(availableNow=True).start()
    if query.awaitTermination(RUN_SECONDS):
        return ""
    query.stop()
    return f"It did not end within {RUN_SECONDS} s."


def make(spark: Any, base: Base, place: Place) -> None:
    """A good checkpoint, with the files put that the next run reads."""
    for source, numbers in base.put.items():
        place.put(*numbers, source=source)
    for _ in range(base.runs):
        failure = run(spark, place, base, conf=base.conf)
        assert failure == "", failure
    if base.after:
        base.after(spark, place)
    for source, numbers in base.pending.items():
        place.put(*numbers, source=source)
