"""A materialized view: computed again from its sources by every update, so it has no checkpoint to lose. Pure.

Source: DatasetManager of Spark's pipelines (a view is truncated and written whole). It shows what its sources hold:
what is doubled or lost there is doubled or lost here, until they are right and the view is refreshed.
"""

from dataclasses import dataclass

from recovery.contracts.amounts import Amount
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, SinkBatchMemory, StartRisk
from recovery.sources.base import Precision

KIND = "materialized_view"
TABLE, COMPARED = True, False


@dataclass(frozen=True)
class MaterializedViewFacts:
    """Nothing need be known."""


def facts_of(report: SinkReport) -> MaterializedViewFacts:
    """Nothing is needed."""
    return MaterializedViewFacts()


def describe_memory(facts: MaterializedViewFacts) -> SinkBatchMemory:
    """Nothing, and nothing is needed."""
    return SinkBatchMemory(
        "A materialized view is recomputed by every update; it remembers no batch.", True, Precision.EXACT
    )


def judge_risk(start: PlannedStart, facts: MaterializedViewFacts) -> StartRisk:
    """None of its own."""
    return StartRisk(
        Amount(value=0),
        "The view adds no loss and no repeat of its own; it shows what the tables hold that it reads.",
        do="Refresh it after the tables above it are right.",
    )
