"""AUTO CDC: rows are merged by key and guarded by their sequence, with an auxiliary table beside the target. Pure.

Source: Spark 4.2 and 4.3 by reading (filterLiveAuxiliaryRows, mergeRowsIntoAuxiliaryTable), not run here. SCD type 1
keeps delete tombstones there: repeats are absorbed as long as the auxiliary table is kept. SCD type 2 stores the
*batch id*: rows that another batch has marked as deleted are reaped at the next merge, so numbers must go on and no
batch may be left unfinished. K, on Databricks: tombstones are kept for a time
(`pipelines.cdc.tombstoneGCThresholdInSeconds`); rows replayed from before it may bring deleted keys back.
"""

from dataclasses import dataclass

from recovery.contracts.amounts import Amount
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, SinkBatchMemory, StartRisk, in_words, is_nothing
from recovery.sources.base import Precision
from recovery.sources.comparing import format_time

KIND = "auto_cdc"
TABLE, COMPARED = True, False  # rows are merged: what an update wrote is not what was added


@dataclass(frozen=True)
class AutoCdcFacts:
    """An AUTO CDC flow. Times in ms since the epoch."""

    scd_type: int = 1
    #: the auxiliary table is there and stays; None: not known
    auxiliary_kept: bool | None = None
    #: the newest batch that ran
    last_batch: int | None = None
    #: older ones may be gone; None: kept for ever, as in open-source Spark
    tombstones_since_ms: int | None = None
    #: the oldest change that is read again; None: not known
    replays_from_ms: int | None = None


def facts_of(report: SinkReport) -> AutoCdcFacts:
    """What is known of both tables. Without it SCD type 2 is taken for granted: it asks for more."""
    return (
        report.facts
        if isinstance(report.facts, AutoCdcFacts)
        else AutoCdcFacts(scd_type=2, last_batch=report.head)
    )


def describe_memory(facts: AutoCdcFacts) -> SinkBatchMemory:
    """Sequences by key; tombstones, or batch ids, in the auxiliary table."""
    if facts.scd_type == 2:
        says = "SCD type 2: rows are guarded by their sequence; the auxiliary table holds numbers of batches."
    else:
        says = "SCD type 1: rows are guarded by their sequence; the auxiliary table holds tombstones of deleted keys."
    return SinkBatchMemory(says, facts.auxiliary_kept, Precision.EXACT)


def judge_risk(start: PlannedStart, facts: AutoCdcFacts) -> StartRisk:
    """Nothing twice where the auxiliary table stays, numbers go on, and no tombstone has gone."""
    if facts.auxiliary_kept is False:
        return StartRisk(
            None,
            "Without the auxiliary table, keys that were deleted may come back with the rows that are read again.",
            do="Keep the auxiliary table, or take a full refresh, which recreates target and auxiliary table.",
            bars=True,
        )
    if facts.scd_type == 2 and (risk := _judge_batch_numbers(start, facts)):
        return risk
    rereads = not is_nothing(start.reread.rows) or start.planned is not None
    if not rereads:
        return StartRisk(Amount(value=0), "Nothing is merged a second time.")
    if facts.auxiliary_kept is None:
        return StartRisk(
            None,
            "Whether the auxiliary table is kept is not known; rows that are read again need it.",
            do="Look whether it is there.",
        )
    since, replays = facts.tombstones_since_ms, facts.replays_from_ms
    if since is not None and (replays is None or replays < since):
        when = "a time that is not known" if replays is None else format_time(replays)
        return StartRisk(
            None,
            f"Changes from {when} on are read again, and tombstones are kept since {format_time(since)} only: keys "
            "deleted before may come back.",
            do="Start no earlier than the tombstones reach.",
        )
    return StartRisk(
        Amount(value=0),
        f"{_capitalize_first(in_words(start.reread.rows))} read again, and absorbed: each is guarded by its sequence.",
    )


def _judge_batch_numbers(start: PlannedStart, facts: AutoCdcFacts) -> StartRisk | None:
    if start.repeats(start.planned):
        return None  # the same batch under its own number: its deletions count as its own
    if start.planned is not None:
        return StartRisk(
            None,
            f"Batch {start.planned} was planned and not committed. It may be in the auxiliary table and not in the "
            "target; under another number its deletions are reaped and history is lost.",
            do="Run the old code once until the batch is committed.",
            bars=True,
        )
    if facts.last_batch is not None and start.next_batch <= facts.last_batch:
        return StartRisk(
            None,
            f"Batch {start.next_batch} is a number that was used up to {facts.last_batch}: rows that such a batch had "
            "marked as deleted would count as alive again.",
            do=f"Go on with batch {facts.last_batch + 1}.",
            bars=True,
            following=facts.last_batch + 1,
        )
    return None


def _capitalize_first(words: str) -> str:
    return words[:1].upper() + words[1:]
