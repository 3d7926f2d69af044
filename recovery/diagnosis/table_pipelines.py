"""Errors of declarative pipelines: definitions, refreshes, AUTO CDC."""

from typing import Final

from recovery.contracts.diagnosis import Advice
from recovery.diagnosis.row import KEEP, RESET_LATER, RESET_NO, ErrorRow

FAMILY: Final = "pipeline"
DEFINITION: Final = (
    "Correct the pipeline's definition as the message describes; checkpoints stay as they are."
)

START_AGAIN: Final = "Then start it again; checkpoints stay as they are."
NO_RESET: Final = "Do not reset a checkpoint: none of them has to do with this failure."

ROWS: Final = (
    ErrorRow(
        code="PIPELINE_CODE_FAILED",
        conditions=("PIPELINE_CODE_FAILED",),
        family=FAMILY,
        title="The pipeline's own code raises an error.",
        damaged="nothing",
        reset=RESET_NO,
        severity=2,
        do=(
            "Correct the code at the line that the error names, or put back what it no longer finds.",
            START_AGAIN,
        ),
        dont=(NO_RESET,),
    ),
    ErrorRow(
        code="PIPELINE_CANCELLED",
        conditions=("PIPELINE_CANCELLED",),
        family=FAMILY,
        title="The newest update was cancelled, or its program ended, before its query did.",
        damaged="nothing: a batch that was cut short is run again",
        reset=RESET_NO,
        severity=2,
        do=(
            "Find out who cancelled it or what ended its program, then start it again. Where one program runs several "
            "queries, one that fails may end all.",
        ),
        dont=(NO_RESET,),
    ),
    ErrorRow(
        code="PIPELINE_FAILED",
        conditions=("PIPELINE_FAILED",),
        family=FAMILY,
        title="The update failed before or outside its flows, with an error that Reprise does not know.",
        damaged="not known",
        reset="not known",
        severity=2,
        do=("Read the events of the update: the error is not one of a checkpoint.",),
        dont=KEEP,
    ),
    ErrorRow(
        code="SINK_PASSED_OVER",
        conditions=("SINK_PASSED_OVER",),
        family=FAMILY,
        title="The flow's batch numbers began again below those that its table has, and the table skips such "
        "batches: the update completed, and rows may be missing.",
        damaged="the table: rows that were read may not be in it",
        reset=RESET_NO,
        severity=5,
        do=(
            Advice(
                "Compare the table with its source. Where rows are missing, choose a full refresh of this table while "
                "the source still has all of them: it empties the table's log as well.",
                "full-refresh",
                undoable=False,
            ),
        ),
        dont=(
            "Do not reset the checkpoint alone: the table skips each batch up to the newest one in its log.",
        ),
    ),
    ErrorRow(
        code="SINK_SHARED",
        conditions=("SINK_SHARED",),
        family=FAMILY,
        title="Several flows write this file table; it skips a batch whose number another flow has used: the "
        "update completed, and rows may be missing.",
        damaged="the table: rows that were read may not be in it",
        reset=RESET_NO,
        severity=5,
        do=(
            "Give each flow its own table, or use a format that takes several writers.",
            Advice(
                "Then choose a full refresh of the table while the sources still have all rows.",
                "full-refresh",
                undoable=False,
            ),
        ),
        dont=("Do not reset a checkpoint: the flows use the same numbers again.",),
    ),
    ErrorRow(
        code="QUERY_ID_SHARED",
        conditions=("QUERY_ID_SHARED",),
        family=FAMILY,
        title="Two flows run under one query id, as one checkpoint is a copy of the other: within one application, "
        "Spark ends the older query without an error when the younger one starts.",
        damaged="nothing that is written; where both ran in one application, the one that was ended has read less than "
        "there was",
        reset=RESET_NO,
        severity=4,
        do=(
            "Stop the pipeline, and find out which of the flows the checkpoint was copied for.",
            Advice(
                "Give that one its own checkpoint: a full refresh of its table begins with a new query id.",
                "full-refresh",
                undoable=False,
            ),
        ),
        dont=("Do not copy a checkpoint to begin a second flow: its query id comes with it.",),
    ),
    ErrorRow(
        code="CHECKPOINT_GONE",
        conditions=("CHECKPOINT_GONE",),
        family=FAMILY,
        title="The checkpoint of this stream is gone: its next run begins again from the start, next to the rows that "
        "its table has.",
        damaged="the checkpoint: nothing of it is there",
        reset=RESET_NO,
        severity=4,
        do=(
            "Do not start the stream: a table of files skips its first batches, and any other sink gets their rows "
            "again.",
            "Put the checkpoint back where it was, from a backup or from where it was moved to.",
            "If there is none, move the table away too, so that the stream writes a new one from the whole input; or "
            "make sure that the code reads only new input.",
        ),
        dont=("Do not start it only to see what happens.",),
    ),
    ErrorRow(
        code="SINK_NOT_READ",
        conditions=("SINK_NOT_READ",),
        family=FAMILY,
        title="Updates of the flow ran that Reprise has not read: whether its file table skipped rows in them is "
        "not known.",
        damaged="not known",
        reset=RESET_NO,
        severity=3,
        do=(
            "Wait for the next polls: they read back what the Pipelines API still reports.",
            Advice(
                "Where that is too little, compare the table with its source. A full refresh of this table ends the "
                "doubt, while the source still has all rows.",
                "full-refresh",
                undoable=False,
            ),
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="PIPELINE_CYCLE",
        conditions=("PIPELINE_CYCLE",),
        texts=(("circulardependencyexception",), ("circular dependency",)),
        family=FAMILY,
        title="The tables of the pipeline depend on one another in a circle, so none of them can run first.",
        damaged="nothing",
        reset=RESET_NO,
        severity=2,
        do=("Take out one of the reads that the error names.", START_AGAIN),
        dont=(NO_RESET,),
    ),
    ErrorRow(
        code="PIPELINE_NO_COMPUTE",
        conditions=("PIPELINE_NO_COMPUTE",),
        texts=(
            ("quota", "instances"),
            ("cluster", "could not be launched"),
            ("cluster", "terminated"),
            ("insufficient", "capacity"),
            ("no process could be started for this update",),
            ("jvm no longer answers",),
        ),
        family=FAMILY,
        title="There was no compute for the update, or it went away.",
        damaged="nothing: a batch that was cut short is run again",
        reset=RESET_NO,
        severity=2,
        do=("Look at the quota, the capacity and the cluster's own log.", START_AGAIN),
        dont=(NO_RESET,),
    ),
    ErrorRow(
        code="TABLE_OR_VIEW_NOT_FOUND",
        conditions=("TABLE_OR_VIEW_NOT_FOUND",),
        family=FAMILY,
        title="A table or view that the code reads is not there.",
        damaged="nothing",
        reset=RESET_NO,
        severity=2,
        do=("Correct its name in the code, make it, or grant the right to see it.", START_AGAIN),
        dont=(NO_RESET,),
    ),
    ErrorRow(
        code="AUTOCDC_INVALID_STATE",
        conditions=("AUTOCDC_INVALID_STATE", "AUTOCDC_INVALID_STATE.*"),
        family=FAMILY,
        title="The keys, the sequence or the kind of an AUTO CDC table changed since it was made.",
        damaged="nothing",
        reset=RESET_NO,
        severity=4,
        do=(
            "Put the old definition back.",
            "If the change was meant, only a full refresh of that table takes it up: its helper table must go too.",
        ),
        dont=("Do not reset the checkpoint: that does not help, the helper table stays as it is.",),
    ),
    ErrorRow(
        code="AUTOCDC_MICROBATCH_VALIDATION",
        conditions=("AUTOCDC_MICROBATCH_VALIDATION", "AUTOCDC_MICROBATCH_VALIDATION.*"),
        family=FAMILY,
        title="A row of the input has no key or no usable sequence, so AUTO CDC refuses its batch.",
        damaged="nothing: the input holds a bad row",
        reset=RESET_NO,
        severity=3,
        do=(
            "Filter such rows in a view before the flow. The batch stays planned and is run again with the new code.",
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="AUTOCDC_DEFINITION",
        conditions=("AUTOCDC_*",),
        family=FAMILY,
        title="An AUTO CDC flow is not defined as it must be.",
        damaged="nothing",
        reset=RESET_NO,
        severity=1,
        do=(DEFINITION,),
    ),
    ErrorRow(
        code="pipeline-sources-changed",
        texts=(("had streaming sources added or removed",),),
        family=FAMILY,
        title="A streaming source was added to a flow, or taken out of it.",
        damaged="nothing",
        reset=RESET_LATER,
        severity=3,
        do=(
            "If the change was a mistake, put the old code back.",
            "The message asks for a full refresh; a seeded checkpoint with one position a source also works.",
        ),
        dont=KEEP,
    ),
    ErrorRow(
        code="TABLE_NOT_RESETTABLE",
        conditions=("TABLE_NOT_RESETTABLE",),
        texts=(("cannot find main error class 'table_not_resettable'",),),
        family=FAMILY,
        title="The table is protected from full refresh (pipelines.reset.allowed=false).",
        damaged="nothing",
        reset=RESET_NO,
        severity=1,
        do=("Choose a way that keeps the table, or ask its owner to lift the protection.",),
    ),
    ErrorRow(
        code="PIPELINE_STORAGE_ROOT_INVALID",
        conditions=("PIPELINE_STORAGE_ROOT_INVALID",),
        family=FAMILY,
        title="The pipeline's storage is not given as a URI.",
        damaged="nothing",
        reset=RESET_NO,
        severity=1,
        do=("Give the storage with its scheme, such as file:/ or s3a://.",),
        dont=("Do not give another folder than before: every flow would start from an empty checkpoint.",),
    ),
    ErrorRow(
        code="PIPELINE_DEFINITION",
        conditions=(
            "CANNOT_UPDATE_PARTITION_COLUMNS",
            "UNABLE_TO_INFER_PIPELINE_TABLE_SCHEMA",
            "CONFLICTING_PIPELINE_FLOW_CASE_SENSITIVITY",
            "INVALID_FLOW_QUERY_TYPE",
            "INVALID_FLOW_QUERY_TYPE.*",
            "INCOMPATIBLE_STREAMING_VIEW_READ",
            "PIPELINE_*",
        ),
        family=FAMILY,
        title="The pipeline's definition is not valid.",
        damaged="nothing",
        reset=RESET_NO,
        severity=1,
        do=(DEFINITION,),
    ),
)
