"""Iceberg as a sink: each commit names the query and its batch, and a batch that is not newer is passed over. Pure.

Source: SparkWrite.BaseStreamingWrite of apache/iceberg (`spark.sql.streaming.queryId`, `spark.sql.streaming.epochId`
in a snapshot's summary; findLastCommittedEpochId walks the ancestors of the current snapshot). So its memory ends where
snapshots were expired: then a repeated batch is written twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, SinkBatchMemory, StartRisk, by_query_id
from recovery.sources.base import Precision

KIND = "iceberg"
TABLE, COMPARED = True, False


@dataclass(frozen=True)
class IcebergSinkFacts:
    """`heads`: query id -> newest batch in the table's history. `query_id`: that of the checkpoint."""

    heads: Mapping[str, int] = field(default_factory=dict)
    query_id: str | None = None
    #: the history does not go back to the table's first snapshot
    expired: bool = False

    @property
    def head(self) -> int | None:
        """The newest batch of this query; None: none in the history."""
        return self.heads.get(self.query_id) if self.query_id else None


def facts_of(report: SinkReport) -> IcebergSinkFacts:
    """Heads by query id; whether snapshots were expired is shown by `report.facts` alone, and taken for so without."""
    if isinstance(report.facts, IcebergSinkFacts):
        return report.facts
    own_query = next((query for query, head in report.heads.items() if head == report.head), None)
    return IcebergSinkFacts(dict(report.heads), own_query, expired=True)


def describe_memory(facts: IcebergSinkFacts) -> SinkBatchMemory:
    """The newest batch of each query id, as long as its snapshot is kept."""
    said = "none of this query's is in its history" if facts.head is None else f"this query's is {facts.head}"
    forgets = " Snapshots were expired, and what they remembered is forgotten." if facts.expired else ""
    return SinkBatchMemory(
        f"The table's history holds the newest batch of each query: {said}.{forgets}",
        facts.head is not None or not facts.expired,
        Precision.EXACT,
    )


def judge_risk(start: PlannedStart, facts: IcebergSinkFacts) -> StartRisk:
    """Under the old id, batches up to the head vanish; under a new one, what is read again is doubled."""
    # Expired snapshots are older than the query's newest one; only where none of it is left may one be the planned.
    forgotten = facts.head is None and facts.expired
    held = facts.head is not None and facts.head == start.planned
    return by_query_id(facts.head, start, held=None if forgotten else held)
