"""Errors of declarative pipelines: definitions, refreshes, AUTO CDC."""

from typing import Final

from recovery.diagnosis.row import KEEP, RESET_LATER, RESET_NO, Row

FAMILY: Final = "pipeline"
DEFINITION: Final = "Correct the pipeline's definition as the message says; checkpoints stay as they are."

ROWS: Final = (
    Row(
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
    Row(
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
    Row(
        code="AUTOCDC_DEFINITION",
        conditions=("AUTOCDC_*",),
        family=FAMILY,
        title="An AUTO CDC flow is not defined as it must be.",
        damaged="nothing",
        reset=RESET_NO,
        severity=1,
        do=(DEFINITION,),
    ),
    Row(
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
    Row(
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
    Row(
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
    Row(
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
