"""What is found out about a step whose end was not seen."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from recovery.contracts.value import Flag, Number, Value


class EvidenceLine(Value):
    """One thing that a probe looked at, as it is stored in `Step.evidence`."""

    proven: Flag | None = None
    """Whether it was read and is as it should be; None: it could not be read."""
    says: str
    """What was read, or why it could not be, for people."""


class ProbeQuestion(StrEnum):
    """The questions of a probe."""

    EFFECT = "effect"
    """What the step did, asked by the probe of its kind."""
    WORKER = "worker"
    """When its worker gave its last sign of life."""
    LOCK = "lock"
    """Which recovery holds the flow, and under which fence the step is."""
    ACTIVE = "active"
    """Which update is active."""
    QUERY = "query"
    """Whether a query that the step started still runs."""
    LAST_EVENT = "last_event"
    """The last event of its update."""
    OTHERS = "others"
    """Updates that someone else started since."""
    CHECKPOINT = "checkpoint"
    """Which batch the checkpoint in use holds."""
    OLD_VERSION = "old_version"
    """Whether the checkpoint that was replaced is as the plan sealed it."""
    TABLE = "table"
    """At which batch the table's log ends."""
    ROWS = "rows"
    """How many rows the table has."""
    SPARK = "spark"
    """Whether Spark answers."""


class ProbeAnswer(Value):
    """One answer."""

    asked: ProbeQuestion
    """The question."""
    proven: Flag | None
    """As in `EvidenceLine`."""
    says: str
    """The answer, for people."""
    at: str
    """When it was read, in ISO form, UTC."""


class Probe(Value):
    """One probe, as it is stored in `Step.result["probe"]`."""

    number: Number
    """Which one it is; 1 is the first."""
    began: str
    """When it began, in ISO form."""
    ended: str
    """When it ended, in ISO form."""
    readings: tuple[ProbeAnswer, ...]
    """What it read."""
    following: str
    """When the next one begins, in ISO form; "": every question was answered, so nothing is read again by itself."""


def read_evidence(stored: Iterable[Mapping[str, Any]]) -> tuple[EvidenceLine, ...]:
    """The lines of `Step.evidence`."""
    return tuple(EvidenceLine.model_validate(dict(line)) for line in stored)
