"""table-backup: copy the table beside its pipeline's storage, count it and compare it, before anything empties it.

Spark copies one version of the table into a folder of this attempt. The manifest is written when the copy has read
back with the same rows; without it there is no backup. A copy that an attempt left behind is removed by the next.
"""

from django.utils import timezone

from recovery.contracts.results import TableBackupResult
from recovery.errors import Refused
from recovery.models import Step
from recovery.pipelines.workspaces import questions_service
from recovery.spark.backups import BackupRefusal, KeepRequest, TableCopy, keep
from recovery.strategies.common import plural
from recovery.workflow import backups
from recovery.workflow.flow_snapshot import FlowSnapshot, read_flow_snapshot
from recovery.workflow.noted_version import read_noted_version
from recovery.workflow.places import storage_of
from recovery.workflow.steps.base import Context, ProbeOutcome, saw

SECONDS = 3600


def run(context: Context) -> TableBackupResult:
    """Copy, read back, note. Raises Refused where the table has moved, or its rows cannot be told apart by the key."""
    contents = context.contents
    snapshot = read_flow_snapshot(context.flow, known=contents.table_places)
    version = _require_noted_version(context, snapshot)
    place = backups.place_of(snapshot.storage, context.plan)
    made = backups.read_manifest(place)
    if made is not None and made.version == version:
        context.log(f"{plural(made.rows, 'row')} kept at {place} by an earlier attempt.")
        return made
    context.watch.guard()
    backups.clear(place)
    folder = f"{place}/rows-{context.step.fence}"
    told = _copied(context, snapshot, version, folder)
    if told.refused is not None:
        raise Refused(f"{_why(told)} Nothing was emptied.", code=told.refused)
    context.watch.guard()
    files, size = backups.measure_files(folder)
    kept = TableBackupResult(
        place=place,
        rows_folder=folder,
        table=contents.dataset,
        version=version,
        rows=told.rows,
        digest=told.digest,
        columns=told.columns,
        key=contents.key,
        files=files,
        bytes=size,
        at=timezone.now().isoformat(),
    )
    backups.write_manifest(kept, attempt=context.step.fence)
    context.log(
        f"Kept and read back at {place}: {plural(kept.rows, 'row')} of version {version}, {size:,} bytes."
    )
    return kept


def _copied(context: Context, snapshot: FlowSnapshot, version: int, folder: str) -> TableCopy:
    """What Spark answers to the question that copies."""
    return keep(
        KeepRequest(
            answers=questions_service(snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment),
            table=context.contents.dataset,
            version=version,
            backup=folder,
            key=context.contents.key,
            configuration=dict(snapshot.spec.get("configuration") or {}),
        ),
        timeout=SECONDS - 60,
    )


def _require_noted_version(context: Context, snapshot: FlowSnapshot) -> int:
    """The version to copy, which the table still has: the one that the plan's stop noted."""
    stood = read_noted_version(context.recovery, context.plan)
    if snapshot.sink.version is None or snapshot.sink.version != stood:
        raise Refused(
            f"The table is at version {snapshot.sink.version}, and was at {stood} when the run began: something "
            "else wrote it. Nothing was emptied. Find the writer, then seal a new plan.",
            code="written_by_others",
        )
    return snapshot.sink.version


def _why(told: TableCopy) -> str:
    about = ", ".join(told.about)
    if told.refused is BackupRefusal.KEY_REPEATS:
        return f"Several rows of the table have the same key ({about}), so it is not known which of them to fill back."
    if told.refused is BackupRefusal.COLLATION:
        return f"{about} compares text by a collation, so rows cannot be filled back by it."
    return "The copy does not read back like the table. Run this step again."


def probe(step: Step) -> ProbeOutcome:
    """Done where the manifest is there; else it is done again, which only writes another copy."""
    plan = step.plan
    assert plan is not None, "only a plan has this step"
    flow = step.recovery.flow
    made = backups.read_manifest(backups.place_of(storage_of(flow, flow.pipeline.spec), plan))
    if made is None:
        return ProbeOutcome(
            "again", [saw(True, "No finished backup is there. Making one again changes nothing else.")]
        )
    says = f"The backup is there: {plural(made.rows, 'row')} of version {made.version}."
    return ProbeOutcome("done", [saw(True, says)], made)
