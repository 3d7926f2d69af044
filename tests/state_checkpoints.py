"""Checkpoints with every kind of state that Spark 4.2 writes: one small stream a case, in one session.

Tests that need no Spark read the copies in tests/fixtures/checkpoints. `python -m tests.state_checkpoints
/tmp/streams [CASE...]` makes those copies again; the directory stays in them, since Spark writes absolute paths.
"""

import json
import logging
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = "spark.sql.streaming."
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FIXTURES = Path(__file__).parent / "fixtures" / "checkpoints"
WRITTEN_AT = "/tmp/streams"
EPOCH = 1_700_000_000
BATCHES = 4

Frame = Any


def dedupe(frame: Frame) -> Frame:
    return frame.dropDuplicates(["k"])


def within_watermark(frame: Frame) -> Frame:
    return frame.withWatermark("t", "10 seconds").dropDuplicatesWithinWatermark(["k"])


def aggregate(frame: Frame) -> Frame:
    from pyspark.sql import functions as f

    return frame.groupBy("k").agg(f.sum("v").alias("total"), f.max("name").alias("last"))


def count_all(frame: Frame) -> Frame:
    return frame.groupBy().count()


def windowed(frame: Frame) -> Frame:
    from pyspark.sql import functions as f

    watermarked = frame.withWatermark("t", "10 seconds")
    return watermarked.groupBy(f.window("t", "5 seconds"), "k").agg(f.count("*").alias("n"))


def session_window(frame: Frame) -> Frame:
    from pyspark.sql import functions as f

    watermarked = frame.withWatermark("t", "10 seconds")
    return watermarked.groupBy(f.session_window("t", "3 seconds"), "k").agg(f.count("*").alias("n"))


def join(frame: Frame) -> Frame:
    from pyspark.sql import functions as f

    left = frame.withWatermark("t", "10 seconds")
    right = frame.selectExpr("k as k2", "t as t2", "v as w").withWatermark("t2", "10 seconds")
    return left.join(right, f.expr("k = k2 AND t2 >= t AND t2 <= t + interval 5 seconds"))


def limited(frame: Frame) -> Frame:
    return frame.limit(1000)


def two_operators(frame: Frame) -> Frame:
    return frame.dropDuplicates(["k", "v"]).groupBy("k").count()


def pandas_state(frame: Frame) -> Frame:
    def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        before = state.get[0] if state.exists else 0
        total = before + sum(len(f) for f in frames)
        state.update((total,))
        yield pd.DataFrame({"k": [key[0]], "n": [total]})

    return frame.groupBy("k").applyInPandasWithState(count, "k long, n long", "n long", "update", "NoTimeout")


def transform_with_state(frame: Frame) -> Frame:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")
            self.seen = handle.getListState("seen", "v long")
            self.names = handle.getMapState("names", "name string", "v long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            import pandas as pd

            total = self.count.get()[0] if self.count.exists() else 0
            for frame in rows:
                total += len(frame)
                for v, name in zip(frame["v"], frame["name"], strict=True):
                    self.seen.appendValue((int(v),))
                    self.names.updateValue((name,), (int(v),))
            self.count.update((total,))
            yield pd.DataFrame({"k": [key[0]], "n": [total]})

        def close(self) -> None:
            pass

    return frame.groupBy("k").transformWithStateInPandas(
        statefulProcessor=Counting(), outputStructType="k long, n long", outputMode="Update", timeMode="None"
    )


@dataclass(frozen=True)
class Case:
    """One query over `batches` batches of one file each, with settings below spark.sql.streaming.

    `more` batches follow after a restart, with `later` settings, once a snapshot of the first part is on disk.
    """

    name: str
    query: Callable[[Frame], Frame]
    mode: str = "append"
    provider: str = HDFS
    conf: dict[str, str] = field(default_factory=dict)
    batches: int = BATCHES
    more: int = 0
    later: dict[str, str] = field(default_factory=dict)


CHANGELOG = {"stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
FORMAT_2 = {"stateStore.checkpointFormatVersion": "2"}
SNAPSHOTS = {"stateStore.minDeltasForSnapshot": "3"}
NO_MORE = {"stateStore.minDeltasForSnapshot": "100"}

CASES = (
    Case("hdfs-dedupe", dedupe),
    Case("hdfs-dedupe-snapshots", dedupe, conf=SNAPSHOTS, more=2, later=NO_MORE),
    Case("hdfs-within-watermark", within_watermark),
    Case("hdfs-aggregate", aggregate, "update"),
    Case("hdfs-global-aggregate", count_all, "update"),
    Case("hdfs-window", windowed, "append"),
    Case("hdfs-session-window", session_window),
    Case("hdfs-join", join),
    Case("hdfs-limit", limited),
    Case("hdfs-two-operators", two_operators, "update"),
    Case("hdfs-pandas-state", pandas_state, "update"),
    Case("hdfs-zstd", dedupe, conf={"stateStore.compression.codec": "zstd"}),
    Case("rocksdb-dedupe", dedupe, provider=ROCKS),
    Case("rocksdb-aggregate", aggregate, "update", ROCKS),
    Case("rocksdb-join", join, provider=ROCKS),
    Case("rocksdb-join-3", join, provider=ROCKS, conf={"join.stateFormatVersion": "3"}),
    Case("rocksdb-transform", transform_with_state, "update", ROCKS),
    Case("rocksdb-changelog", dedupe, provider=ROCKS, conf=CHANGELOG),
    Case(
        "rocksdb-changelog-snapshots",
        dedupe,
        provider=ROCKS,
        conf=CHANGELOG | SNAPSHOTS,
        more=2,
        later=NO_MORE,
    ),
    Case("rocksdb-changelog-transform", transform_with_state, "update", ROCKS, CHANGELOG),
    Case("rocksdb-changelog-later", dedupe, provider=ROCKS, batches=2, more=2, later=CHANGELOG),
    Case("rocksdb-changelog-join-3", join, provider=ROCKS, conf=CHANGELOG | {"join.stateFormatVersion": "3"}),
    Case("rocksdb-sst-6", dedupe, provider=ROCKS, conf={"stateStore.rocksdb.formatVersion": "6"}),
    Case("rocksdb-2-limit", limited, provider=ROCKS, conf=FORMAT_2),
    Case("rocksdb-2", dedupe, provider=ROCKS, conf=FORMAT_2),
    Case("rocksdb-2-changelog", aggregate, "update", ROCKS, CHANGELOG | FORMAT_2),
    Case(
        "rocksdb-2-snapshots",
        dedupe,
        provider=ROCKS,
        conf=CHANGELOG | FORMAT_2 | SNAPSHOTS,
        more=2,
        later=NO_MORE,
    ),
    Case("rocksdb-2-join", join, provider=ROCKS, conf=CHANGELOG | FORMAT_2),
    Case("rocksdb-2-transform", transform_with_state, "update", ROCKS, CHANGELOG | FORMAT_2),
)


def session(warehouse: Path) -> Any:
    """A session for these checkpoints; one that is there already is taken and keeps its own conf otherwise."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    found = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("OFF")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs from finalizers, when pytest has gone
    # Maintenance writes the snapshots; its interval is read when the first store opens, so it begins anew here.
    found.conf.set(f"{PREFIX}stateStore.maintenanceInterval", "100ms")
    found._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    return found


def put(folder: Path, number: int, keys: Iterable[int] = ()) -> None:
    """One input file: of these keys, else of four, two of which were in the file before."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"k": k, "v": number, "name": f"n{number}", "t": f"2026-01-01T00:00:{number * 4 % 60:02d}Z"}
        for k in keys or range(2 * number, 2 * number + 4)
    ]
    file = folder / f"{number:03d}.json"
    hidden = folder / f".{number:03d}.json"
    hidden.write_text("".join(json.dumps(r) + "\n" for r in rows))
    os.utime(hidden, (EPOCH + number, EPOCH + number))
    hidden.rename(file)


def write(spark: Any, case: Case, root: Path) -> Path:
    """Run one case below `root`; gives its checkpoint. Raises what Spark raises."""
    checkpoint = root / case.name / "checkpoint"
    for number in range(case.batches):
        put(root / case.name / "in", number)
    run(spark, case, root)
    if case.more:
        if "stateStore.minDeltasForSnapshot" in case.conf:
            _wait_for_snapshots(checkpoint)
        for number in range(case.batches, case.batches + case.more):
            put(root / case.name / "in", number)
        run(spark, case, root, case.later)
    return checkpoint


def _wait_for_snapshots(checkpoint: Path) -> None:
    """Spark's maintenance thread writes them a moment after the query has ended; one in each partition."""
    end = time.monotonic() + 30
    while len([*checkpoint.glob("state/0/*/*.snapshot"), *checkpoint.glob("state/0/*/*.zip")]) < 2:
        if time.monotonic() > end:
            raise TimeoutError(f"no snapshot in {checkpoint}")
        time.sleep(0.1)


def run(
    spark: Any,
    case: Case,
    root: Path,
    later: dict[str, str] | None = None,
    each: Callable[[Frame, int], None] | None = None,
) -> None:
    """Start (or go on with) a case over all files that are there; `each` is given what a batch gives out."""
    settings = {"stateStore.providerClass": case.provider, **case.conf, **(later or {})}
    for name, value in settings.items():
        spark.conf.set(PREFIX + name, value)
    try:
        reader = spark.readStream.schema("k long, v long, name string, t timestamp")
        frame = reader.option("maxFilesPerTrigger", 1).json(str(root / case.name / "in"))
        writer = case.query(frame).writeStream.outputMode(case.mode)
        writer = writer.foreachBatch(each) if each else writer.format("noop")
        writer = writer.option("checkpointLocation", str(root / case.name / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        for name in settings:
            spark.conf.unset(PREFIX + name)


def pack(checkpoint: Path, archive: Path) -> None:
    """A checkpoint as tar.xz, names from the checkpoint's own root, no owner."""

    def bare(item: tarfile.TarInfo) -> tarfile.TarInfo:
        item.uid = item.gid = 0
        item.uname = item.gname = ""
        return item

    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as bundle:
        bundle.add(checkpoint, arcname=".", filter=bare)


def unpack(name: str, to: Path, *, moved: bool = False) -> Path:
    """The checkpoint of a case, as real Spark wrote it; its absolute paths are those of `to` unless `moved`."""
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as bundle:
        bundle.extractall(to, filter="data")
    for file in to.glob("state/*/_metadata/v2/[0-9]*") if not moved else ():
        text = file.read_text().replace(f"file:{WRITTEN_AT}/{name}/checkpoint/", f"file:{to}/")
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text(text)
    return to


def main(where: Path, wanted: list[str]) -> None:
    spark = session(where / "warehouse")
    try:
        for case in CASES:
            if not wanted or case.name in wanted:
                pack(write(spark, case, where), FIXTURES / f"{case.name}.tar.xz")
    finally:
        spark.stop()
        shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
