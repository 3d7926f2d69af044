"""Backups of tables: where they are, what they hold, and how one is put back.

One lies at `<storage>/_backups/<recovery>/<plan>/<table>`, beside the pipeline's checkpoints, where no catalog reads
it. Each attempt copies into a folder of its own; the manifest, written last, names the one that was read back.
"""

from typing import Final

from pydantic import ValidationError

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.storage import Store, reaching
from recovery.contracts import codec
from recovery.contracts.plan import PlanBody
from recovery.contracts.results import TableBackupResult, UpdateResult
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import Flow, Plan, Step
from recovery.pipelines.workspaces import questions_service
from recovery.sinks.live import delta
from recovery.spark.backups import BackupRefusal, RestoreAnswer, RestoreRequest, restore

FOLDER: Final = "_backups"
MANIFEST: Final = "backup.json"
MOST_BYTES: Final = 1 << 20
FILES: Final = 1_000_000


def place_of(storage: str, plan: Plan) -> str:
    """The folder of the backup of this plan's table."""
    contents = plan.contents
    name = contents.dataset.replace("`", "").replace("/", "_")
    return f"{storage.rstrip('/')}/{FOLDER}/{contents.recovery}/{plan.hash[:8]}/{name}"


def app_id(contents: PlanBody, plan: Plan) -> str:
    """The id under which Delta's log holds the fill of this plan."""
    return f"reprise-{contents.recovery}-{plan.hash[:16]}"


def find_commit(plan: Plan, since: int) -> int | None:
    """The version of the table that this plan has made after `since`; None: none. Raises Unreachable."""
    made_by = app_id(plan.contents, plan)
    commits = delta.commits_since(plan.contents.table_place, since)
    return next((c.version for c in commits if made_by in c.apps), None)


def read_manifest(place: str) -> TableBackupResult | None:
    """What a finished backup holds; None: there is none. Raises Refused where its manifest cannot be read."""
    with reaching(place):
        folder = Store.open(place)
        if not folder.exists(MANIFEST):
            return None
        data = folder.read(MANIFEST, MOST_BYTES)
    try:
        return TableBackupResult.model_validate_json(data)
    except ValidationError:
        raise Refused(
            f"The manifest of the backup at {place} cannot be read: something else has overwritten it.",
            code="not_as_kept",
        ) from None


def write_manifest(kept: TableBackupResult, *, attempt: int) -> None:
    """Whole or not at all: written aside, then renamed."""
    with reaching(kept.place):
        folder = Store.open(kept.place)
        draft = f"{MANIFEST}.{attempt}.draft"
        folder.write(draft, codec.canonical_json(codec.to_json(kept)))
        folder.replace(draft, MANIFEST)
        folder.sync()


def clear(place: str) -> None:
    """Remove what an attempt left that did not finish, or a whole backup."""
    with reaching(place):
        Store.open(place).remove("")


def measure_files(rows_folder: str) -> tuple[int, int]:
    """Data files of a copy, and their bytes."""
    with reaching(rows_folder):
        files, _, _ = Store.open(rows_folder).walk(FILES)
    sizes = [size for name, size in files.items() if name.endswith(".parquet")]
    return len(sizes), sum(sizes)


def kept_by(step: Step | None) -> TableBackupResult | None:
    """What a step that is done has kept."""
    if step is None or step.state != "done" or "rows_folder" not in step.result:
        return None
    return codec.read(TableBackupResult, step.result)


def find_strange(plan: Plan, kept: TableBackupResult) -> tuple[int, ...]:
    """Versions of the table since the backup in which something other than this plan changed rows. Raises Unreachable
    where the log no longer has them."""
    query = inspect_checkpoint(plan.contents.checkpoint_place).query_id
    apps = {app_id(plan.contents, plan), *([query] if query else [])}
    return delta.written_by_others(delta.commits_since(plan.contents.table_place, kept.version), apps)


def refuse_moved_table(plan: Plan, *, may_have_run: bool) -> None:
    """Raises Refused, before an update empties the table of a plan with a backup, where the backup lacks what is in
    the table now. `may_have_run`: an update of the plan may have emptied it before."""
    step = Step.objects.filter(plan=plan, kind="table-backup", state="done").first()
    kept = kept_by(step)
    if kept is None:
        return
    commits = delta.commits_since(plan.contents.table_place, kept.version)
    strange = find_strange(plan, kept) if may_have_run else tuple(c.version for c in commits if c.moves)
    if strange:
        raise Refused(
            f"Version {strange[0]} of the table changed rows after the backup, so the backup lacks them. No update "
            "was started. Find the writer, then seal a new plan.",
            code="written_by_others",
        )


def ask_restore(
    flow: Flow, contents: PlanBody, version: int, *, kept: TableBackupResult | None = None, note: str = ""
) -> RestoreAnswer:
    """Have Spark put a plan's table back to `version`, in one further commit that bears `note`. Its rows are compared
    with those that were `kept`, if any.

    Raises Refused where Delta no longer has the files of that version or the name is that of another table, which
    leaves the table as it is; OutcomeUnknown where its rows are not those that were kept; Unreachable.
    """
    pipeline = flow.pipeline
    answer = restore(
        RestoreRequest(
            answers=questions_service(pipeline.workspace, pipeline.environment),
            table=contents.dataset,
            location=contents.table_place,
            version=version,
            digest=kept.digest if kept else "",
            note=note,
            configuration=dict(pipeline.spec.get("configuration") or {}),
        )
    )
    if answer.problem is not None:
        way_on = f" The rows are in the backup at {kept.place}; write them back by hand." if kept else ""
        raise Refused(
            f"Delta cannot put the table back to version {version}: {answer.problem}{way_on}",
            code="files_gone",
        )
    if answer.refused is BackupRefusal.DIFFERS and kept is not None:
        raise OutcomeUnknown(
            f"The table does not read back as it was kept. Compare it with the backup at {kept.place}.",
            code="not_as_kept",
        )
    if answer.refused is not None:
        raise Refused(
            f"{contents.dataset} is no longer the table at {contents.table_place}, which was left alone. Give that "
            "table its name back, then run this step again.",
            code=answer.refused,
        )
    return answer


def find_unfilled(flow: Flow) -> str:
    """The newest recovery that has emptied this flow's table, filled nothing back and was not rolled back, while its
    backup is there; "" where there is none."""
    kept = Step.objects.filter(recovery__flow=flow, kind="table-backup", state="done").select_related(
        "recovery"
    )
    for step in kept.exclude(recovery__state="rolled_back").order_by("-pk"):
        steps = {s.kind: s for s in Step.objects.filter(plan=step.plan_id, kind__in=("rerun", "fill"))}
        fill, rerun = steps.get("fill"), steps.get("rerun")
        begun = rerun is not None and codec.read(UpdateResult, rerun.result).may_have_run
        backup = kept_by(step)
        if begun and backup and (fill is None or fill.state != "done") and read_manifest(backup.place):
            return step.recovery.label
    return ""
