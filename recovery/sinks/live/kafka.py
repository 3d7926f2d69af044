"""Asks Kafka about the topic that a flow writes to: which one it is, and where it ends.

The fingerprint is that of the topic's identity. Its end is not part of it: whatever others write there changes nothing
that a plan relies on, and would void plan after plan.
"""

import hashlib
from collections.abc import Mapping

from recovery.checkpoints.report import Finding, Severity
from recovery.errors import Refused
from recovery.sinks.base import SinkReport
from recovery.sinks.kafka import KIND, KafkaSinkFacts
from recovery.sources import input_ranges
from recovery.sources.input_ranges import InputRange
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, write_offsets
from recovery.sources.live import kafka as live

# A record tells when its sender, or the broker, thinks it was sent; a batch, when the driver thinks it was planned.
SKEW_MS = 5_000  # by which the clocks of a cluster that is kept in time may differ
WORST_SKEW_MS = 600_000  # and those of one that is not; logins with Kerberos fail before that
ROW_BY_ROW = (
    "Each row names its own topic (the sink has no option topic), so what is in them cannot be counted here."
)


def read_topic_report(options: Mapping[str, str], *, failed_ms: int | None = None) -> SinkReport:
    """The topic's report. `failed_ms`: when a batch was planned that was never committed.

    Raises Unreachable where the brokers do not answer. Options that cannot be followed from here are a finding.
    """
    topic = topic_of(options)
    if topic is None:
        return _report_unread_topic(KafkaSinkFacts(problem=ROW_BY_ROW))
    times = () if failed_ms is None else tuple(max(0, failed_ms - skew) for skew in (SKEW_MS, WORST_SKEW_MS))
    try:
        topic_now = _read_topic_facts(options, topic, times)
    except Refused as problem:
        return _report_unread_topic(KafkaSinkFacts((topic,), problem=problem.sentence))
    parts = {
        (name, n): p
        for name, topic_facts in topic_now.topics.items()
        for n, p in topic_facts.partitions.items()
    }
    ids = {name: topic_facts.topic_id or "" for name, topic_facts in topic_now.topics.items()}
    begun = [write_offsets({key: _first_since(ms, p) for key, p in parts.items()}) for ms in times]
    facts = KafkaSinkFacts(
        (topic,),
        ends=write_offsets({key: p.high for key, p in parts.items()}),
        failed=begun[0] if begun else None,
        failed_early=begun[1] if begun else None,
        ids=ids,
    )
    mark = hashlib.sha256(f"{topic}\0{ids.get(topic, 'absent')}".encode()).hexdigest()
    return SinkReport(KIND, f"topic {topic}", None, fingerprint=mark, declared=KIND, facts=facts)


def _first_since(ms: int, partition: PartitionFacts) -> int:
    """The first record of that time or later; the end where there is none."""
    at = partition.at.get(ms)
    return partition.high if at is None else at


def records_between(
    options: Mapping[str, str], start: str | None, end: str | None, ids: Mapping[str, str]
) -> InputRange | None:
    """Records from `start` up to `end` (None: as far as there are any now); None: not known.

    `ids`: those that the topics had at `start`. A partition that is new since then begins at its first record. Raises
    Unreachable, Refused.
    """
    topic = topic_of(options)
    if topic is None:
        return None
    facts = _read_topic_facts(options, topic, (), noted=ids)
    held = facts.topics.get(topic)
    if held is None:
        return None
    now = write_offsets({(topic, n): p.high for n, p in held.partitions.items()})
    return input_ranges.of_kafka(_offsets_line(start), end or now, facts)


def count_records(options: Mapping[str, str], start: str, end: str) -> int | None:
    """Committed records between two offset lines; None where no one can count them all. Raises Unreachable."""
    topic = topic_of(options)
    if topic is None:
        return None
    facts = live.read_topic_facts(
        _reader_options(options, topic), positions=[_offsets_line(start), _offsets_line(end)]
    )
    part = input_ranges.of_kafka(_offsets_line(start), end, facts)
    if part is None:
        return None
    spans = [((t, int(n)), at, part.end[t][n]) for t, held in part.start.items() for n, at in held.items()]
    rows = facts.rows(spans)
    return rows.value if rows.exact or not rows.value else None


def topic_of(options: Mapping[str, str]) -> str | None:
    """The one topic of a sink; None where each row names its own."""
    return next((value for name, value in options.items() if name.lower() == "topic"), None)


def _offsets_line(offsets: str | None) -> str | None:
    """A topic that was not there has no offsets: an empty line, which Spark never writes."""
    return None if offsets in (None, "{}") else offsets


def _report_unread_topic(facts: KafkaSinkFacts) -> SinkReport:
    where = f"topic {facts.topics[0]}" if facts.topics else "topics named row by row"
    finding = Finding(
        "SINK_NOT_ASKED",
        Severity.WARNING,
        facts.problem,
        "Count the records of the new batches yourself: the recovery can only end as unproven.",
    )
    return SinkReport(KIND, where, None, declared=KIND, findings=(finding,), facts=facts)


def _read_topic_facts(
    options: Mapping[str, str],
    topic: str,
    times: tuple[int, ...],
    *,
    noted: Mapping[str, str] | None = None,
) -> KafkaFacts:
    return live.read_topic_facts(_reader_options(options, topic), times=times, noted=noted)


def _reader_options(options: Mapping[str, str], topic: str) -> dict[str, str]:
    """The options of a reader of that topic, by the writer's own login; records of open transactions are no rows."""
    own = {name: value for name, value in options.items() if name.lower().startswith("kafka.")}
    own = {n: v for n, v in own.items() if n.lower() != "kafka.isolation.level"}
    return {**own, "subscribe": topic, "kafka.isolation.level": "read_committed"}
