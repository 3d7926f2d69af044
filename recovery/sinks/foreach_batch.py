"""foreachBatch: the user's code is the sink, and what it remembers is what it was written to remember. Pure.

Source: the Spark guide (foreachBatch is at-least-once; the batch id may be used to drop repeats) and Delta's options
`txnAppId` and `txnVersion`, which make a write idempotent: a version that is not above the table's newest for that id
is skipped. What the code does is not read, so nothing is promised; the ids that its Delta table has are looked at
(`strategies.sinks`). Whatever else it does (a call to a service, a mail) happens again with every repeat.
"""

from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, StartRisk, count_repeated, in_words, is_nothing

KIND = "foreach_batch"
TABLE = COMPARED = False  # what the code writes to is its own affair


def explain_at_least_once(report: SinkReport) -> str:
    return (
        "A function writes what it is given: a batch that comes again is written again, unless the function gives "
        "txnAppId and txnVersion or merges by a key. What else it does happens again."
    )


def judge_risk(start: PlannedStart, report: SinkReport) -> StartRisk:
    """Everything that is read again is handed to the function again."""
    rows = count_repeated(start)
    if is_nothing(rows):
        return StartRisk(rows, "Nothing is handed to the function a second time.")
    return StartRisk(
        rows,
        f"{in_words(rows).capitalize()} would be handed to the function again.",
        do="Make the function idempotent: txnAppId and txnVersion on every Delta write, a MERGE by key elsewhere; what "
        "cannot be, such as a mail, happens again for those rows.",
    )
