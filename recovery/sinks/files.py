"""The file sink: whether a next batch fits its log, and what a start does to rows. Pure.

Source: FileStreamSink.addBatch skips, without a word, every batch whose id is not above the log's newest.
"""

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

KIND = "files"
TABLE = COMPARED = True


def explain_at_least_once(report: SinkReport) -> str:
    return ""


def judge_risk(start: PlannedStart, report: SinkReport) -> StartRisk:
    """Batches up to the head vanish, under any query id; a number beyond the next one breaks the table."""
    head = report.head
    if start.repeats(head):
        return StartRisk(
            Amount(value=0), f"Batch {head} is run again and skipped by the table, which has it."
        )
    if head is not None and (gone := passed_over(head, start)):
        return judge_skips(head, gone, "The table")
    following = 0 if head is None else head + 1
    if start.next_batch > following:
        return StartRisk(
            None,
            f"The table's log ends at {'nothing' if head is None else f'batch {head}'}; batch {start.next_batch} would "
            "leave a hole, and the table could no longer be read.",
            do=f"Go on with batch {following}.",
            bars=True,
            following=following,
        )
    rows = count_repeated(start, held=head == start.planned)
    if is_nothing(rows):
        return StartRisk(rows, "The table takes the next batch, and nothing comes twice.")
    return StartRisk(
        rows, f"The table takes what is read again as new: {in_words(rows)} would be there twice."
    )
