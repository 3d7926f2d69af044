"""Errors of a query that does not fit its checkpoint: usually nothing is damaged, the code changed."""

from typing import Final

from recovery.contracts.diagnosis import Advice
from recovery.contracts.names import ChangeIntent
from recovery.diagnosis.row import (
    AGAIN,
    DELETE,
    EMPTY,
    KEEP,
    RESET_LATER,
    RESET_NO,
    RESET_YES,
    WITHOUT,
    ErrorRow,
)

FAMILY: Final = "query"
REVERT: Final = Advice(
    "If the change was a mistake, put the old code back: the checkpoint fits it as it is.",
    "revert",
    ChangeIntent.NO,
    undoable=True,
)
CONTINUE: Final = Advice(
    "If it was meant, continue with a seeded checkpoint: progress is kept, the stored state is dropped.",
    "continue",
    ChangeIntent.YES,
    undoable=True,
)
REBUILD: Final = Advice(
    "If it was meant and the new code keeps state, rebuild: what was processed is replayed for the new state, progress "
    "is kept.",
    "rebuild",
    ChangeIntent.YES,
    undoable=True,
)
PRIME: Final = Advice(
    "If it was meant and the new code's state may start empty, prime: progress is kept, and the state starts without "
    "earlier rows.",
    "prime",
    ChangeIntent.YES,
    undoable=True,
)
REWIND: Final = Advice(
    "If it was meant and the new code keeps state behind a watermark, reread: it goes back in the input and builds the "
    "open windows again.",
    "rewind",
    ChangeIntent.YES,
    undoable=True,
)
WHOLE: Final = Advice(
    "If it was meant and the input is still there from its beginning, empty the table and its checkpoint together "
    "and read all input again.",
    "full-refresh",
    ChangeIntent.YES,
    undoable=False,
)

ROWS: Final = (
    ErrorRow(
        code="STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        conditions=("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",),
        texts=(("stateful operator name does not match with the operator in state metadata",),),
        family=FAMILY,
        title="The stateful steps of the code are not those whose state the checkpoint stores.",
        damaged="nothing",
        reset=RESET_LATER,
        severity=3,
        do=(REVERT, CONTINUE, REBUILD, REWIND, PRIME),
        dont=(EMPTY, DELETE, AGAIN),
    ),
    ErrorRow(
        code="STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        conditions=("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",),
        family=FAMILY,
        title="The code has a stateful step, and the checkpoint holds no state for it.",
        damaged="the state directory is not there, or the step is new in the code",
        reset=RESET_LATER,
        severity=4,
        do=(
            "Find out which it is: was a stateful step added to the code, or did the state directory vanish?",
            REVERT,
            REBUILD,
            REWIND,
            PRIME,
            "If the directory vanished, restore it from a backup or from the storage's object versions.",
        ),
        dont=(*KEEP, AGAIN),
    ),
    ErrorRow(
        code="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        conditions=("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
        texts=(
            ("provided schema doesn't match to the schema for existing state",),
            ("provided key schema does not match existing state key schema",),
            ("provided value schema does not match existing state value schema",),
        ),
        family=FAMILY,
        title="A stateful step of the code stores other columns than its state in the checkpoint has.",
        damaged="nothing",
        reset=RESET_LATER,
        severity=3,
        do=(REVERT, REBUILD, REWIND, PRIME, WHOLE),
        dont=(
            *KEEP,
            "Do not switch the check off (stateSchemaCheck=false): it fails later, or the results are silently wrong.",
        ),
    ),
    ErrorRow(
        code="STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
        conditions=(
            "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
            "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            "TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE",
        ),
        family=FAMILY,
        title="A transformWithState step changed in a way that its stored state cannot follow.",
        damaged="nothing",
        reset=RESET_LATER,
        severity=3,
        do=(
            REVERT,
            Advice(
                "Or change the state's schema only by added nullable fields, as schema evolution allows.",
                right_if=ChangeIntent.YES,
            ),
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
        conditions=(
            "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
            "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
        ),
        family=FAMILY,
        title="The state's schema was changed more often than a limit allows.",
        damaged="nothing",
        reset=RESET_NO,
        severity=2,
        do=(
            "Raise spark.sql.streaming.stateStore.valueStateSchemaEvolutionThreshold or …maxNumStateSchemaFiles "
            "(the message may name another key), then start again.",
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
        conditions=(
            "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE",
        ),
        family=FAMILY,
        title="The stored state's rows do not have the form that the code expects.",
        damaged="the state, unless the code or the Spark version changed",
        reset=RESET_LATER,
        severity=4,
        do=(
            "Run the code and the Spark version that last worked: if they start, nothing is damaged.",
            "If they fail too, the state is corrupt: restore it, or continue with a seeded checkpoint without it.",
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
        conditions=("STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",),
        family=FAMILY,
        title="The join's state settings do not fit the checkpoint.",
        damaged="nothing",
        reset=RESET_YES,
        severity=3,
        do=("Set what the message names; it takes effect in a new, seeded checkpoint only.",),
        dont=KEEP,
    ),
    ErrorRow(
        code="STREAM_STREAM_JOIN_INCONSISTENT_STATE",
        conditions=("STREAM_STREAM_JOIN_INCONSISTENT_STATE", "STREAM_STREAM_JOIN_INCONSISTENT_STATE.*"),
        family=FAMILY,
        title="The stored state of a stream-stream join contradicts itself.",
        damaged="the join's state",
        reset=RESET_LATER,
        severity=4,
        do=(
            "For NULL_VALUE: set spark.sql.streaming.stateStore.skipNullsForStreamStreamJoins.enabled=true and "
            "start again; matches of the skipped rows are missed.",
            WITHOUT,
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="STREAMING_QUERY_EVOLUTION_ERROR",
        conditions=("STREAMING_QUERY_EVOLUTION_ERROR", "STREAMING_QUERY_EVOLUTION_ERROR.*"),
        texts=(("assertion failed: all sources should be named",),),
        family=FAMILY,
        title="Named sources are on where the checkpoint does not have them, or off where it does.",
        damaged="nothing",
        reset=RESET_NO,
        severity=2,
        do=(
            "Give every source the name that it had, or set spark.sql.streaming.queryEvolution.enableSourceEvolution "
            "back to what it was.",
            "Switching it on for an existing checkpoint needs a new, seeded one.",
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="STREAMING_OUTPUT_MODE",
        conditions=(
            "STREAMING_OUTPUT_MODE",
            "STREAMING_OUTPUT_MODE.*",
            "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK",
            "NESTED_SEQUENTIAL_STREAMING_UNION",
            "STATEFUL_CHILDREN_NOT_SUPPORTED_IN_SEQUENTIAL_STREAMING_UNION",
        ),
        family=FAMILY,
        title="The query itself is not allowed: output mode, watermark or union.",
        damaged="nothing",
        reset=RESET_NO,
        severity=1,
        do=("Correct the code as the message describes; the checkpoint stays as it is.",),
        dont=KEEP,
    ),
    ErrorRow(
        code="source-count-changed",
        texts=(("sources in the checkpoint offsets and now there are",),),
        family=FAMILY,
        title="The code reads another number of sources than the checkpoint knows.",
        damaged="nothing, unless an offset file was cut short (Spark gives the same message then)",
        reset=RESET_LATER,
        severity=3,
        do=(
            "Look at the newest offset file first: a cut file looks the same as a code change.",
            REVERT,
            Advice(
                "If the change was meant, seed a checkpoint with one position for each source.",
                "continue",
                ChangeIntent.YES,
                undoable=True,
            ),
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="source-path-changed",
        texts=(("wrong basepath", "for the root path"),),
        family=FAMILY,
        title="A file source reads another folder than before, or the sources changed places.",
        damaged="nothing",
        reset=RESET_LATER,
        severity=3,
        do=(
            REVERT,
            Advice(
                "If the folder moved, seed a checkpoint whose source log names the files at their new place.",
                "continue",
                ChangeIntent.YES,
                undoable=True,
            ),
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="source-kind-changed",
        texts=(('for input string: "{',), ("no usable value for path",)),
        family=FAMILY,
        title="A source became one of another kind, so its old position cannot be read.",
        damaged="nothing",
        reset=RESET_YES,
        severity=3,
        do=(
            REVERT,
            Advice(
                "If the change was meant, the new source needs a new checkpoint that starts where you choose.",
                "continue",
                ChangeIntent.YES,
                undoable=True,
            ),
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="query-not-begun",
        texts=(("querynotbegun:",),),
        family=FAMILY,
        title="The program ended before this query began.",
        damaged="nothing",
        reset="not known: an event log does not tell why it ended",
        severity=2,
        do=(
            "Read what its driver printed: an import, a missing table or a login stops a program before its query.",
            "Have the text of the error diagnosed: bin/manage diagnose --error FILE.",
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="PROGRAM_CODE_FAILED",
        conditions=("PROGRAM_CODE_FAILED",),
        family=FAMILY,
        title="The program's own code raises an error.",
        damaged="nothing",
        reset=RESET_NO,
        severity=2,
        do=(
            "Correct the code at the line that the error names, or the data that it cannot take.",
            "Then start the program again: the batch that was planned is run again with the new code.",
        ),
        dont=("Do not reset the checkpoint: it has nothing to do with this failure.",),
    ),
)
