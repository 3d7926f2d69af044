"""What can start a pipeline without a person: jobs of its workspace with a schedule, a trigger or continuous mode, and
its own continuous mode and retries (`itself`).

Facts: Jobs API 2.2, `jobs/list?expand_tasks=true`; a job names its pipelines in `settings.tasks[].pipeline_task` and
starts by at most one of `schedule`, `trigger`, `continuous`, each with a `pause_status` (UNPAUSED when absent). The
service cannot be asked "which jobs start this pipeline", so all are read. A workspace without a Jobs API, the
Pipelines server of this project among them, has no jobs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from recovery.errors import NotFound, Refused
from recovery.names import shown
from recovery.pipelines import itself
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.errors import ApiDenied, ApiError

WAYS: Final = ("schedule", "trigger", "continuous")
PAUSED, AWAKE = itself.PAUSED, itself.AWAKE
ITSELF: Final = 0
"""Stands for the job's number where it is the pipeline's own setting."""
OWN: Final = {itself.MODE: "continuous mode", itself.RETRIES: "automatic retries"}
UPDATES: Final = 25
"""So many of the newest updates are looked through for a retry."""


@dataclass(frozen=True)
class Starter:
    """A job that starts the pipeline: `setting` is its schedule, trigger or continuous mode, as the API gave it. Or
    (`job_id` ITSELF, `name` the pipeline's) a setting of the pipeline itself."""

    job_id: int
    name: str
    way: str
    setting: Mapping[str, Any]
    pipeline_id: str

    @property
    def itself(self) -> bool:
        return self.job_id == ITSELF

    @property
    def awake(self) -> bool:
        return bool(self.setting.get("pause_status", AWAKE) != PAUSED)

    @property
    def says(self) -> str:
        """`job nightly (0 0 3 * * ? in UTC)`, `continuous mode of pipeline shop`."""
        if self.itself:
            return f"{OWN[self.way]} of pipeline {self.name}"
        return f"job {self.name} ({self._when()})"

    def _when(self) -> str:
        if self.way == "schedule":
            return (
                f"{self.setting.get('quartz_cron_expression')} in {self.setting.get('timezone_id') or 'UTC'}"
            )
        return "continuous" if self.way == "continuous" else "triggered"

    def paused(self) -> dict[str, Any]:
        """The same setting, paused."""
        return {**self.setting, "pause_status": PAUSED}


@dataclass(frozen=True)
class KnownStarters:
    """Every job that starts the pipeline; or `why` no one can tell. `jobs`: all of the workspace, as the API gave them,
    None where it does not say which it has."""

    starters: tuple[Starter, ...] = ()
    why: str = ""
    jobs: tuple[Mapping[str, object], ...] | None = field(default=None, repr=False, compare=False)

    @property
    def awake(self) -> tuple[Starter, ...]:
        return tuple(s for s in self.starters if s.awake)


def of_jobs(jobs: Iterable[Mapping[str, Any]], pipeline_id: str) -> tuple[Starter, ...]:
    """The jobs among these that start the pipeline by themselves, awake or paused."""
    starters = []
    for job in jobs:
        settings = _mapping(job.get("settings"))
        if pipeline_id not in _pipelines_of(settings):
            continue
        for way in WAYS:
            if setting := _mapping(settings.get(way)):
                name = shown(str(settings.get("name") or job.get("job_id")))
                starters.append(Starter(int(job["job_id"]), name, way, setting, pipeline_id))
    return tuple(starters)


def _pipelines_of(settings: Mapping[str, Any]) -> set[str]:
    tasks = settings.get("tasks")
    listed = [_mapping(t) for t in tasks] if isinstance(tasks, list) else []
    # a task that runs once for each of a list carries its own task inside
    inner = [_mapping(_mapping(t.get("for_each_task")).get("task")) for t in listed]
    return {str(_mapping(t.get("pipeline_task")).get("pipeline_id") or "") for t in (*listed, *inner)}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def known(client: PipelinesClient, pipeline_id: str) -> KnownStarters:
    """Ask the workspace. A workspace that has no Jobs API has no jobs; one that refuses or cannot know leaves it
    unknown.

    Raises Unreachable, NotFound (no such pipeline), ApiDenied, ApiError.
    """
    own = _own(client, pipeline_id)
    try:
        jobs = tuple(client.list_jobs())
        return KnownStarters((*own, *of_jobs(jobs, pipeline_id)), jobs=jobs)
    except NotFound:
        return KnownStarters(own, jobs=())
    except Refused as refusal:  # there is no one to ask, which is not the same as that nothing starts it
        return KnownStarters(own, refusal.sentence)
    except ApiDenied as denied:
        return KnownStarters(own, f"The token of this workspace may not read jobs: {denied.sentence}")
    except ApiError as failure:
        return KnownStarters(own, f"The workspace does not say which jobs it has: {failure.sentence}")


def _own(client: PipelinesClient, pipeline_id: str) -> tuple[Starter, ...]:
    answer, updates = client.get_pipeline(pipeline_id), client.list_updates(pipeline_id, limit=UPDATES)
    name = shown(str(answer.get("name") or pipeline_id))
    return tuple(
        Starter(ITSELF, name, way, setting, pipeline_id) for way, setting in itself.settings(answer, updates)
    )


def now(client: PipelinesClient, of: Starter) -> Mapping[str, Any] | None:
    """The setting as it is; None when it, its job or the pipeline is gone. Raises Unreachable, ApiError."""
    if of.itself:
        return itself.now(client, of.pipeline_id, of.way)
    try:
        return _mapping(_mapping(client.get_job(of.job_id).get("settings")).get(of.way)) or None
    except NotFound:
        return None


def put(client: PipelinesClient, starter: Starter, setting: Mapping[str, Any]) -> None:
    """Change the one setting, and read it back. Raises Refused when it reads back otherwise, and as `itself.put`."""
    if starter.itself:
        itself.put(client, starter.pipeline_id, starter.way, setting)
    else:
        client.update_job(starter.job_id, {starter.way: dict(setting)})
    current = now(client, starter)
    if current is None or current.get("pause_status", AWAKE) != setting.get("pause_status", AWAKE):
        raise Refused(
            f"The {starter.way} of {starter.says} was changed and reads back otherwise: "
            f"{(current or {}).get('pause_status', 'gone')}. Look at it in the workspace, then try again.",
            code="reads_back_otherwise",
        )


def active_runs(client: PipelinesClient, starters: Iterable[Starter]) -> list[str]:
    """`run 77 of job nightly` for each run of these jobs that has not ended: it may still start the pipeline."""
    return [
        f"run {run.get('run_id')} of job {starter.name}"
        for starter in {s.job_id: s for s in starters if not s.itself}.values()
        for run in client.active_runs(starter.job_id)
    ]
