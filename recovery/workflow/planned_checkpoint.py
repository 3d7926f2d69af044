"""Whether the checkpoint is still the one that a plan was made on."""

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.report import CheckpointReport
from recovery.errors import Refused
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import Context


def require_planned_checkpoint(context: Context, *, so: str) -> CheckpointReport:
    """The checkpoint as it is now. Raise Refused, with what `so` did not happen, where the plan was made on another."""
    # next to its table, as when it was planned: a batch that only the table has finished counts as done
    report = inspect_checkpoint(checkpoint_of(context.flow), sink=context.contents.table_place or None)
    if report.fingerprint != context.contents.preconditions.checkpoint.fingerprint:
        version = "" if report.version is None else f"version {report.version}, "
        raise Refused(
            f"The checkpoint is no longer as planned: it is at {version}batch {report.last_committed}. {so} Seal a new "
            "plan.",
            code="stale",
        )
    return report
