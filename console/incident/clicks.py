"""The clicks of the second incident and their way into Kafka. Deterministic.

Every click has a number of its own, and an event time: two seconds after the one before it, but every tenth comes
45 s late. That is less than the watermark waits, so a count by minute misses none of them.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from recovery.errors import Unreachable

PAGES = ("home", "search", "cart", "help", "offers")
COUNTRIES = ("DE", "FR", "PL")
BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
APART, LATE = timedelta(seconds=2), timedelta(seconds=45)
PARTITIONS = 3
GOOD, WAITING = (150, 120), 90
SECONDS = 30  # for an answer of the broker
# what a broker answers about a topic that was just made, or right after its own start
BEGINNING = (
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._NOENT,  # the client's own: no partition has a leader yet
)  # fmt: skip
KEPT_MS = 30 * 24 * 3600 * 1000

Click = dict[str, Any]


@dataclass(frozen=True)
class Clicks:
    """What arrives before each good update, and after the last one."""

    good: tuple[tuple[Click, ...], ...]
    waiting: tuple[Click, ...]

    def processed(self) -> list[Click]:
        """Clicks that the good updates read."""
        return [click for batch in self.good for click in batch]

    def all(self) -> list[Click]:
        return [*self.processed(), *self.waiting]


def make_click(number: int) -> Click:
    """The click with this number, counted from 1."""
    at = max(BEGAN, BEGAN + (number - 1) * APART - (LATE if number % 10 == 0 else timedelta()))
    return {
        "click_id": number,
        "page": PAGES[number * 7 % 5],
        "country": COUNTRIES[number // 4 % 3],
        "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def list_clicks() -> Clicks:
    """360 clicks in 12 minutes of event time: 150 and 120 for the good updates, 90 that wait."""
    numbers = iter(range(1, sum(GOOD) + WAITING + 1))
    good = tuple(tuple(make_click(next(numbers)) for _ in range(size)) for size in GOOD)
    return Clicks(good, tuple(make_click(number) for number in numbers))


def make_topic(servers: str, topic: str) -> None:
    """The topic, unless it is there. Its records are kept for 30 days. Raises Unreachable."""
    try:
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        if topic in admin.list_topics(timeout=SECONDS).topics:
            return
        wanted = NewTopic(topic, PARTITIONS, 1, config={"retention.ms": str(KEPT_MS)})
        for made in admin.create_topics([wanted]).values():
            made.result(SECONDS)
    except (KafkaException, TimeoutError) as problem:
        raise _explain_silence(servers, problem) from problem


def write_clicks(servers: str, topic: str, sequence: Sequence[Click]) -> None:
    """Let all of `sequence` be in the topic, in this order; what is there already is not written again.

    A click goes to the partition of its number modulo 3, so the offset of each one is known. Raises Unreachable.
    """
    try:
        ends = _end_offsets(servers, topic)
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        for partition, end in ends.items():
            for record in [c for c in sequence if c["click_id"] % PARTITIONS == partition][end:]:
                producer.produce(
                    topic, json.dumps(record), partition=partition, on_delivery=_require_delivered
                )
        if left := producer.flush(SECONDS):
            raise Unreachable(f"The Kafka broker at {servers} did not take {left} clicks within {SECONDS} s.")
    except (KafkaException, TimeoutError) as problem:
        raise _explain_silence(servers, problem) from problem


def _end_offsets(servers: str, topic: str) -> dict[int, int]:
    """The next offset of each partition. A topic that was just made has no leaders yet: they are waited for."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            asked = admin.list_offsets(wanted, request_timeout=SECONDS)
            return {key.partition: int(answer.result(SECONDS).offset) for key, answer in asked.items()}
        except KafkaException as problem:
            if problem.args[0].code() not in BEGINNING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _require_delivered(error: Any, record: Any) -> None:
    """Called by the producer for each record, within `flush`."""
    if error is not None:
        raise KafkaException(error)


def _explain_silence(servers: str, problem: KafkaException | TimeoutError) -> Unreachable:
    why = problem.args[0].str() if isinstance(problem, KafkaException) else f"silent for {SECONDS} s"
    return Unreachable(
        f"The Kafka broker at {servers} did not do what was asked ({why}); see its log.",
        code="broker_refused",
    )
