"""What is asked of Kafka about a topic that a flow writes to, and what a sink of the code is taken for."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.sinks import kafka
from recovery.sinks.live import kafka as live
from recovery.sinks.live import reading
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts

OPTIONS = {
    "kafka.bootstrap.servers": "broker:9092",
    "kafka.isolation.level": "read_uncommitted",
    "topic": "out",
    "checkpointLocation": "/x",
}
PLANNED_MS = 1_000_000
EARLY_MS = PLANNED_MS - live.WORST_SKEW_MS


class Broker:
    """Answers as `sources.live.kafka.read_topic_facts` does; notes what it was asked."""

    def __init__(self) -> None:
        self.topics = {
            "out": topic(
                PartitionFacts(2, 9, at={PLANNED_MS - live.SKEW_MS: 7, EARLY_MS: 3}), PartitionFacts(0, 4)
            )
        }
        self.options: Mapping[str, str] = {}
        self.refuses = ""

    def facts(
        self,
        options: Mapping[str, str],
        *,
        positions: Sequence[str | None] = (),
        times: Sequence[int] = (),
        noted: Mapping[str, str] | None = None,
    ) -> KafkaFacts:
        if self.refuses:
            raise Refused(self.refuses)
        self.options = options
        return KafkaFacts(1, self.topics, dict.fromkeys(self.topics), dict(noted or {}))


def topic(*partitions: PartitionFacts, topic_id: str = "id-1") -> TopicFacts:
    return TopicFacts(topic_id, dict(enumerate(partitions)), plain=True)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(live.live, "read_topic_facts", found.facts)
    return found


def facts(**how: Any) -> kafka.KafkaSinkFacts:
    return kafka.facts_of(live.read_topic_report(OPTIONS, **how))


def test_a_topic_is_asked_by_the_writers_own_login_and_only_for_committed_records(broker: Broker) -> None:
    found = live.read_topic_report(OPTIONS)

    assert broker.options == {
        "kafka.bootstrap.servers": "broker:9092", "subscribe": "out", "kafka.isolation.level": "read_committed"
    }  # fmt: skip
    assert (found.kind, found.declared, found.head, found.location) == ("kafka", "kafka", None, "topic out")
    assert facts() == kafka.KafkaSinkFacts(("out",), '{"out":{"0":9,"1":4}}', ids={"out": "id-1"})


def test_what_a_failed_attempt_may_have_sent_begins_when_its_batch_was_planned(broker: Broker) -> None:
    """Of a partition without a record of that time or later it is nothing."""
    found = facts(failed_ms=PLANNED_MS)
    assert (found.failed, found.failed_early) == ('{"out":{"0":7,"1":4}}', '{"out":{"0":3,"1":4}}')


def test_a_failed_attempt_of_which_no_time_is_known_may_have_sent_every_record(broker: Broker) -> None:
    """Times below 0 mean something else to Kafka: the end."""
    broker.topics = {"out": topic(PartitionFacts(2, 9, at={0: 2}))}
    found = facts(failed_ms=0)
    assert (found.failed, found.failed_early) == ('{"out":{"0":2}}', '{"out":{"0":2}}')


def test_records_of_others_leave_the_fingerprint_as_it_is_and_a_topic_made_anew_does_not(
    broker: Broker,
) -> None:
    before = live.read_topic_report(OPTIONS).fingerprint
    broker.topics = {"out": topic(PartitionFacts(2, 12), PartitionFacts(0, 9))}
    assert live.read_topic_report(OPTIONS).fingerprint == before
    broker.topics = {"out": topic(PartitionFacts(0, 0), topic_id="id-2")}
    assert live.read_topic_report(OPTIONS).fingerprint != before
    broker.topics = {}
    assert live.read_topic_report(OPTIONS).fingerprint != before


def test_a_topic_that_is_not_there_yet_ends_at_nothing_and_all_of_it_comes_after_that(broker: Broker) -> None:
    there, broker.topics = broker.topics, {}
    ends = facts(failed_ms=PLANNED_MS).ends
    assert ends == "{}"

    broker.topics = {"out": topic(PartitionFacts(0, 9))}
    part = live.records_between(OPTIONS, ends, None, {})
    assert part is not None
    assert (part.start, part.end) == ({"out": {"0": 0}}, {"out": {"0": 9}})
    assert there


BETWEEN = [
    ("more records", '{"out":{"0":5,"1":4}}', {"out": {"0": 5, "1": 4}}),
    ("a new partition", '{"out":{"0":5}}', {"out": {"0": 5, "1": 0}}),
    ("records are gone", '{"out":{"0":1,"1":4}}', None),
    ("fewer than there were", '{"out":{"0":10,"1":4}}', None),
]


@pytest.mark.parametrize(("start", "begins"), [b[1:] for b in BETWEEN], ids=[b[0] for b in BETWEEN])
def test_what_came_since_an_end_is_told_by_offsets(
    broker: Broker, start: str, begins: dict[str, dict[str, int]] | None
) -> None:
    part = live.records_between(OPTIONS, start, None, {"out": "id-1"})
    assert (None if part is None else part.start) == begins


def test_of_a_topic_that_was_made_anew_nobody_can_tell_what_came(broker: Broker) -> None:
    assert live.records_between(OPTIONS, '{"out":{"0":0,"1":0}}', None, {"out": "id-0"}) is None
    assert live.count_records(OPTIONS, '{"out":{"0":5,"1":4}}', '{"out":{"0":9,"1":4}}') == 4


@pytest.mark.parametrize(
    ("options", "refuses", "says"),
    [
        ({}, "", "Each row names its own topic"),
        (OPTIONS, "A key store cannot be read here.", "A key store cannot be read here."),
    ],
    ids=["topics of the rows", "options that cannot be followed"],
)
def test_a_topic_that_cannot_be_asked_is_still_a_sink_with_its_reason(
    broker: Broker, options: dict[str, str], refuses: str, says: str
) -> None:
    broker.refuses = refuses
    found = live.read_topic_report(options)
    assert (found.kind, found.declared) == ("kafka", "kafka")
    assert [f.code for f in found.findings] == ["SINK_NOT_ASKED"]
    assert says in found.findings[0].says
    assert kafka.facts_of(found).ends is None


@pytest.mark.parametrize(
    ("sink", "place"),
    [
        ({"format": "delta", "options": {"Path": "/t"}}, "/t"),
        ({"format": "parquet", "options": {"path": "/t"}}, "/t"),
        ({"format": "delta", "options": {}}, ""),
        ({"format": "kafka", "options": {"path": "/t"}}, ""),
        ({"format": "noop", "options": {"path": "/t"}}, ""),
    ],
)
def test_a_sink_is_a_table_by_its_path_only_where_its_format_is_one(sink: dict[str, Any], place: str) -> None:
    assert reading.place_of({"name": "s", **sink}) == place


def test_of_a_sink_of_another_format_nothing_is_promised() -> None:
    found = reading.read_declared_sink({"name": "s", "format": "noop", "options": {}})
    assert (found.kind, found.declared, found.location) == ("unknown", "noop", "sink s")
