"""The checkpoint as a directory: where it is, what is in it that does not belong there."""

from recovery.checkpoints.findings.kind import B, FindingKind, I, W
from recovery.checkpoints.report import Outcome

TABLE: tuple[FindingKind, ...] = (
    FindingKind(
        "CHECKPOINT_EMPTY",
        I,
        "The directory holds no checkpoint yet.",
        "Starts from the beginning, with batch 0.",
        "Nothing, if a start from the beginning is meant; else look for the right directory.",
    ),
    FindingKind(
        "NOT_A_CHECKPOINT",
        B,
        "The directory holds files, but none of a checkpoint.",
        "Starts from the beginning, with batch 0.",
        "Check the path.",
        outcome=Outcome.UNKNOWN,
    ),
    FindingKind(
        "VERSION_NOT_A_DIRECTORY",
        B,
        "{name} next to the versions is a file, and its name is the highest number.",
        "Takes the file for the newest version and fails.",
        "Move the file away.",
    ),
    FindingKind(
        "ORPHAN_CRC",
        B,
        "The checksum file {name} is left of a file that is gone, and Spark will write that file next.",
        'Fails on the local file system: "Multiple streaming queries are concurrently using".',
        "Delete the checksum file. Repair and a seeded reset copy none.",
        seed=True,
    ),
    FindingKind(
        "SIDECAR_DIFFERS",
        I,
        "{count} files of the logs do not match their checksum files, such as {name}: someone "
        "has edited or replaced them.",
        "Goes on: it does not compare them.",
        "Nothing, or find out who changed the file.",
        seed=True,
    ),
    FindingKind(
        "OLDER_FILE_UNREADABLE",
        W,
        "{name} cannot be read: {why}. A restart does not read it.",
        "Goes on; only a rewind to that batch would fail.",
        "Nothing, unless a rewind is planned.",
        seed=True,
    ),
    FindingKind(
        "TOO_LARGE",
        B,
        "{name} has {size} bytes, more than the {limit} that are read here.",
        "Reads it, if it has the memory.",
        "Look at the file: a log of this size is seldom right.",
        outcome=Outcome.UNKNOWN,
    ),
    FindingKind(
        "TOO_MANY_FILES",
        B,
        "There are more than {limit} files; the rest was not looked at.",
        "Lists them all.",
        "Check the path and the retention settings.",
        outcome=Outcome.UNKNOWN,
    ),
    FindingKind(
        "LOCATION_TEMPORARY",
        W,
        "The checkpoint is below a temporary place: {place}.",
        "Begins from the start, with batch 0, once the directory was cleared.",
        "Give the query its own lasting place, and move the checkpoint there.",
        seed=True,
    ),
    FindingKind(
        "LOCATION_SHARED",
        B,
        "Queries {queries} share the checkpoint {place}.",
        "Fails with CONCURRENT_STREAM_LOG_UPDATE, or each goes on from the other's position.",
        "Give each query its own checkpoint.",
    ),
    FindingKind(
        "QUERY_ID_SHARED",
        B,
        "Flows {flows} have checkpoints with one query id, {id}: one is a copy of the other.",
        "Ends the older query of that id without an error when the younger one starts, or refuses to start it.",
        "Give all but one of them a new checkpoint: its query begins with a new id there.",
        outcome=Outcome.UNKNOWN,
    ),
    FindingKind(
        "FLOW_RENAMED",
        W,
        "Flow {new} began with the same input files as flow {old} of the same table.",
        "Reads everything again from batch 0; a file table silently skips the batch numbers that it has.",
        "If {old} was renamed to {new}: stop, and move the directory {old} to the new name before the next run.",
        seed=True,
    ),
    FindingKind(
        "DIRECTORY_IN_THE_WAY",
        B,
        "{folder}/{name} is a directory, and Spark will write a file of that name next.",
        "Fails on the local file system, as if another query had written it: CONCURRENT_STREAM_LOG_UPDATE.",
        "Move the directory away.",
        seed=True,
    ),
)
