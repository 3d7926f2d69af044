"""The table beside the checkpoint."""

from recovery.checkpoints.findings.kind import B, Kind, W
from recovery.checkpoints.report import Outcome

TABLE: tuple[Kind, ...] = (
    Kind(
        "SINK_SWALLOWS",
        B,
        "The table's log has batch {head} already; the next batch would be {next}.",
        "Silently skips every batch up to {head}: the run is good and the rows are lost.",
        "Go on with batch {wanted}: take a seeded reset from a checkpoint that stands there, never an empty one.",
        outcome=Outcome.LOSES,
    ),
    Kind(
        "SINK_UNCOMMITTED_BATCH",
        W,
        "The table has batch {head}, which the checkpoint has planned and not committed.",
        "With the same code: runs it again, and the table skips it. After a reset: rows of the new batch {head} "
        "are lost.",
        "Put the old code back and let it finish batch {head} before anything is reset.",
    ),
    Kind(
        "SINK_LOG_BEHIND",
        B,
        "The table's log ends at batch {head}; the next batch would be {next}.",
        "Writes it, and the table can no longer be read: the log has a hole.",
        "Go on with batch {wanted}: put the table's log back, or take a full refresh.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    Kind(
        "SINK_LOG_MISSING",
        B,
        "The table keeps no log of batches (_spark_metadata), and the next batch would be {next}.",
        "Writes it, and the table can no longer be read: the log does not begin at 0.",
        "Put the table's log back, or take a full refresh.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    Kind(
        "SINK_LOG_HOLE",
        B,
        "The table's log has no batch {batch}, and no compacted entry stands in for it.",
        "Cannot read the table: the entry doesn't exist.",
        "Put the entry back from a backup, or take a full refresh.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    Kind(
        "SINK_LOG_UNREADABLE",
        B,
        "An entry of the table's log cannot be read: {why}.",
        "Cannot read the table.",
        "Put the entry back from a backup, or take a full refresh.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    Kind(
        "SINK_SHARED",
        B,
        "Flows {flows} write one file table; their batch numbers are the same.",
        "Silently skips batches whose number another flow has used: the run is good and rows are lost.",
        "Give each flow a table of its own, or use a format that takes several writers.",
        outcome=Outcome.LOSES,
    ),
)
