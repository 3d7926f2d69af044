"""What a real Kafka broker says, and what is made of it: retention, recreated topics, transactions, compaction."""

import socket
import time

import pytest
from confluent_kafka import Producer

from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Refused, Unreachable
from recovery.sources import kafka as adapter
from recovery.sources.base import PartMove, StartChoice
from recovery.sources.kafka_facts import KafkaFacts
from recovery.sources.live import kafka as live
from tests.kafka import KafkaBroker, until

HOUR = 3_600_000


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t.one-{time.monotonic_ns()}"


def asked(
    kafka: KafkaBroker,
    topic: str,
    position: str | None,
    /,
    *times: int,
    noted: KafkaFacts | None = None,
    **how: str,
) -> KafkaFacts:
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, **how}
    ids = {name: of.topic_id or "" for name, of in noted.topics.items()} if noted else {}
    return live.read_topic_facts(options, positions=[position], times=times, noted=ids, seconds=60)


def offsets(topic: str, *at: int) -> str:
    return '{"' + topic + '":{' + ",".join(f'"{n}":{o}' for n, o in enumerate(at)) + "}}"


def now() -> int:
    return int(time.time() * 1000)


def test_a_position_is_counted_and_retention_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.topic(topic, 2, retention__ms=3 * HOUR)
    written = now() - HOUR
    kafka.put(topic, range(10), 0, at_ms=written)
    kafka.put(topic, range(4), 1, at_ms=written + 60_000)
    position = offsets(topic, 6, 0)

    facts = asked(kafka, topic, position)

    assert adapter.measure_distance(position, offsets(topic, 10, 4), facts).rows == Amount(value=8)
    reach = adapter.judge_reach(position, facts)
    assert (reach.readable, reach.until_ms, reach.parts) == (True, written + 3 * HOUR, (f"{topic}-0",))
    assert adapter.find_start_option(position, facts).options == {"startingOffsets": position}


def test_records_that_an_operator_deleted_are_gone(kafka: KafkaBroker, topic: str) -> None:
    kafka.topic(topic, 2)
    kafka.put(topic, range(10), 0)
    kafka.delete_before(topic, 7, 0)
    position = offsets(topic, 4, 0)

    reach = adapter.judge_reach(position, asked(kafka, topic, position))

    assert (reach.readable, reach.parts) == (False, (f"{topic}-0",))
    assert reach.lost
    assert reach.lost.rows
    assert (reach.lost.rows.value, reach.lost.rows.exact) == (3, False)
    assert "begins at 7" in reach.why
    with pytest.raises(Refused, match=r"6 of .* is not between 7 and 10"):
        adapter.find_position(
            StartChoice(by_hand=offsets(topic, 6, 0)), position, asked(kafka, topic, position)
        )


def test_retention_takes_whole_segments_not_before_the_time_that_was_told(
    kafka: KafkaBroker, topic: str
) -> None:
    """Two segments, the first of which is older than the topic then keeps."""
    kafka.topic(topic, segment__ms=HOUR)
    old, young = now() - 10 * HOUR, now() - HOUR
    kafka.put(topic, range(5), at_ms=old)
    kafka.put(topic, range(5), at_ms=young)
    position = offsets(topic, 2)
    before = asked(kafka, topic, position)
    assert adapter.judge_reach(position, before).readable
    told = adapter.judge_reach(position, asked_with_retention(kafka, topic, position, 9 * HOUR))
    assert told.readable is False or (told.until_ms or 0) <= now()

    until(lambda: kafka.bounds(topic)[0] > 0, "retention deletes nothing")

    facts = asked(kafka, topic, position)
    assert kafka.bounds(topic) == (5, 10)
    reach = adapter.judge_reach(position, facts)
    assert reach.readable is False
    assert "begins at 5: after the position offsets 2 to 4 are gone" in reach.why
    rest = adapter.judge_reach(offsets(topic, 5), asked(kafka, topic, offsets(topic, 5)))
    assert (rest.readable, rest.until_ms) == (True, young + 9 * HOUR)


def asked_with_retention(kafka: KafkaBroker, topic: str, position: str, ms: int) -> KafkaFacts:
    kafka.alter(topic, retention__ms=ms)
    return asked(kafka, topic, position)


@pytest.mark.parametrize("records", [2, 9], ids=["fewer than before", "more than before"])
def test_a_topic_that_was_made_again_is_known_by_its_id(kafka: KafkaBroker, topic: str, records: int) -> None:
    kafka.topic(topic)
    kafka.put(topic, range(5))
    position = offsets(topic, 5)
    first = asked(kafka, topic, position)
    kafka.drop(topic)
    kafka.topic(topic)
    kafka.put(topic, range(records))

    facts = asked(kafka, topic, position, noted=first)

    reach = adapter.judge_reach(position, facts)
    assert reach.readable is False
    assert "was deleted and made again" in reach.why
    assert reach.lost
    assert reach.lost.rows is None
    moved = adapter.find_position(StartChoice(earliest=True), position, facts)
    assert [c.moved for c in moved.changes] == [PartMove.UNCLEAR]
    unnoted = adapter.judge_reach(position, asked(kafka, topic, position))
    assert unnoted.readable is (records > 5)  # without the id only a shorter topic gives itself away


def test_a_topic_that_is_gone_is_said(kafka: KafkaBroker, topic: str) -> None:
    position = offsets(topic, 5)
    facts = asked(kafka, topic, position)
    assert facts.topics == {}
    reach = adapter.judge_reach(position, facts)
    assert reach.readable is False
    assert reach.why.startswith(f"Topic {topic} is gone. ")


def test_partitions_that_were_added_begin_at_their_first_record(kafka: KafkaBroker, topic: str) -> None:
    kafka.topic(topic)
    kafka.put(topic, range(5))
    kafka.widen(topic, 3)
    kafka.put(topic, range(4), 2)
    position = offsets(topic, 3)

    facts = asked(kafka, topic, position)

    latest = adapter.find_position(StartChoice(latest=True), position, facts)
    assert (latest.offset_json, latest.lost.rows) == (offsets(topic, 5, 0, 4), Amount(value=6))
    assert adapter.find_start_option(position, facts).options == {
        "startingOffsets": offsets(topic, 3, -2, -2)
    }


@pytest.mark.parametrize(("isolation", "rows"), [("read_uncommitted", 8), ("read_committed", 5)])
def test_markers_and_aborted_records_of_transactions_are_not_counted(
    kafka: KafkaBroker, topic: str, isolation: str, rows: int
) -> None:
    kafka.topic(topic)
    kafka.transaction(topic, range(3))
    kafka.transaction(topic, range(3), abort=True)
    kafka.put(topic, range(2))
    start, end = offsets(topic, 0), offsets(topic, 10)
    options = {"kafka.isolation.level": isolation}

    counted = asked(kafka, topic, start, **options)
    assert adapter.measure_distance(start, end, counted).rows == Amount(value=rows)

    told = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, **options}
    estimated = adapter.measure_distance(
        start, end, live.read_topic_facts(told, positions=[start], count_up_to=9)
    ).rows
    assert estimated
    assert (estimated.value, estimated.exact) == (10, False)


def test_an_open_transaction_ends_what_a_reader_of_committed_records_can_reach(
    kafka: KafkaBroker, topic: str
) -> None:
    kafka.topic(topic)
    kafka.put(topic, range(2))
    settings = {"bootstrap.servers": kafka.address, "transactional.id": topic, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    kafka.write(producer, topic, range(3))
    producer.flush(30)
    start = offsets(topic, 0)
    for isolation, end in (("read_committed", 2), ("read_uncommitted", 5)):
        facts = asked(kafka, topic, start, **{"kafka.isolation.level": isolation})
        found = adapter.find_position(StartChoice(latest=True), start, facts)
        assert (found.offset_json, found.lost.rows) == (offsets(topic, end), Amount(value=end))
    producer.abort_transaction(30)


def test_a_compacted_topic_is_counted_where_it_can_be_and_else_estimated(
    kafka: KafkaBroker, topic: str
) -> None:
    kafka.topic(topic, cleanup__policy="compact", segment__ms=1000, min__cleanable__dirty__ratio=0.01)
    began = now() - HOUR
    for n in range(6):  # each in a segment of its own; the newest one is never compacted
        kafka.put(topic, [n], key="k", at_ms=began + n * 5000)
    start, end = offsets(topic, 0), offsets(topic, 6)
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic}

    until(lambda: rows(asked(kafka, topic, start), start, end) == Amount(value=2), "nothing is compacted")

    estimated = rows(live.read_topic_facts(options, positions=[start], count_up_to=5), start, end)
    assert estimated == Amount(
        value=6, bound=Bound.AT_MOST, why="the topic is compacted, so not every offset is still a record"
    )
    assert adapter.judge_reach(start, asked(kafka, topic, start)).until_ms is None


def rows(facts: KafkaFacts, start: str, end: str) -> Amount | None:
    return adapter.measure_distance(start, end, facts).rows


def test_a_position_at_a_time(kafka: KafkaBroker, topic: str) -> None:
    kafka.topic(topic, 3)
    began = now() - HOUR
    for n in range(10):
        kafka.put(topic, [n], 0, at_ms=began + n * 1000)
    kafka.put(topic, range(4), 1, at_ms=began)
    position, at_ms = offsets(topic, 2, 1, 0), began + 4500

    facts = asked(kafka, topic, position, at_ms, began)
    found = adapter.find_position(StartChoice(at_ms=at_ms), position, facts)

    assert found.offset_json == offsets(topic, 5, 4, 0)
    assert (
        adapter.judge_reach(position, facts).until_ms == began + 7 * 24 * HOUR
    )  # that of the position, not of the times
    assert (found.lost.rows, found.reread.rows) == (Amount(value=6), Amount(value=0))
    assert set(found.fallbacks) == {f"{topic}-1", f"{topic}-2"}


def test_the_first_record_of_a_time_is_taken_though_later_ones_are_older(
    kafka: KafkaBroker, topic: str
) -> None:
    """Producers set the times; the order of offsets counts."""
    kafka.topic(topic)
    began = now() - HOUR
    for n in (0, 9, 3, 9, 4):
        kafka.put(topic, [n], at_ms=began + n * 1000)
    facts = asked(kafka, topic, None, began + 4000)
    assert adapter.find_position(StartChoice(at_ms=began + 4000), None, facts).offset_json == offsets(
        topic, 1
    )


def test_topics_by_pattern_and_assigned_partitions(kafka: KafkaBroker, topic: str) -> None:
    for name in ("a", "b"):
        kafka.topic(f"{topic}.{name}", 2)
    servers = {"kafka.bootstrap.servers": kafka.address}
    by_pattern = live.read_topic_facts({**servers, "subscribePattern": topic.replace("-", "[-]") + r"\..*"})
    assert by_pattern.subscribed() == tuple((f"{topic}.{n}", p) for n in "ab" for p in (0, 1))
    assigned = live.read_topic_facts({**servers, "assign": f'{{"{topic}.a":[1],"{topic}.gone":[0]}}'})
    assert assigned.subscribed() == ((f"{topic}.a", 1),)
    assert assigned.read == {f"{topic}.a": {1}, f"{topic}.gone": {0}}


@pytest.mark.parametrize("silent", [False, True], ids=["nobody listens", "nobody answers"])
def test_a_broker_that_is_away_is_one_sentence_in_time(silent: bool) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen(8)
        servers = f"127.0.0.1:{listener.getsockname()[1]}"
        options = {"kafka.bootstrap.servers": servers, "subscribe": "t"}
        began = time.monotonic()
        with pytest.raises(Unreachable) as told:
            live.read_topic_facts(options, seconds=2)
        assert time.monotonic() - began < 10
    assert told.value.sentence.startswith(f"Kafka at {servers} cannot be asked: it does not answer (_T")


def test_a_login_that_the_broker_does_not_know_says_no_password(kafka: KafkaBroker, topic: str) -> None:
    jaas = 'x.PlainLoginModule required username="ann" password="hunter2";'
    options = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    options |= {"kafka.sasl.jaas.config": jaas, "kafka.bootstrap.servers": kafka.address, "subscribe": topic}
    with pytest.raises(Unreachable) as told:
        live.read_topic_facts(options, seconds=3)
    assert "hunter2" not in told.value.sentence + repr(told.value.__cause__)


def test_a_setting_that_the_client_refuses_is_not_shown(kafka: KafkaBroker) -> None:
    options = {"kafka.bootstrap.servers": kafka.address, "kafka.security.protocol": "hunter2"}
    with pytest.raises(Unreachable, match="settings cannot be used") as told:
        live.read_topic_facts(options)
    assert "hunter2" not in told.value.sentence
