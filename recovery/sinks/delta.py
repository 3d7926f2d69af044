"""The Delta sink: which batches it would skip under a query id, and what a start would double. Pure.

Facts: see recovery/checkpoints/deltasink.py. A Delta table absorbs a repeated batch only under the id that it has
been written with, and takes any number under a new one: a seed, whose id is new, loses nothing and doubles nothing
as long as its position is that of what the table holds.
"""

from recovery.checkpoints import deltasink
from recovery.checkpoints.report import Finding
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import (
    PlannedStart,
    SinkBatchMemory,
    StartRisk,
    by_query_id,
    count_repeated,
    in_words,
)
from recovery.sources.base import Precision

KIND = "delta"
TABLE = COMPARED = True


def next_batch_finding(report: SinkReport, next_batch: int, query_id: str | None) -> Finding | None:
    """What goes wrong when a checkpoint with this query id writes `next_batch` first; None: nothing, or not known.

    `query_id` None: a new id, which the table has never seen.
    """
    head = report.heads.get(query_id) if report.kind == KIND and query_id else None
    return deltasink.explain_misfit(head, next_batch)


def facts_of(report: SinkReport) -> SinkReport:
    """The report says all."""
    return report


def describe_memory(facts: SinkReport) -> SinkBatchMemory:
    """The newest batch of each query id; `facts.head` is that of the query that was asked about."""
    said = "it has none of this query" if facts.head is None else f"this query's is {facts.head}"
    forgets = (
        " It forgets queries that were not heard of for long (a setting of the table)."
        if facts.forgets
        else ""
    )
    return SinkBatchMemory(
        f"The table's log holds the newest batch of each query: {said}.{forgets}",
        True if facts.head is not None or not facts.forgets else None,
        Precision.EXACT,
    )


def judge_risk(start: PlannedStart, facts: SinkReport) -> StartRisk:
    """Under the old id, batches up to the head vanish; under a new one, what is read again is doubled."""
    held = _has_planned_batch(start, facts)
    if held and facts.head is None and (start.query_id_kept or start.same_range):
        rows = count_repeated(start, held=True)
        return StartRisk(
            rows,
            f"The table has batch {start.planned} and has forgotten so, by its setting {deltasink.RETENTION}: run "
            f"again, it is not skipped, and {in_words(rows)} would be there twice.",
            do=f"Seed after batch {start.planned} (continue): its end is in the checkpoint's offsets.",
            bars=True,
        )
    return by_query_id(facts.head, start, held=held)


def _has_planned_batch(start: PlannedStart, facts: SinkReport) -> bool | None:
    """Whether the table has the planned batch, also where it has forgotten so; None: not known."""
    if start.planned is None:
        return False
    if facts.head is not None:
        return facts.head == start.planned
    if facts.forgotten is not None:
        return facts.forgotten >= start.planned
    # Forgotten and taken out of the log; or under an id that is not known to be this query's: it may have lost its own.
    return None if facts.forgets or start.planned in facts.heads.values() else False
