"""A real Kafka broker (one node, KRaft) over a temporary folder, for tests.

It deletes and compacts within a second, where a cluster takes minutes: retention is real all the same.
"""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from console.supervisor import jars
from console.supervisor import kafka as kafka_child
from console.supervisor.bootstrap import CannotStart
from tests import shared

START_SECONDS = 60
# Deletes and compacts within a second.
QUICK = """log.cleaner.backoff.ms=100
log.retention.check.interval.ms=400
log.initial.task.delay.ms=0
log.segment.delete.delay.ms=0
"""
# Kills the broker when its standard input ends: at the latest with the process that started it, however that ends.
TIED = """exec 3<&0
"$@" </dev/null 3<&- & broker=$!
(read -r _ <&3; kill -9 $broker) & watch=$!
wait $broker; code=$?
kill $watch 2>/dev/null
exit $code"""


@dataclass
class KafkaBroker:
    """`address` is what clients call `bootstrap.servers`."""

    address: str
    admin: AdminClient = field(repr=False)
    process: subprocess.Popen[bytes] | None = None  # where this process started it

    def topic(self, name: str, partitions: int = 1, **config: Any) -> None:
        """Make a topic, and wait until every client sees it; `__` in a setting's name means a dot."""
        settings = {key.replace("__", "."): str(value) for key, value in config.items()}
        self._done(self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)]))

        def is_listed() -> bool:
            listed = self.admin.list_topics(timeout=10).topics.get(name)
            return listed is not None and len(listed.partitions) == partitions

        until(is_listed, f"{name} is not listed")

    def alter(self, name: str, **config: Any) -> None:
        """Change settings of a topic."""
        told = [
            ConfigEntry(key.replace("__", "."), str(value), incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=told)
        self._done(self.admin.incremental_alter_configs([resource]))

    def drop(self, name: str) -> None:
        """Delete a topic, and wait until its name is free."""
        self._done(self.admin.delete_topics([name]))
        until(lambda: name not in self.admin.list_topics(timeout=10).topics, f"{name} is still there")

    def widen(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, and wait until clients are told of them."""
        self._done(self.admin.create_partitions([NewPartitions(name, partitions)]))

        def told() -> bool:
            return len(self.admin.list_topics(name, timeout=10).topics[name].partitions) == partitions

        until(told, f"{name} has no {partitions} partitions")

    def put(self, name: str, values: Iterable[Any], partition: int = 0, **how: Any) -> None:
        """Write records, in order; `at_ms` is their time, `key` their key, `headers` as in produce()."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5, "log_level": 0})
        self.write(producer, name, values, partition, **how)
        producer.flush(30)

    def write(
        self, producer: Producer, name: str, values: Iterable[Any], partition: int = 0, **how: Any
    ) -> None:
        at_ms = how.pop("at_ms", None)
        times = {} if at_ms is None else {"timestamp": at_ms}

        def told(error: Any, _: Any) -> None:
            if error is not None:
                raise KafkaException(error)

        for value in values:
            producer.produce(name, str(value), partition=partition, on_delivery=told, **times, **how)
            producer.poll(0)

    def transaction(
        self, name: str, values: Iterable[Any], partition: int = 0, *, abort: bool = False
    ) -> None:
        """Write records in one transaction."""
        producer = Producer(
            {"bootstrap.servers": self.address, "transactional.id": f"{name}-{partition}", "log_level": 0}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        self.write(producer, name, values, partition)
        producer.flush(30)
        (producer.abort_transaction if abort else producer.commit_transaction)(30)

    def delete_before(self, name: str, offset: int, partition: int = 0) -> None:
        """Delete the records below an offset, as an operator would."""
        self._done(self.admin.delete_records([TopicPartition(name, partition, offset)]))

    def bounds(self, name: str, partition: int = 0) -> tuple[int, int]:
        """(first offset that is kept, next offset to be written)."""
        found = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
            asked = self.admin.list_offsets({TopicPartition(name, partition): spec})
            found.append(next(iter(asked.values())).result(30).offset)
        return found[0], found[1]

    @staticmethod
    def _done(futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result(30)


def until(condition: Callable[[], bool], says: str, seconds: float = 60) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{says} after {seconds:.0f} s"
        time.sleep(0.05)


def begin(folder: Path) -> KafkaBroker:
    """Start a broker and wait until it answers a question. Raises CannotStart with its last words."""
    archives = jars.ensure_jars("kafka-broker", tell=lambda _: None)
    port = kafka_child.free_port()
    command = kafka_child.lay_out(folder, port, archives[0].parent, QUICK)
    log = folder / "broker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["sh", "-c", TIED, "sh", *command], stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=folder
        )
    address = kafka_child.bootstrap_address(port)
    server = KafkaBroker(address, AdminClient({"bootstrap.servers": address, "log_level": 0}), process)
    deadline = time.monotonic() + START_SECONDS
    while not _answers(server):
        if process.poll() is not None or time.monotonic() > deadline:
            end(server)
            raise CannotStart(f"The Kafka broker did not start: {log.read_text()[-500:]}")
    return server


def _answers(server: KafkaBroker) -> bool:
    """An open port is not enough: one that runs out of memory opens it too."""
    with contextlib.suppress(KafkaException):
        return bool(server.admin.list_topics(timeout=1).brokers)
    return False


def end(server: KafkaBroker) -> None:
    """End it; gone when this returns."""
    assert server.process, "another process started this broker, for others too"
    assert server.process.stdin
    server.process.stdin.close()
    server.process.wait(30)


@contextlib.contextmanager
def running() -> Iterator[KafkaBroker]:
    """A broker with a folder of its own while this lasts."""
    with tempfile.TemporaryDirectory(prefix="reprise-kafka-", ignore_cleanup_errors=True) as folder:
        server = begin(Path(folder))
        try:
            yield server
        finally:
            end(server)


@contextlib.contextmanager
def kept() -> Iterator[dict[str, Any]]:
    """The one of a test run, for its keeper."""
    with running() as server:
        yield {"address": server.address}


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> KafkaBroker:
    """The one broker of a test run; each test takes topics of its own."""
    address = str(shared.reach(request.config, "kafka")["address"])
    return KafkaBroker(address, AdminClient({"bootstrap.servers": address, "log_level": 0}))


__all__ = ["KafkaBroker", "begin", "end", "kafka", "running", "until"]
