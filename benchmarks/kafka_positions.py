"""Positions of a Kafka topic with many partitions, on a real broker: asking, and computing beside one bare request.

python -m benchmarks.kafka_positions [--partitions 1000]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from recovery.sources import kafka as adapter
from recovery.sources.base import StartChoice
from recovery.sources.kafka_facts import write_offsets
from recovery.sources.live import kafka as live
from tests.kafka import KafkaBroker, running

RECORDS = 20  # a partition
TIMES = 5


def fill(broker: KafkaBroker, partitions: int) -> int:
    """A topic with records in every partition; a time half-way through them."""
    broker.topic("wide", partitions)
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20, "log_level": 0})
    began = int(time.time() * 1000) - 3_600_000
    for n in range(RECORDS):
        for partition in range(partitions):
            producer.produce("wide", b"x" * 100, partition=partition, timestamp=began + n * 1000)
            producer.poll(0)
        producer.flush(60)
    return began + RECORDS // 2 * 1000


def median(what: Callable[[], Any]) -> tuple[float, Any]:
    """(seconds, last answer) over TIMES runs."""
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        answer = what()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken), answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=1000)
    partitions = parser.parse_args().partitions
    with running() as broker:
        at_ms = fill(broker, partitions)
        options = {"kafka.bootstrap.servers": broker.address, "subscribe": "wide"}
        position = write_offsets({("wide", n): 5 for n in range(partitions)})
        bare, _ = median(lambda: broker.admin.list_topics(timeout=60))
        rows: list[tuple[str, Callable[[], Any]]] = [
            (
                "bounds, settings, a time; nothing read",
                lambda: live.read_topic_facts(options, times=[at_ms], count_up_to=0),
            ),
            (
                "the same, and the times of the first unread records",
                lambda: live.read_topic_facts(options, positions=[position], times=[at_ms], count_up_to=0),
            ),
            (
                f"the same, and {partitions * RECORDS} records counted",
                lambda: live.read_topic_facts(options, positions=[position], times=[at_ms]),
            ),
        ]
        print(
            f"| {partitions} partitions, {RECORDS} records each (median of {TIMES}) | seconds | × |\n|---|---|---|"
        )
        print(f"| one bare metadata request | {bare:.3f} | 1 |")
        for name, what in rows:
            seconds, facts = median(what)
            print(f"| {name} | {seconds:.3f} | {seconds / bare:.0f} |")
    assert facts.topics["wide"].partitions[0].counts
    for name, what in (
        ("reach", lambda: adapter.judge_reach(position, facts)),
        ("option", lambda: adapter.find_start_option(position, facts)),
        (
            "position at a time, with its cost",
            lambda: adapter.find_position(StartChoice(at_ms=at_ms), position, facts),
        ),
    ):
        seconds, _ = median(what)
        print(f"| computed from it: {name} | {seconds:.3f} | {seconds / bare:.0f} |")


if __name__ == "__main__":
    main()
