"""Kafka on real Spark: a seed, or `startingOffsets`, goes on with exactly the unread records."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, seed
from recovery.contracts.amounts import Amount
from recovery.sources import kafka as adapter
from recovery.sources.base import Distance, SourceRetention
from recovery.sources.live import kafka as live
from tests.connected_spark import ConnectedSpark
from tests.kafka import KafkaBroker, until
from tests.unit.checkpoints.seeding import free

pytestmark = pytest.mark.spark

NOT_MATCH = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
# One update: everything that is there, to parquet. `files`: a second source, of JSON files.
UPDATE = """
reader = spark.readStream.format("kafka").options(**options)
frame = reader.load().selectExpr("cast(value as string) as value")
if files:
    more = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).json(files)
    frame = frame.union(more) if not swapped else more.union(frame)
if stateful:
    frame = frame.dropDuplicates(["value"])
writer = frame.writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
spark.catalog.refreshByPath(table)
answer = sorted(row.value for row in spark.read.parquet(table).collect())
"""


@dataclass
class Stream:
    """Topic (and perhaps files) -> parquet, with version `version` of a flow's checkpoint."""

    spark: ConnectedSpark
    kafka: KafkaBroker
    topic: str
    root: Path
    version: int = 0
    files: bool = False
    swapped: bool = False

    @property
    def options(self) -> dict[str, str]:
        """The reader's."""
        servers = {"kafka.bootstrap.servers": self.kafka.address, "subscribe": self.topic}
        return {**servers, "startingOffsets": "earliest"}

    @property
    def flow(self) -> str:
        return str(self.root / "flow")

    @property
    def table(self) -> str:
        return str(self.root / "table")

    def attempt(self, *, stateful: bool, table: str | None = None, **options: str) -> dict[str, Any]:
        return self.spark.attempt(
            UPDATE,
            options={**self.options, **options},
            files=str(self.root / "in") if self.files else "",
            swapped=self.swapped,
            stateful=stateful,
            table=table or self.table,
            checkpoint=f"{self.flow}/{self.version}",
        )

    def run(self, *, stateful: bool, table: str | None = None, **options: str) -> list[str]:
        """The values in the table after one more update."""
        said = self.attempt(stateful=stateful, table=table, **options)
        assert "problem" not in said, said["problem"]
        return list(said["answer"])

    def put_file(self, *values: str) -> None:
        folder = self.root / "in"
        folder.mkdir(exist_ok=True)
        hidden = folder / ".new"
        hidden.write_text("".join(json.dumps({"value": v}) + "\n" for v in values))
        hidden.rename(folder / f"{values[0]}.json")

    def seed(self) -> seed.PreparedCheckpoint:
        plan = seed.plan_seed(inspect_checkpoint(self.flow, sink=self.table))
        made = seed.prepare_seed(self.flow, plan, recovery="R-1", fence=1, guard=free)
        self.version = seed.publish_checkpoint(self.flow, made, guard=free)
        return made


def values(*numbers: int, of: str = "k") -> list[str]:
    return [f"{of}{n:03d}" for n in numbers]


@pytest.fixture
def stream(beside_spark: ConnectedSpark, kafka: KafkaBroker, tmp_path: Path) -> Stream:
    """A new topic of two partitions."""
    topic = f"t{tmp_path.name.replace('_', '-')}-{time.monotonic_ns()}"
    kafka.topic(topic, 2)
    return Stream(beside_spark, kafka, topic, tmp_path)


def broken(stream: Stream, updates: int = 2) -> None:
    """`updates` good updates of the stateful query, then one whose code has no state any more: Spark refuses it."""
    for n in range(updates):
        for partition in (0, 1):
            stream.kafka.put(stream.topic, values(*range(10 * n, 10 * n + 3), of=f"p{partition}-"), partition)
        if stream.files:
            stream.put_file(*values(10 * n, 10 * n + 1, of="f"))
        stream.run(stateful=True)
    for partition in (0, 1):
        stream.kafka.put(stream.topic, values(900, 901, of=f"p{partition}-"), partition)
    if stream.files:
        stream.put_file(*values(900, of="f"))
    assert NOT_MATCH in stream.attempt(stateful=False)["problem"]


def everything(stream: Stream, updates: int = 2) -> list[str]:
    """What was ever put, each once."""
    numbers = [10 * n + i for n in range(updates) for i in range(3)] + [900, 901]
    kafka = [v for p in (0, 1) for v in values(*numbers, of=f"p{p}-")]
    files = (
        values(*(10 * n + i for n in range(updates) for i in range(2)), 900, of="f") if stream.files else []
    )
    return sorted([*kafka, *files])


@pytest.mark.parametrize(
    ("updates", "files", "swapped"),
    [(1, False, False), (2, False, False), (2, True, False), (2, True, True)],
    ids=["batch 0 only", "Kafka alone", "Kafka and files", "files and Kafka"],
)
def test_a_seed_goes_on_with_exactly_the_unread_records(
    stream: Stream, updates: int, files: bool, swapped: bool
) -> None:
    """The failed update left a planned batch behind: its offsets are not taken for the position."""
    stream.files, stream.swapped = files, swapped
    broken(stream, updates)
    before = inspect_checkpoint(stream.flow, sink=stream.table)
    assert before.last_committed is not None
    assert before.last_planned == before.last_committed + 1
    source = next(s for s in before.sources if s.kind == "kafka")
    facts = live.read_topic_facts(stream.options, positions=[source.offset_json])
    latest = adapter.find_position(adapter.StartChoice(latest=True), source.offset_json, facts)
    assert latest.lost.rows == Amount(value=4)
    assert adapter.judge_reach(source.offset_json, facts).readable

    stream.seed()

    assert stream.run(stateful=False) == everything(stream, updates)
    after = inspect_checkpoint(stream.flow, sink=stream.table)
    assert (after.version, after.last_committed, after.blockers) == (1, before.last_committed + 1, ())
    stream.kafka.put(stream.topic, ["last"])
    assert stream.run(stateful=False) == sorted([*everything(stream, updates), "last"])


def test_a_batch_that_only_the_table_has_is_not_written_twice(stream: Stream) -> None:
    """A crash between the table's log and the commit."""
    broken(stream)
    newest = max(int(p.name) for p in (stream.root / "flow/0/commits").glob("[0-9]*"))
    # back to the moment before the commit of the newest batch that the table has
    (stream.root / f"flow/0/offsets/{newest + 1}").unlink()
    (stream.root / f"flow/0/offsets/.{newest + 1}.crc").unlink()
    (stream.root / f"flow/0/commits/{newest}").unlink()
    (stream.root / f"flow/0/commits/.{newest}.crc").unlink()
    report = inspect_checkpoint(stream.flow, sink=stream.table)
    assert (report.last_committed, report.last_planned) == (newest - 1, newest)
    assert "SINK_UNCOMMITTED_BATCH" in {f.code for f in report.findings}

    stream.seed()

    assert stream.run(stateful=False) == everything(stream)


def test_a_partition_that_came_after_the_position_is_read_from_its_first_record(stream: Stream) -> None:
    broken(stream)
    stream.kafka.widen(stream.topic, 3)
    stream.kafka.put(stream.topic, values(1, 2, of="p2-"), 2)
    stream.seed()
    assert stream.run(stateful=False) == sorted([*everything(stream), *values(1, 2, of="p2-")])


def test_starting_offsets_on_an_empty_checkpoint_read_exactly_the_unread_records_too(stream: Stream) -> None:
    """Into a table that knows no batches of the old checkpoint; a partition that came later is named with -2."""
    broken(stream)
    stream.kafka.widen(stream.topic, 3)
    stream.kafka.put(stream.topic, values(1, of="p2-"), 2)
    position = inspect_checkpoint(stream.flow).sources[0].offset_json
    facts = live.read_topic_facts(stream.options, positions=[position])
    option = adapter.find_start_option(position, facts)
    stream.version = 1
    fresh = str(stream.root / "fresh")

    read = stream.run(stateful=False, table=fresh, **option.options)

    assert read == sorted([*values(900, 901, of="p0-"), *values(900, 901, of="p1-"), *values(1, of="p2-")])
    began = (stream.root / "flow/1/sources/0/0").read_text().partition("\n")[2]
    assert adapter.list_parts(began)[:2] == adapter.list_parts(position)
    stream.kafka.put(stream.topic, ["last"])
    assert stream.run(stateful=False, table=fresh, **option.options) == sorted([*read, "last"])


def test_into_the_same_file_table_starting_offsets_lose_what_a_seed_keeps(stream: Stream) -> None:
    """Batch numbers begin at 0 again, and the table skips the numbers that it has: nothing arrives, no error."""
    broken(stream)
    position = inspect_checkpoint(stream.flow).sources[0].offset_json
    option = adapter.find_start_option(position, live.read_topic_facts(stream.options, positions=[position]))
    stream.version = 1
    read = stream.run(stateful=False, **option.options)
    assert set(everything(stream)) - set(read) == {*values(900, 901, of="p0-"), *values(900, 901, of="p1-")}


@pytest.mark.parametrize(
    "offsets", ['{"T":{"0":1}}', '{"T":{"0":1,"1":1,"2":0}}'], ids=["one left out", "one that is not there"]
)
def test_spark_refuses_starting_offsets_that_do_not_name_exactly_the_partitions(
    stream: Stream, offsets: str
) -> None:
    stream.kafka.put(stream.topic, ["a"])
    said = stream.attempt(stateful=False, startingOffsets=offsets.replace("T", stream.topic))
    assert "you must specify all TopicPartitions" in said["problem"]


@pytest.mark.parametrize("start", ["seed", "startingOffsets"])
@pytest.mark.parametrize("strict", ["true", "false"])
def test_what_spark_does_where_records_after_the_position_are_gone(
    stream: Stream, start: str, strict: str
) -> None:
    broken(stream)
    stream.kafka.delete_before(stream.topic, 7, 0)
    until(lambda: stream.kafka.bounds(stream.topic, 0)[0] == 7, "records are not deleted")
    position = inspect_checkpoint(stream.flow).sources[0].offset_json
    facts = live.read_topic_facts(stream.options, positions=[position])
    reach = adapter.judge_reach(position, facts)
    assert (reach.readable, reach.parts) == (False, (f"{stream.topic}-0",))
    assert reach.lost
    assert reach.lost.rows
    assert reach.lost.rows.value == 1
    if start == "seed":
        stream.seed()
        said = stream.attempt(stateful=False, failOnDataLoss=strict)
        kept = everything(stream)
    else:
        stream.version, fresh = 1, str(stream.root / "fresh")
        option = adapter.find_start_option(position, facts)
        said = stream.attempt(stateful=False, table=fresh, failOnDataLoss=strict, **option.options)
        kept = sorted([*values(900, 901, of="p0-"), *values(900, 901, of="p1-")])
    if strict == "true":
        assert "Some data may have been lost" in said["problem"]
    else:
        assert said["answer"] == sorted(set(kept) - {"p0-900"})


def told(stream: Stream) -> SourceRetention:
    """Of the committed position, as the code of now reads."""
    position = inspect_checkpoint(stream.flow).sources[0].offset_json
    return adapter.judge_reach(position, live.read_topic_facts(stream.options, positions=[position]))


@pytest.mark.parametrize("strict", ["true", "false"])
def test_what_spark_does_where_a_topic_is_no_longer_read(stream: Stream, strict: str) -> None:
    other = f"{stream.topic}-other"
    stream.kafka.topic(other, 1)
    both = f"{stream.topic},{other}"
    stream.kafka.put(stream.topic, ["a"], 0)
    stream.kafka.put(other, ["b"], 0)
    assert stream.run(stateful=False, subscribe=both) == ["a", "b"]
    stream.kafka.put(stream.topic, ["c"], 0)
    stream.kafka.put(other, ["never", "read"], 0)
    reach = told(stream)
    assert (reach.readable, reach.parts) == (False, (f"{other}-0",))
    assert reach.lost == Distance(rows=Amount(value=2))
    said = stream.attempt(stateful=False, failOnDataLoss=strict)
    if strict == "true":
        assert "Some data may have been lost" in said["problem"]
    else:
        assert said["answer"] == ["a", "b", "c"]


@pytest.mark.parametrize("strict", ["true", "false"])
def test_what_spark_does_where_a_partition_came_later_and_lost_its_first_records(
    stream: Stream, strict: str
) -> None:
    stream.kafka.put(stream.topic, ["a"], 0)
    assert stream.run(stateful=False) == ["a"]
    stream.kafka.widen(stream.topic, 3)
    stream.kafka.put(stream.topic, ["lost", "kept"], 2)
    stream.kafka.delete_before(stream.topic, 1, 2)
    until(lambda: stream.kafka.bounds(stream.topic, 2)[0] == 1, "records are not deleted")
    reach = told(stream)
    assert (reach.readable, reach.parts) == (False, (f"{stream.topic}-2",))
    assert reach.lost
    assert reach.lost.rows
    assert (reach.lost.rows.value, reach.lost.rows.exact) == (1, False)
    said = stream.attempt(stateful=False, failOnDataLoss=strict)
    if strict == "true":
        assert "Some data may have been lost" in said["problem"]
        assert "instead of 0" in said["problem"]
    else:
        assert said["answer"] == ["a", "kept"]
