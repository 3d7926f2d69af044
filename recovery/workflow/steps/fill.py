"""fill: write the rows that the table lacks, in one commit: of a backup after its refresh, or of the committed input.

The commit bears an id of this plan. Delta writes nothing a second time under it, so this step may be done again after
a crash at any moment: it first looks for its commit in the table's log.
"""

from collections.abc import Callable
from dataclasses import dataclass

from recovery.contracts import codec
from recovery.contracts.results import FillResult, TableBackupResult, UpdateResult
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import Plan, Step
from recovery.pipelines.workspaces import questions_service
from recovery.plans.values import Drift
from recovery.sinks.live import delta
from recovery.spark.backups import BackupRefusal, FillAnswer, FillRequest, fill
from recovery.strategies.common import plural
from recovery.workflow import backups, corrections, reviewed
from recovery.workflow.flow_snapshot import FlowSnapshot, read_flow_snapshot
from recovery.workflow.noted_version import require_noted_version
from recovery.workflow.steps.base import Context, PlanVoid, ProbeOutcome, saw

SECONDS = 3600


@dataclass(frozen=True)
class FillSource:
    """Where the rows come from. `since`: the version of the table after which this plan alone may have written it;
    `ask`: the one question that writes them, into a version, under an id; `refuse`: raises what follows where Spark
    wrote none."""

    since: int
    ask: Callable[[FlowSnapshot, int, str], FillAnswer]
    refuse: Callable[[FillAnswer], None]


def run(context: Context) -> FillResult:
    """Fill once, and read back. Raises Refused, or PlanVoid before anything was changed, where something else wrote the
    table since."""
    contents = context.contents
    snapshot = read_flow_snapshot(context.flow, known=contents.table_places)
    app_id = backups.app_id(contents, context.plan)
    rows = _of_input(context, snapshot) if contents.is_topped_up else _of_backup(context, snapshot)
    if (done := backups.find_commit(context.plan, rows.since)) is not None:
        context.log(f"Version {done} of the table is the fill of an attempt before.")
        return _read_back(context.plan, rows.since)
    before = snapshot.sink.version
    assert before is not None, "a table that counts its commits has a version"
    context.watch.guard()
    answer = rows.ask(snapshot, before, app_id)
    if answer.refused is not None:
        rows.refuse(answer)
    if not answer.rows:
        context.log("The table lacks no key: nothing was written.")
        return FillResult(rows=0, before=before, version=before, app_id=app_id)
    result = _read_back(context.plan, rows.since)
    if (result.before, result.rows) != (before, answer.rows):
        raise OutcomeUnknown(
            f"{plural(answer.rows, 'row')} had to be filled into version {before}; version {result.version} holds "
            f"{result.rows:,} of them. Something else may have written the table.",
            code="not_as_filled",
        )
    context.log(f"Wrote {plural(result.rows, 'row')}: version {result.version} of the table.")
    return result


def _of_input(context: Context, snapshot: FlowSnapshot) -> FillSource:
    """Rows that the code yields over the committed input. Before they are written, everything is as it was planned, or
    the plan is void: nothing was changed yet."""
    contents = context.contents
    since = require_noted_version(context.step)
    if backups.find_commit(context.plan, since) is None:
        if drift := find_drift(context, snapshot, since):
            raise PlanVoid(drift)
        reviewed.require_unchanged(
            contents, snapshot.spec, snapshot.code, snapshot.client, so="Nothing was written."
        )

    def ask(snapshot: FlowSnapshot, before: int, app_id: str) -> FillAnswer:
        return corrections.add_missing(snapshot, contents, before=before, app_id=app_id, timeout=SECONDS - 60)

    def refuse(answer: FillAnswer) -> None:
        if answer.refused is BackupRefusal.UNREADABLE:
            raise Refused(f"The input could not be read again: {answer.problem}", code=answer.refused)
        raise PlanVoid([Drift("sink", "", str(answer.rows), _why_not_added(context, answer))])

    return FillSource(since, ask, refuse)


def find_drift(context: Context, snapshot: FlowSnapshot, since: int) -> list[Drift]:
    """What has moved since the plan's stop."""
    planned, found = context.contents.preconditions.checkpoint, []
    if snapshot.active_update:
        says = f"Update {snapshot.active_update} of the pipeline is running."
        found.append(Drift("update", "", snapshot.active_update, says))
    if snapshot.checkpoint.fingerprint != planned.fingerprint:
        now, says = snapshot.checkpoint.last_committed, "The flow has read on since the plan."
        found.append(Drift("checkpoint", str(planned.last_committed), str(now), says))
    if strange := corrections.written_by_others(context.plan, since):
        says = f"Version {strange[0]} of the table was written by something else since the plan."
        found.append(Drift("sink", str(since), str(strange[0]), says))
    return found


def _why_not_added(context: Context, answer: FillAnswer) -> str:
    if answer.refused is BackupRefusal.OTHER_ROWS:
        fill_args = context.contents.fill_args
        planned = fill_args.rows if fill_args else None
        return (
            f"The table lacks {plural(answer.rows, 'row')} of the input now, and lacked {planned} when the plan was "
            "sealed."
        )
    if answer.refused is BackupRefusal.COLUMNS:
        return f"What the code yields no longer fits the table: {', '.join(answer.about)}."
    return "The table's name is that of another table now."


def _of_backup(context: Context, snapshot: FlowSnapshot) -> FillSource:
    """Rows of the plan's backup. Raises Refused where another writer changed rows since it was made."""
    contents, backup = context.contents, _backup(context)
    reran = context.recovery.steps.filter(plan=context.plan, kind="rerun", state="done").first()
    if reran is None:
        raise Refused("The rerun has not ended, so it is not known yet what the table lacks.")
    started = codec.read(UpdateResult, reran.result).started
    reviewed.require_reviewed_code_ran(contents, context.client, context.pipeline_id, started)
    if strange := backups.find_strange(context.plan, backup):
        raise Refused(
            f"Version {strange[0]} of the table was written by something else since it was backed up. Nothing was "
            f"filled back; the backup is at {backup.place}. Find the writer, then seal a new plan.",
            code="written_by_others",
        )

    def ask(snapshot: FlowSnapshot, before: int, app_id: str) -> FillAnswer:
        return fill(
            FillRequest(
                answers=questions_service(
                    snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment
                ),
                table=contents.dataset,
                location=snapshot.table_place,
                before=before,
                backup=backup.rows_folder,
                key=contents.key,
                app_id=app_id,
                configuration=dict(snapshot.spec.get("configuration") or {}),
            ),
            timeout=SECONDS - 60,
        )

    def refuse(answer: FillAnswer) -> None:
        raise Refused(
            f"{_why_not_filled(answer)} Nothing was filled back; the backup is at {backup.place}.",
            code=answer.refused,
        )

    return FillSource(backup.version, ask, refuse)


def _backup(context: Context) -> TableBackupResult:
    """What the plan kept, as its manifest has it now."""
    step = context.recovery.steps.filter(plan=context.plan, kind="table-backup", state="done").first()
    kept = backups.kept_by(step)
    if kept is None or backups.read_manifest(kept.place) != kept:
        raise Refused(
            "The backup of the table is missing or has changed, so nothing can be filled back from it.",
            code="not_as_kept",
        )
    return kept


def _why_not_filled(answer: FillAnswer) -> str:
    if answer.refused is BackupRefusal.COLUMNS:
        return f"The rows of the backup do not fit the refreshed table: {', '.join(answer.about)}."
    return "The table's name is that of another table now."


def _read_back(plan: Plan, since: int) -> FillResult:
    """What the table's log holds of the fill. Raises OutcomeUnknown where it does not hold it."""
    contents = plan.contents
    version = backups.find_commit(plan, since)
    rows = None if version is None else delta.rows_added(contents.table_place, version)
    if version is None or rows is None:
        raise OutcomeUnknown(
            "The table's log does not hold what was filled back, or not how many rows.", code="not_as_filled"
        )
    app_id = backups.app_id(contents, plan)
    return FillResult(rows=rows, before=version - 1, version=version, app_id=app_id)


def probe(step: Step) -> ProbeOutcome:
    """Whether the table's log holds the fill. Either way doing it again writes nothing twice, and reads back."""
    plan = step.plan
    assert plan is not None, "only a plan has this step"
    contents = plan.contents
    keep = step.recovery.steps.filter(plan=plan, kind="table-backup", state="done").first()
    backup = backups.kept_by(keep)
    since = require_noted_version(step) if contents.is_topped_up else backup.version if backup else None
    version = None if since is None else backups.find_commit(plan, since)
    says = "no fill of this plan" if version is None else f"the fill of this plan as version {version}"
    return ProbeOutcome(
        "again", [saw(True, f"The table's log holds {says}. Done again, nothing is written twice.")]
    )
