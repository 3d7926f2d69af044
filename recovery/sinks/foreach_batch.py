"""foreachBatch: the user's code is the sink, and what it remembers is what it was written to remember. Pure.

Source: the Spark guide (foreachBatch is at-least-once; the batch id may be used to drop repeats) and Delta's options
`txnAppId` and `txnVersion`, which make a write idempotent: a version that is not above the table's newest for that id
is skipped. The id is the code's own and outlives a reset, so numbers must go on. Whatever else the code does (a call to
a service, a mail, a write to a store without a key) happens again with every repeat.
"""

from dataclasses import dataclass

from recovery.contracts.amounts import Amount
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import (
    PlannedStart,
    StartRisk,
    count_repeated,
    in_words,
    is_nothing,
    judge_skips,
    passed_over,
)

KIND = "foreach_batch"
TABLE = COMPARED = False  # what the code writes to is its own affair


@dataclass(frozen=True)
class ForeachBatchFacts:
    """What the code was seen to do."""

    #: the id of its Delta writes; None: none, or not seen
    txn_app_id: str | None = None
    #: the newest txnVersion that the table has for that id
    head: int | None = None
    #: no other write was seen; None: the code was not read
    every_write_guarded: bool | None = None
    #: other things that it does, in a few words each
    side_effects: tuple[str, ...] = ()
    #: each batch is computed before it is written
    computes_first: bool = False


def _facts_of(report: SinkReport) -> ForeachBatchFacts:
    """What was seen of the code; nothing, where not read."""
    return report.facts if isinstance(report.facts, ForeachBatchFacts) else ForeachBatchFacts()


def explain_at_least_once(report: SinkReport) -> str:
    facts = _facts_of(report)
    if facts.txn_app_id is not None and facts.every_write_guarded and not facts.side_effects:
        return ""
    has = "nothing yet" if facts.head is None else f"batch {facts.head}"
    memory = (
        "The function gives no txnAppId: a batch that comes again is written again."
        if facts.txn_app_id is None
        else f"The table has {has} for txnAppId {facts.txn_app_id}, and skips what is not newer."
    )
    effects = ", ".join(facts.side_effects)
    return f"{memory} It also does, again with each repeat: {effects}." if effects else memory


def judge_risk(start: PlannedStart, report: SinkReport) -> StartRisk:
    """Batches that vanish under the code's own id; else everything that is read again."""
    facts = _facts_of(report)
    if facts.txn_app_id is not None and facts.head is not None:
        gone = passed_over(facts.head, start)
        if start.repeats(facts.head):
            return _judge_retried_batch(start, facts)
        if gone:
            return judge_skips(facts.head, gone, f"The table, for txnAppId {facts.txn_app_id},")
    rows = count_repeated(start)
    if is_nothing(rows):
        return StartRisk(rows, "Nothing is handed to the function a second time.")
    effects = f", and done again: {', '.join(facts.side_effects)}" if facts.side_effects else ""
    return StartRisk(
        rows,
        f"{in_words(rows).capitalize()} would be handed to the function again{effects}.",
        do="Make the function idempotent: txnAppId and txnVersion on every Delta write, a MERGE by key elsewhere; what "
        "cannot be, such as a mail, happens again for those rows.",
    )


def _judge_retried_batch(start: PlannedStart, facts: ForeachBatchFacts) -> StartRisk:
    """The batch that the table holds is tried again, and skipped there; what else the code does happens again.

    A skipped write computes nothing: on Spark 4.2 a batch with state then fails
    (STATE_STORE_COMMIT_VALIDATION_FAILED, StateStoreCoordinator; run in tests/matrix).
    """
    if start.stateful and not facts.computes_first:
        return StartRisk(
            None,
            f"Batch {start.planned} would be run again, and its write skipped by the table, which has it: its state is "
            "not computed then, and Spark fails the batch (STATE_STORE_COMMIT_VALIDATION_FAILED).",
            do="Let the function compute each batch before it writes (batch.persist(), then batch.count()).",
            bars=True,
        )
    guarded = facts.every_write_guarded is True and not facts.side_effects
    doubled = Amount(value=0) if guarded else start.planned_rows
    more = (
        "" if guarded else f" What else the function does happens again for {in_words(start.planned_rows)}."
    )
    return StartRisk(
        doubled, f"Batch {start.planned} is run again and skipped by the table, which has it.{more}"
    )
