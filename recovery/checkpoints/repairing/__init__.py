"""Repairs by the code of the finding they repair. A code that is not here needs a backup or a reset."""

from collections.abc import Callable, Mapping

from recovery.checkpoints.repairing import batches, sources, state
from recovery.checkpoints.repairing.work import (
    CannotRepair,
    KnownFacts,
    ListedInput,
    RepairWork,
    UnrepairedDamage,
)
from recovery.checkpoints.report import Finding
from recovery.contracts.steps import DamageMending

__all__ = [
    "MENDERS",
    "CannotRepair",
    "KnownFacts",
    "ListedInput",
    "RepairWork",
    "UnrepairedDamage",
]

MENDERS: Mapping[str, Callable[[RepairWork, Finding], DamageMending]] = {
    "METADATA_MISSING": batches.mend_metadata,
    "METADATA_UNREADABLE": batches.mend_metadata,
    "OFFSET_STRAY": batches.mend_stray,
    "OFFSET_PLANNED_UNREADABLE": batches.planned_offsets,
    "BATCH_PLANNED_AS_MAP": batches.planned_as_map,
    "OFFSET_UNREADABLE": batches.lost_offsets,
    "OFFSET_SOURCES_LOST": batches.lost_offsets,
    "OFFSET_NEIGHBOUR_MISSING": batches.lost_offsets,
    "COMMITS_AHEAD": batches.lost_offsets,
    "COMMIT_UNREADABLE": batches.mend_commit,
    "SOURCE_LOG_PLANNED_MISSING": batches.planned_entry,
    "SOURCE_LOG_MISSING": sources.mend_entry,
    "SOURCE_LOG_UNREADABLE": sources.mend_entry,
    "SOURCE_LOG_HEADER_ONLY": sources.mend_entry,
    "SOURCE_LOG_GAP": sources.mend_entry,
    "OPERATOR_METADATA_MISSING": state.operator_metadata,
    "OPERATOR_METADATA_UNREADABLE": state.operator_metadata,
}
