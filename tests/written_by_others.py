"""Checkpoints that other versions of Spark wrote, each the same small streams as far as the version has them.

Tests read the copies in tests/fixtures/written_by/spark-<version>. To make those of one version again, in an
environment outside of the project's that has this PySpark (README.md there says how):

    python -m tests.written_by_others /tmp/streams [CASE...]

The directory stays in the copies, since Spark writes absolute paths.
"""

import shutil
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.state_checkpoints import CASES, PREFIX, WRITTEN_AT, Frame, pack, put, session, write

FIXTURES = Path(__file__).parent / "fixtures" / "written_by"
FILES = 7

# Of tests/state_checkpoints.py: what every version has, and what came with 4.0.
SINCE_3_5 = (
    "hdfs-aggregate",
    "hdfs-dedupe-snapshots",
    "hdfs-join",
    "hdfs-limit",
    "hdfs-pandas-state",
    "hdfs-session-window",
    "hdfs-two-operators",
    "hdfs-within-watermark",
    "rocksdb-aggregate",
    "rocksdb-changelog",
    "rocksdb-changelog-snapshots",
    "rocksdb-join",
)
SINCE_4_0 = (
    "rocksdb-transform",
    "rocksdb-2",
    "rocksdb-2-changelog",
    "rocksdb-2-snapshots",
    "rocksdb-2-join",
    "rocksdb-2-transform",
)


@dataclass(frozen=True)
class Scene:
    """A stream that keeps no state. `write` is given a session and the scene's directory, and makes `checkpoint`
    (and `table`) in it. `since`: the first version that can run it."""

    name: str
    write: Callable[[Any, Path], None]
    since: tuple[int, int] = (3, 5)


def json_files(spark: Any, folder: Path) -> Frame:
    """A file a batch."""
    reader = spark.readStream.schema("k long, v long, name string, t timestamp")
    return reader.option("maxFilesPerTrigger", 1).json(str(folder))


def files_to_files(spark: Any, root: Path) -> None:
    """Seven batches of a file each; the source's log and the table's are compacted every third entry."""
    for number in range(FILES):
        put(root / "in", number)
    with settings(spark, {"fileSource.log.compactInterval": "3", "fileSink.log.compactInterval": "3"}):
        writer = json_files(spark, root / "in").writeStream.format("json")
        writer = writer.option("path", str(root / "table"))
        go(writer, root)


def one_source_twice(spark: Any, root: Path) -> None:
    """A stream that is read in two branches, beside another: three lines of offsets and two logs."""
    for number in range(4):
        put(root / "a", number)
    for number in range(2):
        put(root / "b", number)
    a, b = json_files(spark, root / "a"), json_files(spark, root / "b")
    go(a.where("v = 1").union(a.where("v <> 1")).union(b).writeStream.format("noop"), root)


def named_sources(spark: Any, root: Path) -> None:
    """Two sources with names, in offset files of format 2."""
    for side in ("a", "b"):
        for number in range(3):
            put(root / side, number)
    evolution = {"queryEvolution.enableSourceEvolution": "true", "offsetLog.formatVersion": "2"}
    with settings(spark, evolution):
        sides = []
        for side in ("a", "b"):
            reader = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1)
            sides.append(reader.name(f"side_{side}").format("json").load(str(root / side)))
        go(sides[0].union(sides[1]).writeStream.format("noop"), root)


def offsets_2(spark: Any, root: Path) -> None:
    """Offset files of format 2 without names."""
    for number in range(3):
        put(root / "in", number)
    with settings(spark, {"offsetLog.formatVersion": "2"}):
        go(json_files(spark, root / "in").writeStream.format("noop"), root)


def rate_micro_batch(spark: Any, root: Path) -> None:
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2)
    query = reader.load().writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint"))
    until_batch(query.trigger(processingTime="200 milliseconds").start(), 3)


def rate(spark: Any, root: Path) -> None:
    reader = spark.readStream.format("rate").option("rowsPerSecond", 1)
    query = reader.load().writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint"))
    until_batch(query.trigger(processingTime="500 milliseconds").start(), 3)


def async_progress(spark: Any, root: Path) -> None:
    """Progress put down every two seconds and batches ten a second: most batches leave no file."""
    reader = spark.readStream.format("rate").option("rowsPerSecond", 50)
    query = reader.load().writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint"))
    query = query.option("asyncProgressTrackingEnabled", "true")
    query = query.option("asyncProgressTrackingCheckpointIntervalMs", "2000")
    until_batch(query.trigger(processingTime="100 milliseconds").start(), 45)


SCENES = (
    Scene("files-to-files", files_to_files),
    Scene("one-source-twice", one_source_twice),
    Scene("rate", rate),
    Scene("rate-micro-batch", rate_micro_batch),
    Scene("async-progress", async_progress),
    Scene("offsets-2", offsets_2, since=(4, 2)),
    Scene("named-sources", named_sources, since=(4, 2)),
)


class settings:
    """Settings below spark.sql.streaming while this lasts."""

    def __init__(self, spark: Any, values: dict[str, str]) -> None:
        self.spark, self.values = spark, values

    def __enter__(self) -> None:
        for name, value in self.values.items():
            self.spark.conf.set(PREFIX + name, value)

    def __exit__(self, *_: object) -> None:
        for name in self.values:
            self.spark.conf.unset(PREFIX + name)


def go(writer: Any, root: Path) -> None:
    """Run until all input is read."""
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def until_batch(query: Any, number: int) -> None:
    """Let it run until this batch is done, then stop it between two batches."""
    while query.isActive:
        last = query.lastProgress
        if last and last["batchId"] >= number and not query.status["isTriggerActive"]:
            break
        query.awaitTermination(0.05)
    query.stop()


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def pack_scene(root: Path, archive: Path) -> None:
    """A scene's checkpoint and table; its input stays behind."""
    for name in ("in", "a", "b"):
        shutil.rmtree(root / name, ignore_errors=True)
    pack(root, archive)


def unpack(version: str, name: str, to: Path, *, moved: bool = False) -> Path:
    """The directory with the `checkpoint` (and `table`) of a case, as it was written; the absolute paths in it are
    those of `to` unless `moved`."""
    with tarfile.open(FIXTURES / version / f"{name}.tar.xz") as bundle:
        bundle.extractall(to, filter="data")
    absolute = [*to.glob("checkpoint/state/*/_metadata/v2/[0-9]*"), *to.glob("table/_spark_metadata/[0-9]*")]
    for file in absolute if not moved else ():
        text = file.read_text()
        for slashes in ("", "//"):
            text = text.replace(f"file:{slashes}{WRITTEN_AT}/{name}/", f"file:{slashes}{to}/")
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text(text)
    return to


def main(where: Path, wanted: list[str]) -> None:
    spark = session(where / "warehouse")
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    folder = FIXTURES / f"spark-{spark.version}"
    names = SINCE_3_5 + (SINCE_4_0 if version >= (4, 0) else ())
    try:
        for case in CASES if version != (4, 2) else ():
            if case.name in names and (not wanted or case.name in wanted):
                say(case.name)
                write(spark, case, where)
                pack_scene(where / case.name, folder / f"{case.name}.tar.xz")
        for scene in SCENES:
            if version >= scene.since and (not wanted or scene.name in wanted):
                say(scene.name)
                scene.write(spark, where / scene.name)
                pack_scene(where / scene.name, folder / f"{scene.name}.tar.xz")
    finally:
        spark.stop()
        shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
