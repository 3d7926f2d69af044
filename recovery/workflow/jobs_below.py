"""Which jobs name the flow's table, or a dataset below it, as far as the workspace said at the early stop."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from recovery.contracts import codec
from recovery.contracts.results import NamingJob, StoppedResult
from recovery.models import Flow, Step
from recovery.pipelines.across import flows_below
from recovery.pipelines.events import when
from recovery.pipelines.naming_jobs import find_naming_jobs
from recovery.pipelines.starters import KnownStarters


@dataclass(frozen=True)
class JobsBelow:
    """`jobs` None: not known, `why` in a sentence. `at`: when the workspace was asked."""

    jobs: tuple[NamingJob, ...] | None
    why: str
    at: datetime | None


def jobs_of_stop(flow: Flow, known: KnownStarters) -> tuple[NamingJob, ...] | None:
    """For the result of the early stop, by the answer that tells what starts the pipeline; None: it does not say."""
    if known.jobs is None:
        return None
    return find_naming_jobs(known.jobs, [flow.dataset, *(node.dataset for node, _ in flows_below(flow))])


def read_jobs_below(flow: Flow, datasets: Iterable[str] | None = None) -> JobsBelow | None:
    """By the newest early stop of the flow; of these datasets alone, where given. None: no workspace was asked."""
    stops = Step.objects.filter(recovery__flow=flow, kind="stop", plan=None).order_by("-pk")
    for step in stops[:5]:
        told = codec.read(StoppedResult, step.result)
        if told.jobs_below is not None or told.jobs_unknown:
            seen = told.jobs_below if datasets is None else _only(told.jobs_below, set(datasets))
            return JobsBelow(seen, told.jobs_unknown, when(told.begun) or step.started_at)
    return None


def _only(jobs: tuple[NamingJob, ...] | None, datasets: set[str]) -> tuple[NamingJob, ...] | None:
    return None if jobs is None else tuple(job for job in jobs if job.dataset in datasets)
