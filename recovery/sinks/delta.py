"""The Delta sink: which batches it would skip under a query id, and what a start would double. Pure.

Facts: see recovery/checkpoints/deltasink.py. A Delta table absorbs a repeated batch only under the id that it has
been written with, and takes any number under a new one: a seed, whose id is new, loses nothing and doubles nothing
as long as its position is that of what the table holds.
"""

from collections.abc import Sequence

from recovery.checkpoints import deltasink
from recovery.checkpoints.report import Finding
from recovery.sinks.base import SinkReport
from recovery.sinks.files import EmptyReset
from recovery.sinks.kinds import Memory, Risk, Start, by_query_id
from recovery.sources.base import InputFile, Precision

KIND = "delta"


def next_batch_finding(report: SinkReport, next_batch: int, query_id: str | None) -> Finding | None:
    """What goes wrong when a checkpoint with this query id writes `next_batch` first; None: nothing, or not known.

    `query_id` None: a new id, which the table has never seen.
    """
    head = report.heads.get(query_id) if report.kind == KIND and query_id else None
    return deltasink.fit(head, next_batch)


def empty_reset(
    report: SinkReport,
    processed: Sequence[InputFile],
    waiting: Sequence[InputFile],
    max_files_per_trigger: int | None,
) -> EmptyReset:
    """An empty checkpoint has a new query id: the table skips nothing, and takes all that was read a second time.

    The same question as that of `sinks.files.empty_reset`, so that a strategy can ask either; what waits and how it
    is cut into batches makes no difference here.
    """
    return {"swallowed_waiting": (), "doubled": tuple(processed)}


def memory(facts: SinkReport) -> Memory:
    """The newest batch of each query id; `facts.head` is that of the query that was asked about."""
    said = "it has none of this query" if facts.head is None else f"this query's is {facts.head}"
    return Memory(f"The table's log holds the newest batch of each query: {said}.", True, Precision.EXACT)


def risk(start: Start, facts: SinkReport) -> Risk:
    """Under the old id, batches up to the head vanish; under a new one, what is read again is doubled."""
    return by_query_id(facts.head, start, held=facts.head is not None and facts.head == start.planned)
