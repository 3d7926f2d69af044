"""Which pipelines have to be shown beside their flows: no flow of theirs tells how they are."""

from django.db.models import Count, Q, QuerySet

from recovery.models import Pipeline
from recovery.people.roles import Actor
from recovery.people.visible import where
from recovery.pipelines.failures import PipelineHealth, PipelineState, failure_from


def pipelines_alone(by: Actor) -> QuerySet[Pipeline]:
    """Those that `by` sees without a flow, and those that fail while no flow of theirs does; with their workspace."""
    seen = Pipeline.objects.filter(where(by), gone=False).annotate(
        flows_known=Count("flows"), flows_failed=Count("flows", filter=Q(flows__state="failed"))
    )
    alone = Q(flows_known=0) | Q(judged=PipelineState.FAILED, flows_failed=0)
    return seen.filter(alone).select_related("workspace").defer("spec", "updates").order_by("name", "pk")


def failing_alone(by: Actor) -> int:
    """How many of them fail."""
    return pipelines_alone(by).filter(judged=PipelineState.FAILED).count()


def health_of(pipeline: Pipeline) -> PipelineHealth:
    """How a pipeline is, as the poller kept it."""
    state = PipelineState(pipeline.judged or "unknown")
    return PipelineHealth(state, pipeline.judged_since, failure_from(pipeline.failure))
