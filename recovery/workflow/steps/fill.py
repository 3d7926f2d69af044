"""fill: write the rows of the backup whose key the table lacks after its refresh, in one commit.

The commit bears an id of this plan. Delta writes nothing a second time under it, so this step may be done again after
a crash at any moment: it first looks for its commit in the table's log.
"""

from collections.abc import Mapping

from recovery.contracts import codec
from recovery.contracts.results import FillResult, TableBackupResult, UpdateResult
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import Step
from recovery.pipelines.workspaces import questions_service
from recovery.sinks.live import delta
from recovery.spark.backups import Filled, FillRequest, Unkept, fill
from recovery.workflow import backups, reviewed
from recovery.workflow.gather import Scene, look
from recovery.workflow.steps.base import Context, Probed, saw

SECONDS = 3600


def run(context: Context) -> Mapping[str, object]:
    """Fill once, and read back. Raises Refused where something else wrote the table since it was emptied."""
    contents, backup = context.contents, _backup(context)
    reran = context.recovery.steps.filter(plan=context.plan, kind="rerun", state="done").first()
    if reran is None:
        raise Refused("The rerun has not ended, so what the table lacks is not known yet.")
    started = codec.read(UpdateResult, reran.result).started
    reviewed.ran(contents, context.client, context.pipeline_id, started)
    scene = look(context.flow, known=contents.table_places)
    app_id = backups.app_id(contents, context.plan)
    commits = _own_commits(context, scene, backup)
    if (done := _commit_of(commits, app_id)) is not None:
        context.log(f"Version {done} of the table is the fill of an attempt before.")
        return codec.to_json(_read_back(scene, backup, app_id))
    before = scene.sink.version
    assert before is not None, "a table that counts its commits has a version"
    context.watch.guard()
    told = _filled(context, scene, backup, before, app_id)
    if told.refused is not None:
        raise Refused(
            f"{_why(told)} Nothing was filled back; the backup is at {backup.place}.", code=told.refused
        )
    if not told.rows:
        context.log("The table lacks no key of the backup: nothing was written.")
        return codec.to_json(FillResult(rows=0, before=before, version=before, app_id=app_id))
    result = _read_back(scene, backup, app_id)
    if (result.before, result.rows) != (before, told.rows):
        raise OutcomeUnknown(
            f"{told.rows:,} rows were to be filled into version {before}; version {result.version} holds "
            f"{result.rows:,} of them. Something else may have written the table.",
            code="not_as_filled",
        )
    context.log(f"Filled back {result.rows:,} rows: version {result.version} of the table.")
    return codec.to_json(result)


def _filled(context: Context, scene: Scene, backup: TableBackupResult, before: int, app_id: str) -> Filled:
    """What Spark answers to the one question that writes."""
    return fill(
        FillRequest(
            answers=questions_service(scene.flow.pipeline.workspace, scene.flow.pipeline.environment),
            table=context.contents.dataset,
            location=scene.table_place,
            before=before,
            backup=backup.rows_folder,
            key=context.contents.key,
            app_id=app_id,
            configuration=dict(scene.spec.get("configuration") or {}),
        ),
        timeout=SECONDS - 60,
    )


def _backup(context: Context) -> TableBackupResult:
    """What the plan kept, as its manifest has it now."""
    step = context.recovery.steps.filter(plan=context.plan, kind="table-backup", state="done").first()
    kept = backups.kept_by(step)
    if kept is None or backups.read_manifest(kept.place) != kept:
        raise Refused(
            "The backup of the table is not there as it was made, so nothing can be filled back from it.",
            code="not_as_kept",
        )
    return kept


def _own_commits(context: Context, scene: Scene, backup: TableBackupResult) -> tuple[delta.Commit, ...]:
    """The commits since the backup. Raises Refused where another writer changed rows."""
    if strange := backups.find_strange(context.plan, backup):
        raise Refused(
            f"Version {strange[0]} of the table was written by something else since it was backed up. Nothing was "
            f"filled back; the backup is at {backup.place}. Find the writer, then seal a new plan.",
            code="written_by_others",
        )
    return delta.commits_since(scene.table_place, backup.version)


def _commit_of(commits: tuple[delta.Commit, ...], app_id: str) -> int | None:
    return next((c.version for c in commits if app_id in c.apps), None)


def _read_back(scene: Scene, backup: TableBackupResult, app_id: str) -> FillResult:
    """What the table's log holds of the fill. Raises OutcomeUnknown where it does not hold it."""
    place = scene.table_place
    version = _commit_of(delta.commits_since(place, backup.version), app_id)
    rows = None if version is None else delta.rows_added(place, version)
    if version is None or rows is None:
        raise OutcomeUnknown(
            "The table's log does not hold what was filled back, or not how many rows.", code="not_as_filled"
        )
    return FillResult(rows=rows, before=version - 1, version=version, app_id=app_id)


def _why(told: Filled) -> str:
    if told.refused is Unkept.COLUMNS:
        return f"The rows of the backup do not fit the refreshed table: {', '.join(told.about)}."
    return "The table's name is that of another table now."


def probe(step: Step) -> Probed:
    """Whether the table's log holds the fill. Either way doing it again writes nothing twice, and reads back."""
    plan = step.plan
    assert plan is not None, "only a plan has this step"
    keep = step.recovery.steps.filter(plan=plan, kind="table-backup", state="done").first()
    backup = backups.kept_by(keep)
    app_id = backups.app_id(plan.contents, plan)
    commits = delta.commits_since(plan.contents.table_place, backup.version) if backup else ()
    version = _commit_of(commits, app_id)
    says = "no fill of this plan" if version is None else f"the fill of this plan as version {version}"
    return Probed(
        "again", [saw(True, f"The table's log holds {says}. Done again, nothing is written twice.")]
    )
