"""More good checkpoints: sinks that are code, one source read twice, named sources, transformWithState, and those
whose progress is tracked asynchronously.

What `foreachBatch` is given is written to files below `each/`, one for every call.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.damages.bases import BASES, CHANGELOG, PROVIDER, Base, Place, Rows, union

Frame = Any
Each = Callable[[Frame, int], None]
SCHEMA = "k long, v long, t long"
FORMAT_2 = {**PROVIDER, CHANGELOG: "true", "stateStore.checkpointFormatVersion": "2"}
NAMED = {"queryEvolution.enableSourceEvolution": "true", "offsetLog.formatVersion": "2"}
# No sink that keeps rows to count supports it; the check of the sink is lifted, the tracking is Spark's own.
ASYNC = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "600000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
RECORDED = {**ASYNC, "asyncProgressTrackingCheckpointIntervalMs": "0"}
SYNC: Mapping[str, str] = {}


def each_call(folder: Path) -> Each:
    """Keeps every call's rows: a batch that is run twice is there twice."""

    def write(frame: Frame, batch: int) -> None:
        folder.mkdir(exist_ok=True)
        rows = json.dumps([row.k for row in frame.collect()])
        (folder / f"{batch}-{time.time_ns()}").write_text(rows)

    return write


def each_batch(folder: Path) -> Each:
    """Keeps one answer for each batch id, as a MERGE keyed by it would."""

    def write(frame: Frame, batch: int) -> None:
        folder.mkdir(exist_ok=True)
        (folder / str(batch)).write_text(json.dumps([row.k for row in frame.collect()]))

    return write


def read_each(spark: Any, place: Place) -> Rows:
    found: Rows = Counter()
    for file in (place.root / "each").glob("*"):
        found.update(json.loads(file.read_text()))
    return found


def calls(spark: Any, place: Place, max_files: int | None) -> Any:
    return (
        place.stream(spark, 0, max_files).select("k").writeStream.foreachBatch(each_call(place.root / "each"))
    )


def batches(spark: Any, place: Place, max_files: int | None) -> Any:
    return (
        place.stream(spark, 0, max_files)
        .select("k")
        .writeStream.foreachBatch(each_batch(place.root / "each"))
    )


def _to_table(frame: Frame, place: Place) -> Any:
    return frame.writeStream.format("parquet").option("path", str(place.table))


def twice(spark: Any, place: Place, max_files: int | None) -> Any:
    """One frame in two places of the plan: one source, two lines, one log."""
    one = place.stream(spark, 0, max_files)
    return _to_table(one.select("k").union(one.selectExpr("k + 2000 AS k")), place)


def twice_and_another(spark: Any, place: Place, max_files: int | None) -> Any:
    one, other = place.stream(spark, 0, max_files), place.stream(spark, 1, max_files)
    return _to_table(one.select("k").union(one.selectExpr("k + 2000 AS k")).union(other.select("k")), place)


def self_join(spark: Any, place: Place, max_files: int | None) -> Any:
    """No column of one side is named as one of the other, so that Spark keeps both sides one relation."""
    from pyspark.sql import functions as F

    one = place.stream(spark, 0, max_files)
    return _to_table(
        one.select("k").join(one.selectExpr("k AS other"), F.expr("k = other")).select("k"), place
    )


def named(spark: Any, place: Place, max_files: int | None) -> Any:
    def source(name: str, number: int) -> Frame:
        reader = spark.readStream.schema(SCHEMA).name(name).format("json")
        return (
            reader.option("maxFilesPerTrigger", max_files or 1000).load(str(place.input(number))).select("k")
        )

    return _to_table(source("first", 0).union(source("second", 1)), place)


def counting(spark: Any, place: Place, max_files: int | None) -> Any:
    """A running count for each of two keys: k = 10 * key + count, so that lost state shows."""
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            import pandas as pd

            total = self.count.get()[0] if self.count.exists() else 0
            first = total + 1
            total += sum(len(frame) for frame in rows)
            self.count.update((total,))
            yield pd.DataFrame({"k": [10 * key[0] + n for n in range(first, total + 1)]})

        def close(self) -> None:
            pass

    grouped = place.stream(spark, 0, max_files).withColumn("g", F.col("k") % 2).groupBy("g")
    counts = grouped.transformWithStateInPandas(
        statefulProcessor=Counting(), outputStructType="k long", outputMode="Append", timeMode="None"
    )
    return _to_table(counts, place)


def pages(spark: Any, place: Place, max_files: int | None) -> Any:
    """A source in Python whose positions have a shape of its own: one row a batch."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    last = len(list(place.input().glob("part *.json")))

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"page": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
            end = max(start["page"], last)
            return iter([(n,) for n in range(start["page"], end)]), {"page": end}

        def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
            return iter([(n,) for n in range(start["page"], end["page"])])

    class Pages(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pages"

        def schema(self) -> str:
            return "k long"

        def simpleStreamReader(self, schema: Any) -> Any:
            return Reader()

    spark.dataSource.register(Pages)
    return _to_table(spark.readStream.format("pages").load(), place)


def deduped(spark: Any, place: Place, max_files: int | None) -> Any:
    once = place.stream(spark, 0, max_files).dropDuplicates(["k"]).select("k")
    return once.writeStream.foreachBatch(each_call(place.root / "each"))


def deduped_to_table(spark: Any, place: Place, max_files: int | None) -> Any:
    return _to_table(place.stream(spark, 0, max_files).dropDuplicates(["k"]).select("k"), place)


def repartition(spark: Any, place: Place) -> None:
    """Spark's own tool puts in a batch that reads nothing and reaches no sink."""
    spark._streamingCheckpointManager.repartition(str(place.checkpoint), 3, enforce_exactly_once_sink=False)


def _twice(rows: tuple[int, ...]) -> tuple[int, ...]:
    return (*rows, *(n + 2000 for n in rows))


TWO = {"put": {0: (0, 1, 2), 1: (0, 1)}, "pending": {0: (3,), 1: (2, 3)}}
BOTH = (0, 1, 2, 3, 1000, 1001, 1002, 1003)
EACH: dict[str, Any] = {"file_sink": False, "read": read_each}
FIVE: dict[str, Any] = {
    **EACH,
    "right": tuple(range(6)),
    "put": {0: (0, 1, 2, 3, 4)},
    "pending": {0: (5,)},
}

MORE: dict[str, Base] = {
    "foreachBatch": Base(calls, **EACH),
    "foreachBatch by batch id": Base(batches, **EACH),
    "one source read twice": Base(twice, _twice((0, 1, 2, 3))),
    "one source read twice, offsets in format 2": Base(
        twice, _twice((0, 1, 2, 3)), conf={"offsetLog.formatVersion": "2"}
    ),
    "one source read twice, and another": Base(
        twice_and_another, (*_twice((0, 1, 2, 3)), 1000, 1001, 1002, 1003), **TWO
    ),
    "self-join": Base(self_join),
    "two sources at equal positions": Base(
        union,
        BOTH,
        {0: (0, 1, 2), 1: (0, 1, 2)},
        {0: (3,), 1: (3,)},
    ),
    "named sources": Base(named, BOTH, conf=NAMED, **TWO),
    "transformWithState": Base(counting, (1, 2, 11, 12), conf=PROVIDER),
    "transformWithState, commits in format 2": Base(counting, (1, 2, 11, 12), conf=FORMAT_2),
    "source in Python": Base(pages),
    "asynchronous progress": Base(calls, options=ASYNC, **EACH),
    "asynchronous progress, then none": Base(calls, options=ASYNC, later=SYNC, **EACH),
    "asynchronous progress, each batch recorded": Base(calls, options=RECORDED, **FIVE),
    "asynchronous progress, each batch recorded, then none": Base(
        calls, options=RECORDED, later=SYNC, **FIVE
    ),
    "state in snappy": Base(deduped_to_table, conf={"stateStore.compression.codec": "snappy"}),
    "repartitioned state": Base(deduped, conf=PROVIDER, after=repartition, **EACH),
    "repartitioned state of a file table": Base(deduped_to_table, conf=PROVIDER, after=repartition),
}

ALL_BASES: dict[str, Base] = {**BASES, **MORE}
