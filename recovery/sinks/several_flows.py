"""Several flows that write one table: whether they keep out of each other's way. Pure.

A file table has one log of batches for all writers: a number that one flow has used is passed over for the others
(FileStreamSink.addBatch; seen with two flows of one pipeline, 2 of 6 rows lost in a run that completed). Delta and
Iceberg remember batches by query id, so flows are apart; a reset of one leaves the others alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, SinkBatchMemory, StartRisk, count_repeated, in_words
from recovery.sources.base import Precision

KIND = "several_flows"
TABLE, COMPARED = True, False  # what an update wrote may be another flow's
APART = ("delta", "iceberg")


@dataclass(frozen=True)
class SharedTableFacts:
    """`table`: the kind of the table's own sink; `flows`: all that write it; `reset`: those that start from scratch."""

    table: str
    flows: tuple[str, ...]
    reset: tuple[str, ...] = ()


def facts_of(report: SinkReport) -> SharedTableFacts:
    """Which flows, and the kind of the table; an unknown kind, where not recorded."""
    return report.facts if isinstance(report.facts, SharedTableFacts) else SharedTableFacts("unknown", ())


def describe_memory(facts: SharedTableFacts) -> SinkBatchMemory:
    """By the table's kind."""
    if facts.table == "files":
        return SinkBatchMemory(
            f"{_join_flows(facts.flows)} share one log of batches: a number that one used is skipped for the others.",
            False,
            Precision.AT_MOST_ONCE,
        )
    if facts.table in APART:
        return SinkBatchMemory(
            "The table remembers the batches of each flow's query apart.", True, Precision.EXACT
        )
    return SinkBatchMemory(
        "What this table remembers of several writers is not known here.", None, Precision.UNKNOWN
    )


def judge_risk(start: PlannedStart, facts: SharedTableFacts) -> StartRisk:
    """Rows vanish in a shared file table whatever is done; apart, only the flows that start from scratch count."""
    if facts.table == "files" and len(facts.flows) > 1:
        return StartRisk(
            None,
            f"{_join_flows(facts.flows)} write one file table, and batches vanish in it whatever their start: which, "
            "depends on who comes first.",
            do="Give each flow its own table, or use a format that takes several writers.",
            bars=True,
        )
    others = [flow for flow in facts.flows if flow not in facts.reset]
    rest = (
        f" {_join_flows(others)} go on as they were."
        if len(others) > 1
        else f" {others[0]} goes on as it was."
        if others
        else ""
    )
    if facts.table not in APART and facts.table != "files":
        return StartRisk(None, f"What this table does with a repeated batch is not known.{rest}")
    rows = count_repeated(start)
    return StartRisk(rows, f"Of the flows that start over, {in_words(rows)} would be there twice.{rest}")


def _join_flows(flows: Sequence[str]) -> str:
    return flows[0] if len(flows) == 1 else f"{', '.join(flows[:-1])} and {flows[-1]}" if flows else "No flow"
