"""Every judgement that `inspect` can make, as one table: code, severity, what is so, what Spark does, what to do.

Codes are stable: plans, audit entries and docs/checkpoints.md name them. What Spark does was seen on Spark 4.2.
`seed` says whether a seeded reset from the last committed batch still gives the right rows.
"""

from dataclasses import dataclass

from recovery.checkpoints.report import Finding, Severity


@dataclass(frozen=True)
class Kind:
    """One row of the table. `says`, `spark` and `do` may hold {words} that a finding fills in."""

    code: str
    severity: Severity
    says: str
    spark: str
    do: str
    seed: bool = False


B, W, I = Severity.BLOCKER, Severity.WARNING, Severity.INFO  # noqa: E741

TABLE: tuple[Kind, ...] = (
    Kind(
        "CHECKPOINT_EMPTY",
        I,
        "The directory holds no checkpoint yet.",
        "Starts from the beginning, with batch 0.",
        "Nothing, where a start from the beginning is meant; else look for the right directory.",
    ),
    Kind(
        "NOT_A_CHECKPOINT",
        B,
        "The directory holds files, but none of a checkpoint.",
        "Starts from the beginning, with batch 0.",
        "Check the path.",
    ),
    Kind(
        "VERSION_NOT_A_DIRECTORY",
        B,
        "{name} beside the versions is a file, and its name is the highest number.",
        "Takes the file for the newest version and fails.",
        "Move the file away.",
    ),
    Kind(
        "METADATA_MISSING",
        B,
        "The file metadata, which holds the query id, is missing.",
        "Fails at the start: STREAMING_CHECKPOINT_MISSING_METADATA_FILE.",
        "Put the file back. A seeded reset writes a new one.",
        seed=True,
    ),
    Kind(
        "METADATA_UNREADABLE",
        B,
        "The file metadata does not hold a query id: {why}.",
        "Fails at the start with a JSON error.",
        "Put the file back. A seeded reset writes a new one.",
        seed=True,
    ),
    Kind(
        "OFFSETS_MISSING",
        B,
        "No offset file is left, but commits, source logs or state are.",
        "Fails with a bare assertion, or finds the checkpoint not empty.",
        "Put the offset files back from a backup, or take a full refresh.",
    ),
    Kind(
        "OFFSET_UNREADABLE",
        B,
        "Offset file {batch} of the last committed batches cannot be read: {why}.",
        "Fails: incomplete log file, or a JSON error.",
        "Put the file back from a backup.",
    ),
    Kind(
        "OFFSET_PLANNED_UNREADABLE",
        B,
        "Offset file {batch}, of a batch that was planned and not committed, cannot be read: {why}.",
        "Fails: incomplete log file, or a JSON error.",
        "Take a seeded reset: it leaves the planned batch out and plans it anew.",
        seed=True,
    ),
    Kind(
        "OFFSET_SOURCES_LOST",
        B,
        "Offset file {batch} has {found} source lines; the batch before has {expected}.",
        'Fails: "There are [{found}] sources in the checkpoint offsets", as if the code had changed.',
        "Put the file back from a backup.",
    ),
    Kind(
        "OFFSET_NEWER_FORMAT",
        B,
        "Offset file {batch} is in format {version}, newer than any known here.",
        "An older Spark fails: INVALID_LOG_VERSION.",
        "Use the Spark version that wrote it.",
    ),
    Kind(
        "OFFSET_NEIGHBOUR_MISSING",
        B,
        "Offset file {batch} is missing, the one before the newest.",
        'Fails: "batch {batch} doesn\'t exist". It reads the two newest.',
        "Take a seeded reset: it writes both.",
        seed=True,
    ),
    Kind(
        "OFFSET_STRAY",
        B,
        "Offset file {batch} does not follow on the others; it is a stray.",
        "Takes it for the newest batch and fails: the batch before is not found.",
        "Take a seeded reset: it leaves the stray out.",
        seed=True,
    ),
    Kind(
        "COMMIT_UNREADABLE",
        B,
        "Commit file {batch}, the newest, cannot be read: {why}.",
        "Fails: incomplete log file in the offset commit log, or a JSON error.",
        "Find out whether the sink holds batch {batch}; put the file back if it does.",
    ),
    Kind(
        "COMMIT_NEWER_FORMAT",
        B,
        "Commit file {batch} is in format {version}, newer than any known here.",
        "An older Spark fails: INVALID_LOG_VERSION.",
        "Use the Spark version that wrote it.",
    ),
    Kind(
        "COMMITS_AHEAD",
        B,
        "Batch {batch} is committed, but the newest offset file is {newest}.",
        "Runs batch {newest} again into the sink, then fails: CONCURRENT_STREAM_LOG_UPDATE.",
        "Put offset file {batch} back from a backup or from the progress events.",
    ),
    Kind(
        "COMMITS_BEHIND",
        W,
        "Batch {planned} was planned, which Spark does only after batch {before} is committed; "
        "the newest commit file is {newest}.",
        "Runs batch {planned} again and goes on.",
        "Put the old code back and let it finish batch {planned} before anything is reset.",
    ),
    Kind(
        "BATCH_PLANNED",
        I,
        "Batch {batch} was planned and not committed.",
        "Runs it first, over the same range.",
        "Nothing. Positions are taken from the last committed batch.",
        seed=True,
    ),
    Kind(
        "SOURCE_LOG_MISSING",
        B,
        "Source {source} stands at log entry {entry}, which its log does not have.",
        'Fails: "batch {entry} doesn\'t exist".',
        "Put the entry back from a backup, or take a full refresh.",
    ),
    Kind(
        "SOURCE_LOG_PLANNED_MISSING",
        B,
        "The planned batch needs log entry {entry} of source {source}, which its log does not have.",
        'Fails: "batch {entry} doesn\'t exist".',
        "Take a seeded reset: it leaves the planned batch out and plans it anew.",
        seed=True,
    ),
    Kind(
        "SOURCE_LOG_UNREADABLE",
        B,
        "A log entry of source {source} cannot be read: {why}.",
        "Fails: incomplete log file, or a JSON error.",
        "Put the entry back from a backup, or take a full refresh.",
    ),
    Kind(
        "SOURCE_LOG_HEADER_ONLY",
        B,
        "Log entry {entry} of source {source} names no file, though its batch was committed.",
        "Runs without an error and reads the files of that entry again: rows are doubled.",
        "Put the entry back from a backup before anything runs.",
    ),
    Kind(
        "SOURCE_LOG_GAP",
        B,
        "Log entry {entry} of source {source} is missing, and no compacted entry stands in for it.",
        "Fails: the entry doesn't exist.",
        "Put the entry back from a backup, or take a full refresh.",
    ),
    Kind(
        "SOURCE_UNKNOWN",
        I,
        "Source {source} is not a file source; its position is kept as it is written.",
        "Goes on from there.",
        "Nothing. This version can position file sources only.",
    ),
    Kind(
        "STATE_MISSING",
        B,
        "The state of operator {operator} is missing.",
        "Fails: STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY, or the state cannot be loaded.",
        "Put it back from a backup, or take a reset that drops the state.",
        seed=True,
    ),
    Kind(
        "STATE_PARTITION_MISSING",
        B,
        "Operator {operator} has {expected} partitions, and partition {partition} is missing.",
        "Fails: CANNOT_LOAD_STATE_STORE.",
        "Put it back from a backup, or take a reset that drops the state.",
        seed=True,
    ),
    Kind(
        "OPERATOR_METADATA_MISSING",
        W,
        "Operator {operator} has state, but its metadata is missing.",
        "Runs without an error and without checking that the code's operator is the state's.",
        "Make sure that the code did not change; any good run writes the file again.",
        seed=True,
    ),
    Kind(
        "OPERATOR_METADATA_UNREADABLE",
        W,
        "The metadata of operator {operator} cannot be read: {why}.",
        "Runs without an error and without checking that the code's operator is the state's.",
        "Make sure that the code did not change; any good run writes the file again.",
        seed=True,
    ),
    Kind(
        "ORPHAN_CRC",
        B,
        "The checksum file {name} is left of a file that is gone, and Spark will write that file next.",
        'Fails on the local file system: "Multiple streaming queries are concurrently using".',
        "Delete the checksum file. A seeded reset copies none.",
        seed=True,
    ),
    Kind(
        "OLDER_FILE_UNREADABLE",
        W,
        "{name} cannot be read: {why}. A restart does not read it.",
        "Goes on; only a rewind to that batch would fail.",
        "Nothing, unless a rewind is planned.",
        seed=True,
    ),
    Kind(
        "TOO_LARGE",
        B,
        "{name} has {size} bytes, more than the {limit} that are read here.",
        "Reads it, if it has the memory.",
        "Look at the file: a log of this size is seldom meant.",
    ),
    Kind(
        "TOO_MANY_FILES",
        B,
        "There are more than {limit} files; the rest was not looked at.",
        "Lists them all.",
        "Check the path and the retention settings.",
    ),
    Kind(
        "SINK_SWALLOWS",
        B,
        "The table's log has batch {head} already; the next batch would be {next}.",
        "Silently skips every batch up to {head}: the run is good and the rows are lost.",
        "Go on with batch {wanted}: take a seeded reset from a checkpoint that stands there, never an empty one.",
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
    ),
    Kind(
        "SINK_LOG_MISSING",
        B,
        "The table keeps no log of batches (_spark_metadata), and the next batch would be {next}.",
        "Writes it, and the table can no longer be read: the log does not begin at 0.",
        "Put the table's log back, or take a full refresh.",
    ),
    Kind(
        "SINK_LOG_HOLE",
        B,
        "The table's log has no batch {batch}, and no compacted entry stands in for it.",
        "Cannot read the table: the entry doesn't exist.",
        "Put the entry back from a backup, or take a full refresh.",
    ),
    Kind(
        "SINK_LOG_UNREADABLE",
        B,
        "An entry of the table's log cannot be read: {why}.",
        "Cannot read the table.",
        "Put the entry back from a backup, or take a full refresh.",
    ),
    Kind(
        "SINK_SHARED",
        B,
        "Flows {flows} write one file table; their batch numbers are the same.",
        "Silently skips batches whose number another flow has used: the run is good and rows are lost.",
        "Give each flow a table of its own, or use a format that takes several writers.",
    ),
)

BY_CODE = {kind.code: kind for kind in TABLE}


def finding(code: str, file: str | None = None, **words: object) -> Finding:
    """The finding of this code with its words filled in. Raises KeyError for a word left out (a bug)."""
    kind = BY_CODE[code]
    return Finding(
        code=code,
        severity=kind.severity,
        says=kind.says.format(**words),
        do=kind.do.format(**words),
        file=file,
        spark=kind.spark.format(**words),
    )


def as_markdown() -> str:
    """The table as docs/checkpoints.md shows it."""
    rows = ["| code | severity | what is so | what Spark does | what to do |", "|---|---|---|---|---|"]
    rows += [f"| `{k.code}` | {k.severity.value} | {k.says} | {k.spark} | {k.do} |" for k in TABLE]
    return "\n".join(rows) + "\n"
