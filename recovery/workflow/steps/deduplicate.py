"""deduplicate: delete the rows that the table has more often than the code yields them, in one commit.

The commit bears an id of this plan. Delta deletes nothing a second time under it, so this step may be done again after
a crash at any moment: it first looks for its commit in the table's log.
"""

from recovery.contracts.results import DeduplicateResult
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import Step
from recovery.plans.values import Drift
from recovery.sinks.live import delta
from recovery.spark.backups import BackupRefusal, FillAnswer
from recovery.strategies.common import plural
from recovery.workflow import backups, corrections, reviewed
from recovery.workflow.flow_snapshot import FlowSnapshot, read_flow_snapshot
from recovery.workflow.noted_version import require_noted_version
from recovery.workflow.steps.base import Context, PlanVoid, ProbeOutcome, saw
from recovery.workflow.steps.fill import find_drift

SECONDS = 3600


def run(context: Context) -> DeduplicateResult:
    """Delete once, and read back. Raises Refused, or PlanVoid before anything was changed, where the plan no longer
    holds."""
    contents = context.contents
    snapshot = read_flow_snapshot(context.flow, known=contents.table_places)
    since = require_noted_version(context.step)
    if (done := backups.find_commit(context.plan, since)) is not None:
        context.log(f"Version {done} of the table is the deletion of an attempt before.")
        return _read_back(context, since)
    if drift := find_drift(context, snapshot, since):
        raise PlanVoid(drift)
    reviewed.require_unchanged(
        contents, snapshot.spec, snapshot.code, snapshot.client, so="Nothing was deleted."
    )
    before = snapshot.sink.version
    assert before is not None, "a table that counts its commits has a version"
    context.watch.guard()
    app_id = backups.app_id(contents, context.plan)
    answer = corrections.delete_repeated(
        snapshot, contents, before=before, app_id=app_id, timeout=SECONDS - 60
    )
    if answer.refused is BackupRefusal.MOVED and backups.find_commit(context.plan, since) is not None:
        context.log("An attempt before, which was still under way, has made the deletion.")
        return _read_back(context, since)
    if answer.refused is not None:
        _refuse(context, snapshot, answer)
    result = _read_back(context, since)
    if (result.before, result.rows) != (before, answer.rows):
        raise OutcomeUnknown(
            f"{plural(answer.rows, 'row')} had to be deleted from version {before}; version {result.version} lacks "
            f"{result.rows:,} of them. Something else may have written the table.",
            code="not_as_deleted",
        )
    context.log(f"Deleted {plural(result.rows, 'row')}: version {result.version} of the table.")
    return result


def _refuse(context: Context, snapshot: FlowSnapshot, answer: FillAnswer) -> None:
    """Raise what follows where Spark deleted none."""
    if answer.refused is BackupRefusal.UNREADABLE:
        raise Refused(f"The input could not be read again: {answer.problem}", code=answer.refused)
    if answer.refused is BackupRefusal.APPEND_ONLY:
        raise Refused(
            "The table lets no row be deleted (delta.appendOnly). Nothing was deleted. Have its owner remove that "
            "property, then resume.",
            code=answer.refused,
        )
    says = "The table's name is that of another table now."
    if answer.refused is BackupRefusal.OTHER_ROWS:
        args = context.contents.deduplicate_args
        planned = args.rows if args else None
        says = f"The table has {plural(answer.rows, 'row')} too often now, and had {planned} when the plan was sealed."
    elif answer.refused is BackupRefusal.DIFFERS:
        says = (
            "Rows of a key that the table has too often differ now, so which of them are right is not known."
        )
    elif answer.refused is BackupRefusal.MOVED:
        says = "Something else wrote the table at the same time. Nothing was deleted."
    elif answer.refused is BackupRefusal.COLUMNS:
        says = f"What the code yields no longer fits the table: {', '.join(answer.about)}."
    raise PlanVoid([Drift("sink", "", str(snapshot.sink.version), says)])


def _read_back(context: Context, since: int) -> DeduplicateResult:
    """What the table's log holds of the deletion. Raises OutcomeUnknown where it does not hold it."""
    place = context.contents.table_place
    version = backups.find_commit(context.plan, since)
    rows = None if version is None else delta.rows_deleted(place, version)
    if version is None or rows is None:
        raise OutcomeUnknown(
            "The table's log does not hold what was deleted, or not how many rows.", code="not_as_deleted"
        )
    app_id = backups.app_id(context.contents, context.plan)
    return DeduplicateResult(rows=rows, before=version - 1, version=version, app_id=app_id)


def probe(step: Step) -> ProbeOutcome:
    """Whether the table's log holds the deletion. Either way doing it again deletes nothing twice, and reads back."""
    plan = step.plan
    assert plan is not None, "only a plan has this step"
    version = backups.find_commit(plan, require_noted_version(step))
    says = (
        "no deletion of this plan" if version is None else f"the deletion of this plan as version {version}"
    )
    return ProbeOutcome(
        "again", [saw(True, f"The table's log holds {says}. Done again, nothing is deleted twice.")]
    )
