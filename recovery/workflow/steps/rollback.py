"""rollback: undo what can be undone: the new version is renamed away, the source is written back; files that the
workspace has lost meanwhile are put back from the backup.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from recovery.approvals.selectors import plan_in_force
from recovery.checkpoints import publishing, read_fingerprint
from recovery.contracts import codec
from recovery.contracts.plan import PatchChange
from recovery.contracts.results import BackupResult, KeptCheckpoint, RollbackResult, SeedResult, UpdateResult
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import Recovery, Step
from recovery.pipelines.workspaces import client_for
from recovery.sinks.live import reading as sinks
from recovery.workflow import corrections, further, joining, restoring
from recovery.workflow.deployed import read_sha256
from recovery.workflow.flow_snapshot import find_active_update
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps import backup, restore, seed
from recovery.workflow.steps.base import Context, ProbeOutcome, saw

SECONDS = 300


@dataclass(frozen=True)
class RollbackRefusal:
    """Why a recovery cannot be rolled back, in one sentence. `kind`: `final`: it stays so; `running`: as long as its
    stream or an update runs, then what that has committed decides; `unclear`: a person has to look at the checkpoint
    first; `unread`: API or storage do not answer."""

    says: str
    kind: Literal["final", "running", "unclear", "unread"] = "final"


def find_refusal(recovery: Recovery) -> RollbackRefusal | None:
    """None where this recovery can be rolled back. Reads only. Raises RepriseError where something does not answer."""
    flow, corrects = recovery.flow, _corrects_table(recovery)
    seeded, unclear = (None, "") if corrects else _seeded(recovery)
    if unclear and recovery.state != "rolled_back":
        return RollbackRefusal(unclear, "unclear")
    if says := _find_nothing_to_undo(recovery):
        return RollbackRefusal(says)
    if find_active_update(client_for(flow.pipeline.workspace).get_pipeline(flow.pipeline.pipeline_id)):
        runs = "The stream runs" if flow.pipeline.workspace.has_streams else "An update is running"
        return RollbackRefusal(f"{runs}. Stop it first.", "running")
    says = _find_committed_correction(recovery) if corrects else _find_obstacle(recovery, seeded)
    return None if says is None else RollbackRefusal(says)


def _find_nothing_to_undo(recovery: Recovery) -> str | None:
    if recovery.state == "rolled_back":
        return f"{recovery.label} is already rolled back."
    if _corrects_table(recovery):
        if corrections.correction_of(recovery) is None and further.earlier_plan(recovery) is not None:
            return "This plan has changed no row. Give it up: then the plan before it is in force again."
        return None
    return None if has_changed(recovery) else "Nothing was changed that could be undone."


def _find_committed_correction(recovery: Recovery) -> str | None:
    """Why added or deleted rows cannot be taken back."""
    corrected = corrections.correction_of(recovery)
    return None if corrected is None else corrections.refusal(corrected)


def _find_obstacle(recovery: Recovery, seeded: tuple[Step, SeedResult] | None) -> str | None:
    """What the recovery, or others after it, have done that cannot be taken back; while nothing runs."""
    restored = _restored(recovery)
    if emptied := restoring.emptied_by(recovery):
        return restoring.refusal(emptied)
    if seeded is not None:
        place = checkpoint_of(recovery.flow)
        if publishing.is_undone(place, recovery=recovery.label):
            # an attempt that died had come so far; table and source may be left to do
            return _table_refusal(recovery, restored)
        head = None if restored else _head(*seeded)  # a table that was put back tells by itself
        reason = publishing.undo_refusal(place, recovery=recovery.label, sink_head=head)
        return reason or _table_refusal(recovery, restored)
    if restored is not None and (reason := _table_refusal(recovery, restored)):
        return reason
    rerun = joining.rerun_of(recovery)
    if rerun and codec.read(UpdateResult, rerun.result).update_id and rerun.state == "done":
        return "The update has run with the changed code; what it committed stays. Change the code in a new recovery."
    return None


def has_changed(recovery: Recovery) -> bool:
    """Whether its plan has changed something that a rollback would undo, or may have. Reads only."""
    if _corrects_table(recovery) or restoring.emptied_by(recovery) or _restored(recovery) is not None:
        return True
    seeded, unclear = _seeded(recovery)
    patched = recovery.steps.filter(kind="patch", state="done", plan__isnull=False).exists()
    return seeded is not None or bool(unclear) or patched


def _corrects_table(recovery: Recovery) -> bool:
    """Whether the plan in force adds or deletes rows: then that alone is undone, whatever a plan before it did."""
    plan = plan_in_force(recovery)
    return plan is not None and plan.contents.corrects_table


def _put_table_back(context: Context) -> RollbackResult:
    corrected = corrections.correction_of(context.recovery)
    if corrected is None:
        context.log("No row was changed, so there is nothing to undo.")
        return RollbackResult(checkpoint=False, files=())
    corrections.put_back(context, corrected)
    return RollbackResult(checkpoint=False, files=(), table=corrected.since)


def _restored(recovery: Recovery) -> Step | None:
    """The step that has put the table back; None: none has."""
    step = (
        recovery.steps.filter(kind="restore", plan__isnull=False)
        .exclude(state__in=("pending", "skipped"))
        .last()
    )
    return step if step is not None and restore.has_changed(step) else None


def _table_refusal(recovery: Recovery, restored: Step | None) -> str | None:
    return None if restored is None else restore.undo_refusal(restored, label=recovery.label)


def _seeded(recovery: Recovery) -> tuple[tuple[Step, SeedResult] | None, str]:
    """The seed step whose checkpoint is in place, or was undone, with what it made; None: none is. And why that is not
    clear, "" where it is: a step that failed may have renamed its checkpoint into place before."""
    steps = recovery.steps.filter(kind="seed", plan__isnull=False).exclude(state__in=("pending", "skipped"))
    step = steps.order_by("ordinal").last()
    if step is None:
        return None, ""
    if step.state == "done":
        return (step, codec.read(SeedResult, step.result)), ""
    probed = seed.probe(step)
    if probed.outcome == "unclear":
        return (
            None,
            "It is not clear whether its checkpoint was put into place. Look at the checkpoint first.",
        )
    is_undone = publishing.is_undone(checkpoint_of(recovery.flow), recovery=recovery.label)
    if probed.result is None and not is_undone:
        return None, ""
    made = probed.result if isinstance(probed.result, SeedResult) else SeedResult(version=None)
    return (step, made), ""


def _head(step: Step, made: SeedResult) -> int | None:
    """The newest batch that the table has; where it knows queries apart, of the seed's query."""
    table = step.plan.contents.table_place if step.plan else None
    return sinks.read_table(table, query_id=made.query_id).head if table else None


def run(context: Context) -> RollbackResult:
    """First the checkpoint (so that no update can start on the seed with the old code), then the source."""
    joint = joining.joint_of_plan(context.plan)
    if joint is not None and not has_changed(context.recovery):
        context.log("Nothing was changed for this flow, so there is nothing to undo.")
        return RollbackResult(checkpoint=False, files=())
    if refused := find_refusal(context.recovery):
        raise Refused(refused.says)
    if _corrects_table(context.recovery):
        return _put_table_back(context)
    done = {s.kind: s for s in context.recovery.steps.filter(state="done", plan__isnull=False)}
    before = done.get("backup")
    emptied = restoring.emptied_by(context.recovery)
    if emptied:  # before the checkpoint: until then an update goes on from what the table holds
        restoring.put_back(context, emptied)
    seeded, _ = _seeded(context.recovery)
    place = checkpoint_of(context.flow) if seeded else ""
    if seeded and not publishing.is_undone(place, recovery=context.recovery.label):
        context.watch.guard()
        head = None if _restored(context.recovery) else _head(*seeded)
        publishing.undo_publish(place, recovery=context.recovery.label, sink_head=head)
        version = seeded[1].version
        made = "The new checkpoint" if version is None else f"Version {version}"
        context.log(f"{made} renamed away; the old one is in use again.")
        if before is not None:
            _goes_back_to(context, place, codec.read(BackupResult, before.result).checkpoint)
    if (restored := _restored(context.recovery)) is not None:
        restore.undo(context, restored)
    if joint is not None and (waiting := joining.others_not_rolled_back(context.recovery, joint)):
        # their checkpoints are of this code, which no update may run on the old one
        context.log(f"The source goes back with the last of them: {', '.join(waiting)}.")
        return RollbackResult(checkpoint=seeded is not None, files=())
    copy = backup.kept(before) if before is not None else {}
    changed = context.contents.patch if "patch" in done else []
    written = [_write_back(context, change, copy) for change in changed]
    written += _put_back(context, {p: c for p, c in copy.items() if p not in written})
    return RollbackResult(
        checkpoint=seeded is not None or emptied is not None,
        files=tuple(written),
        table=emptied.kept.version if emptied else None,
    )


def _goes_back_to(context: Context, place: str, before: KeptCheckpoint) -> None:
    """Read back: the checkpoint in use is the one that the backup saw. Raises OutcomeUnknown."""
    if read_fingerprint(place) != before.fingerprint:
        raise OutcomeUnknown(
            f"The checkpoint does not read back as it was kept (version {before.version}, batch "
            f"{before.last_committed}). Look at it before anything is started.",
            code="not_as_kept",
        )
    context.log(f"Read back: version {before.version}, batch {before.last_committed}, as it was kept before.")


def _write_back(context: Context, change: PatchChange, copy: Mapping[str, bytes]) -> str:
    path, now = change.path, read_sha256(context.client, change.path)
    if now not in (change.after_sha256, change.before_sha256, None):
        raise Refused(
            f"{path} was edited since the recovery wrote it; it was left alone. Correct it by hand.",
            code="edited",
        )
    if now != change.before_sha256:
        context.watch.guard()
        context.client.import_file(path, copy.get(path, change.before.encode()))
        context.log(f"{path} written back." if now else f"{path} was lost; written back.")
    return path


def _put_back(context: Context, copy: Mapping[str, bytes]) -> list[str]:
    """Files that the workspace has lost since they were kept. One that is there is somebody's work: left alone."""
    written = []
    for path, content in copy.items():
        if read_sha256(context.client, path) is None:
            context.watch.guard()
            context.client.import_file(path, content)
            context.log(f"{path} was lost; put back from the backup.")
            written.append(path)
    return written


def probe(step: Step) -> ProbeOutcome:
    """Rolled back when the seed's version is gone; running it again only finishes what is left."""
    refused = find_refusal(step.recovery)
    says = refused.says if refused else "What is left to undo can still be undone."
    return ProbeOutcome("not_done", [saw(None, says)])
