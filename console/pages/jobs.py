"""What pages say of jobs that read a flow's table, or what is below it."""

from collections.abc import Iterable

from console.presenters import below
from recovery.models import Flow
from recovery.workflow.jobs_below import read_jobs_below


def jobs_of_page(flow: Flow, datasets: Iterable[str] | None = None) -> below.NamedJobs | None:
    """Of these datasets alone, where given. None around a plain stream: there is no one to ask."""
    if flow.pipeline.workspace.has_streams:
        return None
    return below.jobs_view(read_jobs_below(flow, datasets))
