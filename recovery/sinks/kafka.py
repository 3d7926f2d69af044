"""Kafka as a sink: it remembers nothing of batches, so what is sent again is there twice. Pure.

Source: KafkaStreamingWrite and KafkaWriteTask (no transaction, no batch id); the Spark guide on Kafka calls the sink
at-least-once. A task that is tried again repeats rows too, with or without a recovery.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, StartRisk, count_repeated, in_words, is_nothing

KIND = "kafka"
TABLE, COMPARED = False, True  # its records are known by offsets; see recovery/spark/topics.py


@dataclass(frozen=True)
class KafkaSinkFacts:
    """The topics that a stream writes, as they were when they were asked."""

    #: none: each row names its own, or not known
    topics: tuple[str, ...] = ()
    #: offsets behind the last committed record, as an offset line of Spark; None: not asked
    ends: str | None = None
    #: first offsets at which a failed attempt of the planned batch may have written, if the cluster's clocks
    #: agree; None: no such batch, or not asked
    failed: str | None = None
    #: the same if the clocks disagree
    failed_early: str | None = None
    #: of the topics that are there
    ids: Mapping[str, str] = field(default_factory=dict)
    #: why Kafka was not asked
    problem: str = ""


def facts_of(report: SinkReport) -> KafkaSinkFacts:
    """The topics, as far as they are known."""
    return report.facts if isinstance(report.facts, KafkaSinkFacts) else KafkaSinkFacts()


def explain_at_least_once(report: SinkReport) -> str:
    return "Kafka remembers nothing of Spark's batches: a row that is sent twice is there twice."


def judge_risk(start: PlannedStart, report: SinkReport) -> StartRisk:
    """Everything that is read again is sent again."""
    rows, topics = count_repeated(start), facts_of(report).topics
    where = f" in {', '.join(topics)}" if topics else ""
    if is_nothing(rows):
        return StartRisk(
            rows, f"Nothing is sent again{where}. A task that Spark tries again may still repeat its rows."
        )
    return StartRisk(
        rows,
        f"{in_words(rows).capitalize()} would be{where} twice.",
        do="Let those who read the topic drop repeats by a key of the row, or choose a position that reads nothing "
        "again.",
    )
