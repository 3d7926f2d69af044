"""A pipeline whose flow reads clicks from Kafka and writes to a sink that its code declares, and fails at an edit."""

from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from console.incident.clicks import PARTITIONS, Clicks, list_clicks, make_topic, write_clicks
from console.incident.updates import (
    Edit,
    WantedPipeline,
    ensure_pipeline,
    failing_update,
    good_updates,
    ignore_progress,
)
from recovery.pipelines.client import PipelinesClient

SINK, FLOW = "clicks_out", "to_sink"
CODE = '''"""Clicks, each sent on once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SERVERS = "{servers}"
CLICK = "click_id BIGINT, page STRING, country STRING, at TIMESTAMP"

spark = SparkSession.active()


def clicks() -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", "{topic}")
        .option("startingOffsets", "earliest")
        .load()
        .select(F.from_json(F.col("value").cast("string"), CLICK).alias("click"))
        .select("click.*")
    )


dp.create_sink(name="clicks_out", format="{format}", options={options})


@dp.append_flow(target="clicks_out", name="to_sink")
def to_sink() -> DataFrame:
    return clicks(){steps}.select(
        F.col("click_id").cast("string").alias("key"), F.to_json(F.struct("click_id", "page")).alias("value")
    )
'''
TABLE = """

@dp.table
def kept() -> DataFrame:
    return clicks()
"""


@dataclass(frozen=True)
class SinkFlow:
    """A failed pipeline: 270 clicks were sent on, 90 wait."""

    name: str
    pipeline_id: str
    servers: str
    topic: str
    arrivals: Clicks

    def sent(self) -> list[tuple[str, str]]:
        """Key and value of every record that is in the topic now, partition by partition."""
        return records(self.servers, self.topic)


def fail(
    client: PipelinesClient, servers: str, name: str, *, kind: str = "kafka", with_table: bool = False
) -> SinkFlow:
    """The pipeline `name`, run until its flow fails: dropDuplicates was taken out. `kind`: the sink's format."""
    coming, source, topic = list_clicks(), f"{name}-in", f"{name}-out"
    make_topic(servers, source)
    make_topic(servers, topic)
    options = {"kafka.bootstrap.servers": servers, "topic": topic} if kind == "kafka" else {}

    def code(steps: str) -> str:
        told = {"servers": servers, "topic": source, "format": kind, "options": options, "steps": steps}
        return CODE.format(**told) + (TABLE if with_table else "")

    wanted = WantedPipeline(name, f"db_{name}")
    pipeline = ensure_pipeline(client, wanted, code('.dropDuplicates(["click_id"])'))

    def some(batch: int) -> str:
        write_clicks(servers, source, [c for held in coming.good[: batch + 1] for c in held])
        return "clicks"

    good_updates(client, pipeline, len(coming.good), some, ignore_progress)

    def the_rest() -> str:
        write_clicks(servers, source, coming.all())
        return "clicks"

    failing_update(
        client, pipeline, Edit(wanted.source, code(""), "no dropDuplicates"), the_rest, ignore_progress
    )
    return SinkFlow(name, pipeline, servers, topic, coming)


def records(servers: str, topic: str) -> list[tuple[str, str]]:
    """Key and value of every record of a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "log_level": 0})
    found = []
    try:
        for number in range(PARTITIONS):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
            consumer.assign([TopicPartition(topic, number, low)])
            for _ in range(high - low):
                record = consumer.poll(30)
                assert record is not None
                assert record.error() is None
                found.append(((record.key() or b"").decode(), (record.value() or b"").decode()))
    finally:
        consumer.close()
    return found


def send(servers: str, topic: str, told: Sequence[tuple[str, str]]) -> None:
    """Records of somebody else, or of an attempt that failed."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for key, value in told:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0
