"""Checkpoints of Kafka, Delta and Iceberg streams, with the real connectors and a real Kafka broker.

Tests read the copies in tests/fixtures/written_by/<system>-…. To make those of one system again, in an environment
with PySpark (tests/fixtures/written_by/README.md names the versions and where the archives come from):

    python -m tests.written_with_connectors kafka|delta|iceberg /tmp/streams [CASE...] [--jars JARS]

Archives of Kafka and Delta are the locked ones, brought when they are missing; Iceberg's lie in the directory JARS.
The directory of the streams stays in the copies.
"""

import argparse
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.state_checkpoints import session
from tests.written_by_others import FIXTURES, go, pack_scene, say, until_batch

EXTENSIONS = {
    "delta": (
        "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
        "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog "
        "--conf spark.databricks.delta.snapshotPartitions=1"
    ),
    "iceberg": (
        "--conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions "
        "--conf spark.sql.catalog.ice=org.apache.iceberg.spark.SparkCatalog "
        "--conf spark.sql.catalog.ice.type=hadoop"
    ),
    "kafka": "",
}


class Kafka:
    """What a scene asks of the broker, through Spark's own client."""

    def __init__(self, spark: Any, address: str) -> None:
        self.spark, self.address = spark, address
        jvm = spark._jvm
        properties = jvm.java.util.Properties()
        properties.put("bootstrap.servers", address)
        self.admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        self.jvm = jvm

    def topic(self, name: str, partitions: int) -> None:
        topics = self.jvm.java.util.ArrayList()
        topics.add(self.jvm.org.apache.kafka.clients.admin.NewTopic(name, partitions, 1))
        self.admin.createTopics(topics).all().get()

    def partitions(self, name: str, count: int) -> None:
        wanted = self.jvm.java.util.HashMap()
        wanted.put(name, self.jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(count))
        self.admin.createPartitions(wanted).all().get()

    def put(self, name: str, count: int, partitions: int) -> None:
        """`count` records to each of the partitions."""
        rows = self.spark.range(count * partitions)
        told = rows.selectExpr(
            "cast(id as string) as value",
            f"cast(id % {partitions} as int) as partition",
            f"'{name}' as topic",
        )
        self.sink(told.write).save()

    def sink(self, writer: Any) -> Any:
        return writer.format("kafka").option("kafka.bootstrap.servers", self.address)

    def stream(self, *topics: str, limit: int | None = None) -> Any:
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.address)
        reader = reader.option("subscribe", ",".join(topics)).option("startingOffsets", "earliest")
        return (reader.option("maxOffsetsPerTrigger", limit) if limit else reader).load()


def kafka_to_files(kafka: Kafka, root: Path) -> None:
    """Three partitions, read in small batches; then a fourth is added."""
    kafka.topic("orders", 3)
    kafka.put("orders", 10, 3)

    def run() -> None:
        frame = kafka.stream("orders", limit=12).selectExpr("cast(value as string) as value")
        go(frame.writeStream.format("json").option("path", str(root / "table")), root)

    run()
    kafka.partitions("orders", 4)
    kafka.put("orders", 4, 4)
    run()


def kafka_two_topics(kafka: Kafka, root: Path) -> None:
    """Two topics in one source beside a third in another; the last batch is planned and fails."""
    for name in ("left.a", "left_b", "right"):
        kafka.topic(name, 2)
        kafka.put(name, 5, 2)

    def run(each: Callable[[Any, int], None]) -> None:
        both = kafka.stream("left.a", "left_b").union(kafka.stream("right"))
        go(both.writeStream.foreachBatch(each), root)

    def fails(frame: Any, number: int) -> None:
        raise ValueError("this batch is planned only")

    run(lambda frame, number: frame.count() and None)
    kafka.put("right", 3, 2)
    try:
        run(fails)
    except Exception as problem:
        say(f"planned only: {type(problem).__name__}")


def kafka_async(kafka: Kafka, root: Path) -> None:
    """Kafka to Kafka, progress put down every two seconds and batches ten a second."""
    kafka.topic("ticks", 2)
    kafka.topic("out", 1)
    kafka.put("ticks", 200, 2)
    frame = kafka.stream("ticks", limit=4).selectExpr("value")
    writer = kafka.sink(frame.writeStream).option("topic", "out")
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer = writer.option("asyncProgressTrackingEnabled", "true")
    writer = writer.option("asyncProgressTrackingCheckpointIntervalMs", "2000")
    until_batch(writer.trigger(processingTime="100 milliseconds").start(), 45)


def delta_rows(spark: Any, table: Path, first: int, files: int, **options: str) -> None:
    """One commit of `files` files of two rows each."""
    frame = spark.range(first, first + 2 * files, 1, files).selectExpr("id", "id % 3 as k")
    frame.write.format("delta").mode("append").options(**options).save(str(table))


def delta_stream(spark: Any, root: Path, **options: Any) -> Any:
    reader = spark.readStream.format("delta").options(maxFilesPerTrigger=1, **options)
    return reader.load(str(root / "source"))


def to_delta(frame: Any, root: Path) -> Any:
    writer = frame.writeStream.format("delta").option("path", str(root / "table"))
    return writer.option("checkpointLocation", str(root / "checkpoint"))


def delta_complete(spark: Any, root: Path) -> None:
    """A snapshot of four files, then two commits of three files: all is read."""
    delta_rows(spark, root / "source", 0, 4)
    go(to_delta(delta_stream(spark, root), root), root)
    for number in (1, 2):
        delta_rows(spark, root / "source", 100 * number, 3)
    go(to_delta(delta_stream(spark, root), root), root)


def delta_within_snapshot(spark: Any, root: Path) -> None:
    """Stopped after two of the six files of the first snapshot."""
    delta_rows(spark, root / "source", 0, 6)
    query = to_delta(delta_stream(spark, root), root)
    until_batch(query.trigger(processingTime="5 seconds").start(), 1)


def delta_within_version(spark: Any, root: Path) -> None:
    """Stopped after two of the six files of a later commit."""
    delta_rows(spark, root / "source", 0, 1)
    delta_rows(spark, root / "source", 100, 6)
    query = to_delta(delta_stream(spark, root, startingVersion=1), root)
    until_batch(query.trigger(processingTime="5 seconds").start(), 1)


def delta_change_feed(spark: Any, root: Path) -> None:
    """The changes of a table: appended, updated, deleted."""
    source = root / "source"
    name = f"delta.`{source}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    delta_rows(spark, source, 0, 2)
    spark.sql(f"UPDATE {name} SET k = 9 WHERE id = 1")  # noqa: S608 (a name of ours)
    spark.sql(f"DELETE FROM {name} WHERE id = 2")  # noqa: S608
    frame = delta_stream(spark, root, readChangeFeed="true", startingVersion=1)
    go(to_delta(frame.selectExpr("id", "k", "_change_type as change"), root), root)


def delta_schema_log(spark: Any, root: Path) -> None:
    """With a log of schemas, which a column's new name moves on; the stream stops to be started again."""
    source = root / "source"
    name = f"delta.`{source}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING delta TBLPROPERTIES "
        "(delta.columnMapping.mode = 'name', delta.minReaderVersion = 2, delta.minWriterVersion = 5)"
    )
    delta_rows(spark, source, 0, 2)
    options = {"schemaTrackingLocation": str(root / "checkpoint" / "_schema_log")}
    options |= {"allowSourceColumnRename": "always"}

    def run() -> bool:
        frame = delta_stream(spark, root, **options).selectExpr("id")
        try:
            go(frame.writeStream.format("noop"), root)
        except Exception as problem:
            say(f"stopped: {str(problem).splitlines()[0][:160]}")
            return False
        return True

    while not run():
        pass
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN k TO key")
    spark.range(50, 54).selectExpr("id", "id as key").write.format("delta").mode("append").save(str(source))
    for _ in range(4):
        if run():
            break


def iceberg_stream(spark: Any, root: Path, commits: int, files: int) -> Any:
    """A writer between two new tables of the scene's own; `commits` of `files` files are there to read."""
    source, sink = (f"ice.{root.name.replace('-', '_')}.{name}" for name in ("source", "sink"))
    for table in (source, sink):
        spark.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    for number in range(commits):
        spark.range(10 * number, 10 * number + 2 * files, 1, files).writeTo(source).append()
    reader = spark.readStream.format("iceberg").option("streaming-max-files-per-micro-batch", 1)
    writer = reader.load(source).writeStream.format("iceberg").outputMode("append").option("path", sink)
    return writer.option("checkpointLocation", str(root / "checkpoint"))


def iceberg_complete(spark: Any, root: Path) -> None:
    """Two commits of three files, all read."""
    go(iceberg_stream(spark, root, 2, 3), root)


def iceberg_within_snapshot(spark: Any, root: Path) -> None:
    """Stopped after two of the five files of the first of two commits."""
    until_batch(iceberg_stream(spark, root, 2, 5).trigger(processingTime="5 seconds").start(), 1)


SCENES: dict[str, tuple[Callable[[Any, Path], None], ...]] = {
    "kafka": (kafka_to_files, kafka_two_topics, kafka_async),
    "delta": (
        delta_complete,
        delta_within_snapshot,
        delta_within_version,
        delta_change_feed,
        delta_schema_log,
    ),
    "iceberg": (iceberg_complete, iceberg_within_snapshot),
}


def write_all(system: str, spark: Any, where: Path, address: str | None, wanted: list[str]) -> None:
    handle = Kafka(spark, address) if address else spark
    for scene in SCENES[system]:
        name = scene.__name__.replace("_", "-")
        if wanted and name not in wanted:
            continue
        say(name)
        scene(handle, where / name)
        shutil.rmtree(where / name / "source", ignore_errors=True)
        pack_scene(where / name, FIXTURES / f"{system}-{spark.version}" / f"{name}.tar.xz")


def locked() -> Path:
    """The folder of the locked connectors."""
    from console.supervisor import jars

    return jars.ensure_jars("connectors")[0].parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system", choices=SCENES)
    parser.add_argument("where", type=Path)
    parser.add_argument("wanted", nargs="*")
    parser.add_argument("--jars", type=Path, help="of Iceberg")
    options = parser.parse_args()
    if (options.system == "iceberg") != (options.jars is not None):
        parser.error("--jars is for Iceberg, and needed there")
    conf = f"--conf spark.driver.extraClassPath={options.jars or locked()}/* {EXTENSIONS[options.system]}"
    if options.system == "iceberg":
        conf += f" --conf spark.sql.catalog.ice.warehouse={options.where}/warehouse"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{conf} pyspark-shell"
    spark = session(options.where / "warehouse")
    began = time.monotonic()
    try:
        if options.system == "kafka":
            from tests.kafka import running  # needs the project's own environment, as Iceberg's scenes do not

            with running() as broker:
                write_all(options.system, spark, options.where, broker.address, options.wanted)
        else:
            write_all(options.system, spark, options.where, None, options.wanted)
    finally:
        spark.stop()
        shutil.rmtree(options.where, ignore_errors=True)
        say(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
