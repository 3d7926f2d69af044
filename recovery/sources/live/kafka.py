"""Asks Kafka what the pure adapter needs: bounds, times, ids and settings of topics, counted records.

A few requests for any number of partitions: metadata, topic ids, settings, earliest and latest offsets, one for
each time that is asked for; then one look at the record after each position, and, where few enough records lie
between the positions, a count of them.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from recovery.contracts.readers import ReaderOptions
from recovery.errors import Unreachable
from recovery.sources.comparing import option_of
from recovery.sources.kafka_facts import (
    EARLIEST,
    LATEST,
    STARTING,
    KafkaFacts,
    Key,
    Offsets,
    PartitionFacts,
    TopicFacts,
    parse_offsets,
)
from recovery.sources.live.kafka_options import KafkaReader, reader_of

COUNT_UP_TO = 200_000  # records, of all partitions together
SECONDS = 15.0
READ_SECONDS = 5.0
READ_AT_ONCE = 2_000
GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
REASONS = {
    KafkaError._AUTHENTICATION: "it refuses the user or the password",
    KafkaError.SASL_AUTHENTICATION_FAILED: "it refuses the user or the password",
    KafkaError._SSL: "the encrypted connection cannot be made",
    KafkaError._RESOLVE: "its name is not known",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "it does not let this user see the topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "it does not let this user ask",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "it does not let this user read",
}


def read_topic_facts(
    options: ReaderOptions,
    *,
    positions: Sequence[str | None] = (),
    times: Sequence[int] = (),
    noted: Mapping[str, str] | None = None,
    count_up_to: int = COUNT_UP_TO,
    seconds: float = SECONDS,
) -> KafkaFacts:
    """What is so of the topics that a reader with these options reads, and of those in `positions`.

    `options` are the reader's, as Spark has them. `positions` (offset lines) are those that will be asked about:
    records after them are looked at for their times and counted in between, up to `count_up_to` of them. `times`
    are wall-clock times in ms. Raises Refused for options that cannot be followed, Malformed for a position that
    is none, Unreachable when the brokers do not answer within `seconds`, for which the sentence names no setting.
    """
    reader = reader_of(options)
    asked = [parse_offsets(position) for position in positions]
    with _converse_with_brokers(reader, seconds) as ask:
        named = {topic for offsets in asked for topic, _ in offsets}
        topics = ask.topics(named)
        ask.settings(topics)
        bounds = _with_times(ask, {k: p for t, n in topics.items() for k, p in _key_partitions(t, n)}, times)
        points = _list_points(asked, bounds)
        for offsets in asked:
            bounds = _looked_at(ask, bounds, offsets, topics)
        bounds = _count_between_points(ask, bounds, points, count_up_to)
        read = {t: reader.only(t) for t in topics if reader.reads(t)} | reader.missing(topics)
    parts: dict[str, dict[int, PartitionFacts]] = {topic: {} for topic in topics}
    for (topic, number), partition in bounds.items():
        parts[topic][number] = partition
    with_partitions = {topic: replace(of, partitions=parts[topic]) for topic, of in topics.items()}
    starting = tuple(name for name in STARTING if option_of(options, name) is not None)
    return KafkaFacts(int(time.time() * 1000), with_partitions, read, dict(noted or {}), starting)


def _key_partitions(topic: str, topic_facts: TopicFacts) -> Iterator[tuple[Key, PartitionFacts]]:
    return (((topic, number), partition) for number, partition in topic_facts.partitions.items())


def _with_times(
    ask: "Asking", bounds: dict[Key, PartitionFacts], times: Sequence[int]
) -> dict[Key, PartitionFacts]:
    """Bounds, and for each time the first offset of that time or later."""
    lows, highs = ask.offsets(bounds, OffsetSpec.earliest()), ask.offsets(bounds, OffsetSpec.latest())
    at = {ms: ask.offsets(bounds, OffsetSpec.for_timestamp(ms)) for ms in dict.fromkeys(times)}
    return {
        key: PartitionFacts(
            lows[key],
            max(lows[key], highs[key]),
            at={ms: None if offsets.get(key, -1) < 0 else offsets[key] for ms, offsets in at.items()},
        )
        for key in bounds
        if key in lows and key in highs
    }


def _list_points(asked: Sequence[Offsets], bounds: Mapping[Key, PartitionFacts]) -> dict[Key, list[int]]:
    """Every offset that someone may ask about, by partition, in order: positions, times, the end.

    A partition that a position does not name would be read from its lowest offset.
    """
    by_partition: dict[Key, list[int]] = {}
    for key, partition in bounds.items():
        named = {EARLIEST: partition.low, LATEST: partition.high}
        points = [named.get(o.get(key, EARLIEST), o.get(key, EARLIEST)) for o in asked]
        points += [partition.high if o is None else max(o, partition.low) for o in partition.at.values()]
        inside = {point for point in points if partition.low <= point <= partition.high}
        by_partition[key] = sorted(inside | {partition.high}) if inside else []
    return by_partition


def _looked_at(
    ask: "Asking", bounds: dict[Key, PartitionFacts], offsets: Offsets, topics: Mapping[str, TopicFacts]
) -> dict[Key, PartitionFacts]:
    """The time of the first record after a position in each partition, where retention by time will take it."""
    wanted = {}
    for key, at in offsets.items():
        topic, partition = topics.get(key[0]), bounds.get(key)
        if topic is None or partition is None or topic.retention_ms is None or "delete" not in topic.cleanup:
            continue
        at = partition.low if at == EARLIEST else at
        if partition.low <= at < partition.high and at not in partition.times:
            wanted[key] = at
    seen = ask.first_times(wanted)
    more = {
        key: replace(bounds[key], times={**bounds[key].times, wanted[key]: ms}) for key, ms in seen.items()
    }
    return {**bounds, **more}


def _count_between_points(
    ask: "Asking", bounds: dict[Key, PartitionFacts], points: Mapping[Key, list[int]], limit: int
) -> dict[Key, PartitionFacts]:
    """Records between the points, and from the lowest offset on, where few enough for that are to be read."""
    from_low = {
        key: sorted({bounds[key].low, *points_there}) for key, points_there in points.items() if points_there
    }
    for spans in (from_low, points):
        between = {key: points_there for key, points_there in spans.items() if len(points_there) > 1}
        if sum(points_there[-1] - points_there[0] for points_there in between.values()) <= limit:
            counts = ask.counts(between)
            return {key: replace(partition, counts=counts.get(key, {})) for key, partition in bounds.items()}
    return bounds


@contextmanager
def _converse_with_brokers(reader: KafkaReader, seconds: float) -> Iterator["Asking"]:
    """A conversation with the brokers. Raises Unreachable, in one sentence, for whatever breaks it off."""
    last: list[KafkaError] = []
    try:
        settings: dict[str, Any] = {**reader.settings, "error_cb": last.append, "log_level": 0}
        admin = AdminClient(settings)
    except KafkaException as problem:
        raise Unreachable(
            f"The reader's Kafka settings cannot be used here ({problem.args[0].name()}); see docs/sources.md."
        ) from None  # its text may hold the value of a setting
    ask = Asking(reader, admin, last, time.monotonic() + seconds)
    try:
        yield ask
    except KafkaException as problem:
        admin.poll(0)
        error = problem.args[0]
        known = next((e for e in (error, *last) if e.code() in REASONS), error)
        reason = REASONS.get(known.code(), "it does not answer")
        raise Unreachable(
            f"Kafka at {reader.servers} cannot be asked: {reason} ({known.name()}). Check that it runs and can be "
            "reached from here."
        ) from None


@dataclass
class Asking:
    """Requests of one conversation, all of them done by `deadline` (monotonic)."""

    reader: KafkaReader
    admin: AdminClient
    last: list[KafkaError]
    deadline: float

    def left(self) -> float:
        """Seconds left. Raises KafkaException when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return left

    def topics(self, named: Iterable[str]) -> dict[str, TopicFacts]:
        """Topics that are read or named, with their ids and partition numbers; those that are there."""
        left = self.left()
        known = self.admin.list_topics(timeout=left).topics
        self.left()
        chosen = sorted({*(t for t in known if self.reader.reads(t)), *named} & known.keys())
        if not chosen:
            return {}
        described = self.admin.describe_topics(TopicCollection(chosen), request_timeout=self.left())
        topics = {}
        for name, future in described.items():
            said = self._result_of(future)
            if said is not None:
                numbers = {p.id: PartitionFacts(0, 0) for p in said.partitions}
                topics[name] = TopicFacts(str(said.topic_id), dict(sorted(numbers.items())))
        return topics

    def settings(self, topics: dict[str, TopicFacts]) -> None:
        """Clean-up and retention of these topics, written into `topics`."""
        if not topics:
            return
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        for resource, future in self.admin.describe_configs(asked, request_timeout=self.left()).items():
            said = self._result_of(future)
            if said is None:
                topics.pop(resource.name)
                continue
            values = {name: entry.value for name, entry in said.items()}
            topics[resource.name] = replace(
                topics[resource.name],
                cleanup=frozenset(c.strip() for c in (values.get("cleanup.policy") or "delete").split(",")),
                retention_ms=_parse_retention(values.get("retention.ms")),
                retention_bytes=_parse_retention(values.get("retention.bytes")),
            )

    def offsets(self, keys: Iterable[Key], spec: OffsetSpec) -> dict[Key, int]:
        """One offset of each partition, as Spark would see it with this reader's isolation; -1: there is none."""
        asked = {TopicPartition(topic, number): spec for topic, number in keys}
        if not asked:
            return {}
        futures = self.admin.list_offsets(
            asked, isolation_level=self.reader.isolation, request_timeout=self.left()
        )
        offsets = {(part.topic, part.partition): self._result_of(future) for part, future in futures.items()}
        return {key: said.offset for key, said in offsets.items() if said is not None}

    def _result_of(self, future: "Future[Any]") -> Any:
        """An answer; None where the topic or partition went away since it was listed."""
        try:
            return future.result(max(0.1, self.deadline - time.monotonic()) + 1)
        except KafkaException as problem:
            if problem.args[0].code() in GONE:
                return None
            raise
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None

    def first_times(self, wanted: Mapping[Key, int]) -> dict[Key, int]:
        """Time of the first record at or after an offset; not of partitions that have none there."""
        times: dict[Key, int] = {}
        waiting = set(wanted)
        for key, message in self._iterate_messages(wanted, waiting):
            if message.error() is None and message.timestamp()[1] >= 0:
                times[key] = message.timestamp()[1]
            waiting.discard(key)
        return times

    def counts(self, points: Mapping[Key, Sequence[int]]) -> dict[Key, dict[int, int]]:
        """Records before each point, from the first point of its partition on; of those that were read in time."""
        counts = {key: dict.fromkeys(at, 0) for key, at in points.items()}
        waiting = set(points)
        for key, message in self._iterate_messages({key: at[0] for key, at in points.items()}, waiting):
            ended = message.error() is not None
            for point in points[key]:
                if not ended and message.offset() < point:
                    counts[key][point] += 1
            if ended or message.offset() >= points[key][-1] - 1:
                waiting.discard(key)
        return {key: counted for key, counted in counts.items() if key not in waiting}

    def _iterate_messages(self, start: Mapping[Key, int], waiting: set[Key]) -> Iterator[tuple[Key, Any]]:
        """Records from these offsets on, and one with an error at each partition's end, while any is waited for.

        Ends after READ_SECONDS: what could not be read in time stays unknown, which is no failure.
        """
        if not start:
            return
        isolation = {"isolation.level": self.reader.isolation_name}
        consumer = Consumer({**self.reader.settings, **READING, **isolation})
        try:
            consumer.assign([TopicPartition(topic, number, at) for (topic, number), at in start.items()])
            until = min(self.deadline, time.monotonic() + READ_SECONDS)
            while waiting and (left := until - time.monotonic()) > 0:
                first = consumer.poll(min(1.0, left))
                if first is None:
                    continue
                for message in (first, *consumer.consume(READ_AT_ONCE, 0)):
                    yield from self._wanted_messages(message, waiting, consumer)
        finally:
            consumer.close()

    def _wanted_messages(
        self, message: Any, waiting: set[Key], consumer: Consumer
    ) -> Iterator[tuple[Key, Any]]:
        """This message where its partition is waited for; one that no longer is is fetched from no more."""
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return  # retention or a deletion came in between, or it may not be read: this partition stays unknown
        key = (message.topic(), message.partition())
        if key in waiting:
            yield key, message
            if key not in waiting:
                consumer.pause([TopicPartition(*key)])


READING = {
    "group.id": "reprise-positions",  # the client wants one; it is never joined, and nothing is committed to it
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 16_384,
    "log_level": 0,
}


def _parse_retention(value: str | None) -> int | None:
    """A retention setting; None: without limit."""
    return int(value) if value and re.fullmatch(r"\d+", value) else None
