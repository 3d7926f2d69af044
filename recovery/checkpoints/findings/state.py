"""State: operators, their metadata, schemas and files."""

from recovery.checkpoints.findings.kind import B, Kind, W

TABLE: tuple[Kind, ...] = (
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
        "Make sure that the code did not change; any good run writes the file again, and repair does where it can.",
        seed=True,
    ),
    Kind(
        "OPERATOR_METADATA_UNREADABLE",
        W,
        "The metadata of operator {operator} cannot be read: {why}.",
        "Runs without an error and without checking that the code's operator is the state's.",
        "Make sure that the code did not change; any good run writes the file again, and repair does where it can.",
        seed=True,
    ),
)
