"""A checkpoint in which nothing was ever committed, begun again: batch 0 is planned by whatever code runs next.

Facts (MicroBatchExecution, KafkaMicroBatchStream, FileStreamSource; run on Spark 4.2): a checkpoint of `metadata` alone
begins with batch 0, each source where its reader's own options say. A Kafka or rate source keeps where it began in
entry 0 of its own directory, and begins there again whatever its options say by now: that entry is kept. A file source
passes over what its log names: its log is left out, as are the range of the planned batch and the state of its attempt.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from recovery.checkpoints import publishing
from recovery.checkpoints.checkpoint_slot import NextVersion
from recovery.checkpoints.file_layout import Layout, write_layout
from recovery.checkpoints.publishing import PreparedCheckpoint
from recovery.checkpoints.report import CheckpointReport, SourceProgress
from recovery.checkpoints.seed_files import keep_log, metadata_of
from recovery.checkpoints.storage import Store
from recovery.checkpoints.table_progress import is_first_batch_open
from recovery.checkpoints.undo_record import Guard
from recovery.errors import Refused


@dataclass(frozen=True, kw_only=True)
class BeginningPlan(NextVersion):
    """What the new checkpoint will hold beside its `metadata`."""

    #: directories that tell where a source began: in the old checkpoint, and in the new one
    kept: tuple[tuple[str, str], ...] = field(default=())


def plan_beginning(report: CheckpointReport, sources: Sequence[int | None]) -> BeginningPlan:
    """What would begin again from this checkpoint. `sources`: for each source of the new code the one that it goes on
    as. Raises Refused where a batch was finished, here or in the table."""
    if not is_first_batch_open(report):
        raise Refused(
            "Only a checkpoint whose first batch was planned and not finished can begin again: what was processed "
            "would be read a second time.",
            code="not_the_first_batch",
        )
    held = {source.index: source for source in report.sources}
    going_on = [(n, held[old]) for n, old in enumerate(sources) if old is not None and old in held]
    return BeginningPlan(
        from_version=report.version,
        batch=None,
        offsets=(),
        fingerprint=report.fingerprint,
        location=report.location,
        kept=tuple((old.folder, f"sources/{old.name or n}") for n, old in going_on if _keeps_start(old)),
    )


def _keeps_start(source: SourceProgress) -> bool:
    """Whether its directory shows where it began. One that cannot be read is left out: Spark would fail on it."""
    return source.first_json is not None or (source.kind == "rate" and not source.bare)


def prepare_beginning(
    location: str, plan: BeginningPlan, *, recovery: str, fence: int, guard: Guard
) -> PreparedCheckpoint:
    """Write it beside the version in use and read it back; see `publishing.prepare_checkpoint`."""
    query_id = str(uuid.uuid4())

    def write(old: Store, new: Store) -> None:
        layout = Layout()
        layout.write("metadata", metadata_of(query_id))
        for folder, target in plan.kept:
            keep_log(old, layout, folder, target)
        write_layout(layout, new, guard)

    def check(report: CheckpointReport) -> None:
        seen = (report.query_id, report.last_committed, report.last_planned, report.blockers)
        if seen != (query_id, None, None, ()):
            raise Refused(
                f"The prepared checkpoint does not read back as planned: {seen}. It was removed.",
                code="not_as_planned",
            )

    return publishing.prepare_checkpoint(
        location,
        plan,
        recovery=recovery,
        fence=fence,
        query_id=query_id,
        guard=guard,
        build=write,
        check=check,
    )
