"""What the brokers say of a Kafka source's topics, and the offsets of its partitions as values. Pure.

An offset counts records only where nothing took any out: compaction removes records, and each transaction puts
markers among them, which are offsets without a record. So a difference of offsets is at most that many rows; their
exact number is known where the records themselves were counted (`PartitionFacts.counts`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from recovery.checkpoints import positions
from recovery.checkpoints.formats import Malformed, object_of
from recovery.contracts.amounts import Amount, Bound, joint_bound

EARLIEST, LATEST = -2, -1  # JsonUtils: what `startingOffsets` may say in place of an offset
MAX_PARTITION, MAX_OFFSET = 2**31 - 1, 2**63 - 1
NAMED = {EARLIEST: "earliest", LATEST: "latest"}

STARTING = (
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
)  # Spark takes the first that is set

Key = tuple[str, int]  # topic, partition
Offsets = Mapping[Key, int]  # the next offset to read; -2 and -1 as above
Span = tuple[Key, int, int]  # partition, first offset, the one after the last


@dataclass(frozen=True)
class PartitionFacts:
    """One partition."""

    #: the first offset that is there
    low: int
    #: the next offset to be written
    high: int
    #: offset -> time of the first record at or after it, ms since the epoch, where it was asked for
    times: Mapping[int, int] = field(default_factory=dict)
    #: time asked for, in ms -> the first offset with a record of that time or later; None: past the last record
    at: Mapping[int, int | None] = field(default_factory=dict)
    #: offset -> records before it, counted from the smallest offset in it
    counts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicFacts:
    """What the brokers say of a topic. `retention_ms`, `retention_bytes`: None where nothing is deleted by it.

    `plain`: every offset is known to be a record, since the topic is neither compacted nor written in transactions.
    """

    topic_id: str | None
    partitions: Mapping[int, PartitionFacts]
    cleanup: frozenset[str] = frozenset({"delete"})
    retention_ms: int | None = None
    retention_bytes: int | None = None
    plain: bool = False


@dataclass(frozen=True)
class KafkaFacts:
    """The topics of one source."""

    #: None: not asked, so nothing is known of them
    asked_at_ms: int | None = None
    #: a topic that is missing here is not there
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    #: topics that the reader subscribes to, with the partitions that it assigns; None: all of them
    read: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    #: ids that these topics had before; another id now means that a topic was deleted and made again
    noted: Mapping[str, str] = field(default_factory=dict)
    #: those of STARTING that the reader has in the code
    starting: tuple[str, ...] = ()

    def partition(self, key: Key) -> PartitionFacts | None:
        topic = self.topics.get(key[0])
        return topic.partitions.get(key[1]) if topic else None

    def remade(self, topic: str) -> bool:
        """Whether the topic of this name is another one than was noted."""
        noted, topic_now = self.noted.get(topic), self.topics.get(topic)
        return bool(noted and topic_now and topic_now.topic_id and topic_now.topic_id != noted)

    def subscribed(self) -> tuple[Key, ...]:
        """Every partition that a start has to name, in order."""
        keys = []
        for topic, only in self.read.items():
            partitions = self.topics[topic].partitions if topic in self.topics else {}
            keys += [(topic, number) for number in partitions if only is None or number in only]
        return tuple(sorted(keys))

    def reads(self, key: Key) -> bool:
        """Whether the reader is given this partition, where it is there."""
        only = self.read.get(key[0], frozenset())
        return only is None or key[1] in only

    def comparable(self, key: Key, at: int) -> bool:
        """Whether an offset of a checkpoint is one of the partition that is there now."""
        partition = self.partition(key)
        return partition is not None and not self.remade(key[0]) and at <= partition.high

    def rows(self, spans: Iterable[Span]) -> Amount:
        """Records of all spans together, exact only where each of them is. Their partitions are there."""
        value, reasons, bounds = 0, [], []
        for key, start, end in spans:
            amount = self._count_rows(key, start, end)
            value += amount.value
            bounds.append(amount.bound)
            if not amount.exact:
                reasons.append(amount.why)
        return Amount(value=value, bound=joint_bound(bounds), why="; ".join(dict.fromkeys(reasons)))

    def _count_rows(self, key: Key, start: int, end: int) -> Amount:
        topic, partition = self.topics[key[0]], self.topics[key[0]].partitions[key[1]]
        if start == end:
            return Amount(value=0)
        if start in partition.counts and end in partition.counts:
            return Amount(value=partition.counts[end] - partition.counts[start])
        if start < partition.low:
            why = "a part of these offsets is gone, so its records cannot be counted"
        elif topic.plain:
            return Amount(value=end - start)
        elif "compact" in topic.cleanup:
            why = "the topic is compacted, so not every offset is still a record"
        else:
            why = "the difference of offsets; markers of transactions take offsets too"
        return Amount(value=end - start, bound=Bound.AT_MOST, why=why)


def parse_offsets(offset_json: str | None) -> dict[Key, int]:
    """{(topic, partition): next offset}, in order; -2 and -1 stand for earliest and latest. Raises Malformed."""
    if offset_json is None:
        return {}
    body = object_of(offset_json)
    if not body or not positions.is_kafka(body):
        raise Malformed("it does not hold offsets by topic and partition")
    if any(len(number) > 10 or int(number) > MAX_PARTITION for held in body.values() for number in held):
        raise Malformed("it names a partition that Kafka cannot have")
    offsets = {(topic, int(number)): at for topic, held in body.items() for number, at in held.items()}
    if any(not EARLIEST <= at <= MAX_OFFSET for at in offsets.values()):
        raise Malformed("it holds an offset below -2, or beyond what Kafka can count")
    if len(offsets) < sum(len(held) for held in body.values()):
        raise Malformed("it names a partition twice")
    return dict(sorted(offsets.items()))


def write_offsets(offsets: Offsets) -> str:
    """The offset line, as JsonUtils.partitionOffsets writes it."""
    body: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(offsets.items()):
        body.setdefault(topic, {})[str(number)] = at
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def name_of(key: Key) -> str:
    """`topic-partition`, as Kafka itself writes it."""
    return f"{key[0]}-{key[1]}"
