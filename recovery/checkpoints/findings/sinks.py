"""The table beside the checkpoint."""

from recovery.checkpoints.findings.kind import B, FindingKind, I, W
from recovery.checkpoints.report import Outcome

TABLE: tuple[FindingKind, ...] = (
    FindingKind(
        "SINK_SWALLOWS",
        B,
        "The table's log has batch {head} already; the next batch would be {next}.",
        "Silently skips every batch up to {head}: the run succeeds and the rows are lost.",
        "Go on with batch {wanted}: choose a seeded reset from a checkpoint at that batch, never an empty one.",
        outcome=Outcome.LOSES,
    ),
    FindingKind(
        "SINK_SWALLOWED",
        W,
        "Batches {first} to {last} are in the table's log from before this checkpoint planned them ({count} seen): the "
        "table skipped them, and what they read is not in it by them.{also}",
        "Goes on; the rows of those batches do not come back.",
        "Compare the table with its input. If rows are missing, begin again with an empty table "
        "and an empty checkpoint.",
    ),
    FindingKind(
        "SINK_HAS_ROWS_OF_BEFORE",
        W,
        "The table has rows of another query ({query}, up to batch {head}), which wrote it last before this checkpoint "
        "began at batch 0.",
        "Goes on. What both queries read is in the table twice.",
        "If that query was this stream under an earlier checkpoint, compare the table with its input, or begin again "
        "with an empty table and an empty checkpoint.",
        seed=True,
    ),
    FindingKind(
        "SINK_UNCOMMITTED_BATCH",
        W,
        "The table has batch {head}, which the checkpoint has planned and not committed.",
        "With the same code: runs it again, and the table skips it. After an empty reset: rows of the new batch "
        "{head} are lost.",
        "Put the old code back and let it finish batch {head}, or choose a seeded reset (continue): it goes on after "
        "batch {head}, whose rows the table has.",
    ),
    FindingKind(
        "SINK_LOG_BEHIND",
        B,
        "The table's log ends at batch {head}; the next batch would be {next}.",
        "Writes it, and the table can no longer be read: the log has a hole.",
        "Go on with batch {wanted}: put the table's log back, or begin again with an empty table and an empty "
        "checkpoint.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    FindingKind(
        "SINK_LOG_MISSING",
        B,
        "The table keeps no log of batches (_spark_metadata), and the next batch would be {next}.",
        "A file sink writes it, and the table can no longer be read: the log does not begin at 0.",
        "If foreachBatch writes these files, nothing: they need no log. Else put the table's log back, or "
        "begin again with an empty table and an empty checkpoint.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    FindingKind(
        "SINK_WITHOUT_LOG",
        I,
        "The table keeps no log of batches (_spark_metadata): batch jobs or foreachBatch have written it.",
        "Goes on if the query writes it by foreachBatch. A file sink would begin a log there with batch {next}, and "
        "the table could no longer be read.",
        "Make sure that foreachBatch writes each batch once, even if it runs again.",
        seed=True,
    ),
    FindingKind(
        "SINK_NOT_COMPARED",
        I,
        "The table is {kind}, which keeps no log of a file sink; what it remembers of batches was not compared.",
        "Goes on.",
        "Nothing to do.",
        seed=True,
    ),
    FindingKind(
        "SINK_LOG_HOLE",
        B,
        "The table's log has no batch {batch}, and no compacted entry replaces it.",
        "Cannot read the table: the entry doesn't exist.",
        "Put the entry back from a backup, or begin again with an empty table and an empty checkpoint.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    FindingKind(
        "SINK_LOG_UNREADABLE",
        B,
        "An entry of the table's log cannot be read: {why}.",
        "Cannot read the table.",
        "Put the entry back from a backup, or begin again with an empty table and an empty checkpoint.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
    FindingKind(
        "SINK_SHARED",
        B,
        "Flows {flows} write one file table; their batch numbers are the same.",
        "Silently skips batches whose number another flow has used: the run succeeds and rows are lost.",
        "Give each stream its own table, or use a format that takes several writers.",
        outcome=Outcome.LOSES,
    ),
    FindingKind(
        "SINK_SKIPS_STATE",
        B,
        "The table has batch {head}, which the checkpoint has planned and not committed; its state is in format 2.",
        "The table skips the batch, so no task reports the ids of its state: fails with a bare assertion "
        "about CheckpointInfo, at every start.",
        "Remove entry {head} of the table's log: the batch is then written again, once.",
    ),
    FindingKind(
        "SINK_FORGOT_BATCH",
        B,
        "The table has batch {head}, which the checkpoint has planned and not committed, and has forgotten so by its "
        "setting {setting}.",
        "Runs the batch again, and the table does not skip it: its rows are there twice.",
        "Choose a seeded reset: it continues after batch {head}, whose rows the table has.",
        outcome=Outcome.DOUBLES,
    ),
    FindingKind(
        "SINK_FORGOT",
        B,
        "The table has batches of this query up to {head}, and has forgotten it because of its setting {setting}; the "
        "next batch would be {next}.",
        "Writes the batches up to {head} a second time: the run succeeds and the rows are doubled.",
        "Put back the checkpoint of batch {head}, or begin again with an empty table and an empty checkpoint.",
        outcome=Outcome.DOUBLES,
    ),
    FindingKind(
        "SINK_ORPHAN_CRC",
        B,
        "The checksum file {name} in the table's log is left of a file that is gone, and Spark will write that next.",
        'Fails on the local file system: "Multiple streaming queries are concurrently using".',
        "Delete the checksum file.",
    ),
    FindingKind(
        "SINK_FILE_GONE",
        B,
        "{count} data files that the table's log names are not in the table, such as {name}.",
        "Goes on writing, but the table cannot be read: FAILED_READ_FILE.FILE_NOT_EXIST.",
        "Put the files back from a backup, or begin again with an empty table and an empty checkpoint.",
        outcome=Outcome.UNREADABLE_TABLE,
    ),
)
