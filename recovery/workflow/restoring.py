"""Puts a table back that a plan with a backup has emptied, and the checkpoint that its refresh left behind.

Delta itself goes back to the version before the refresh; the rows are then compared with the backup. That is done
while nothing else has changed rows since: else they would be lost.
"""

from dataclasses import dataclass

from recovery.checkpoints import publishing, read_fingerprint
from recovery.contracts import codec
from recovery.contracts.names import StepKind
from recovery.contracts.results import FillResult, TableBackupResult, UpdateResult
from recovery.errors import OutcomeUnknown
from recovery.models import Plan, Recovery, Step
from recovery.sinks.live import delta
from recovery.strategies.common import plural
from recovery.workflow import backups
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import Context


@dataclass(frozen=True)
class EmptiedTable:
    """A table that the rerun of this plan has emptied, or may have. `filled` None: the fill is not done."""

    plan: Plan
    kept: TableBackupResult
    filled: FillResult | None

    @property
    def place(self) -> str:
        """Where the table is."""
        return self.plan.contents.table_place

    @property
    def note(self) -> str:
        """By which the table's log tells that it was put back."""
        return f"{backups.app_id(self.plan.contents, self.plan)}-restored"


def emptied_by(recovery: Recovery) -> EmptiedTable | None:
    """By its newest plan with a backup; None where there is none, or its update has not begun."""
    made = recovery.steps.filter(kind=StepKind.TABLE_BACKUP, state="done").order_by("-ordinal").first()
    kept, plan = backups.kept_by(made), made.plan if made else None
    steps: dict[str, Step] = {s.kind: s for s in recovery.steps.filter(plan=plan)} if plan else {}
    rerun = steps.get(StepKind.RERUN)
    if plan is None or kept is None or rerun is None:
        return None
    reran = codec.read(UpdateResult, rerun.result)
    if not reran.may_have_run:
        return None
    fill = steps.get(StepKind.FILL)
    done = fill is not None and fill.state == "done"
    return EmptiedTable(plan, kept, codec.read(FillResult, fill.result) if fill and done else None)


def refusal(emptied: EmptiedTable) -> str | None:
    """Why the table cannot be put back, in one sentence; None when it can. Reads only."""
    commits = delta.commits_since(emptied.place, emptied.kept.version)
    if _is_restored(emptied, commits):
        return None
    strange = backups.find_strange(emptied.plan, emptied.kept)
    if emptied.filled is not None:
        since = emptied.filled.version
        strange += tuple(c.version for c in commits if c.version > since and c.moves)
    if strange:
        return (
            f"Version {strange[0]} of the table changed rows after this recovery did; putting the table back would "
            f"lose that. The backup is at {emptied.kept.place}."
        )
    return None


def _is_restored(emptied: EmptiedTable, commits: tuple[delta.TableCommit, ...]) -> bool:
    """Whether the last change of rows is that of an attempt before."""
    moved = [c for c in commits if c.moves]
    return bool(moved) and moved[-1].note == emptied.note


def put_back(context: Context, emptied: EmptiedTable) -> None:
    """First the table, then the checkpoint. Raises Refused where Delta no longer has the version's files."""
    contents, kept = emptied.plan.contents, emptied.kept
    # after an attempt that died, too: to put it back a second time changes nothing, and only then is it compared
    context.watch.guard()
    restored = backups.ask_restore(context.flow, contents, kept.version, kept=kept, note=emptied.note)
    context.log(
        f"The table is back at version {kept.version}: {plural(restored.rows or 0, 'row')}, as in the backup."
    )
    _checkpoint_back(context, emptied)


def _checkpoint_back(context: Context, emptied: EmptiedTable) -> None:
    planned = emptied.plan.contents.preconditions.checkpoint
    if planned.version is None:
        return
    place = checkpoint_of(context.flow)
    context.watch.guard()
    away = publishing.set_newer_aside(place, recovery=context.recovery.label, version=planned.version)
    if read_fingerprint(place) != planned.fingerprint:
        raise OutcomeUnknown(
            f"The checkpoint does not read back as the plan was made on it (version {planned.version}). Look at it "
            "before anything is started.",
            code="not_as_kept",
        )
    versions = ", ".join(map(str, away)) or "no version"
    context.log(f"Checkpoint: {versions} renamed away; version {planned.version} is in use again.")
