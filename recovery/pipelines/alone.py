"""How a pipeline is as a whole, by what the poller kept."""

from collections.abc import Iterable, Sequence

from recovery.models import Flow, Pipeline
from recovery.pipelines.downstream import BehindState
from recovery.pipelines.failures import PipelineHealth, PipelineState, failure_from, say_health


def health_of(pipeline: Pipeline) -> PipelineHealth:
    """How a pipeline is, as the poller kept it."""
    state = PipelineState(pipeline.judged or "unknown")
    return PipelineHealth(state, pipeline.judged_since, failure_from(pipeline.failure))


def say_pipeline(pipeline: Pipeline, behind: Sequence[tuple[str, str]] = ()) -> str:
    """As `say_health`, in the words of what the workspace holds."""
    return say_health(health_of(pipeline), behind, pipeline.workspace.run_noun)


def list_behind(pipelines: Iterable[Pipeline]) -> dict[int, list[tuple[str, str]]]:
    """Short name and state of the flows whose datasets are empty or stale, by their pipeline's key."""
    behind: dict[int, list[tuple[str, str]]] = {}
    rows = Flow.objects.filter(pipeline__in=[p.pk for p in pipelines], state__in=tuple(BehindState))
    for key, short, state in rows.order_by("state", "short").values_list("pipeline_id", "short", "state"):
        behind.setdefault(key, []).append((short, state))
    return behind
