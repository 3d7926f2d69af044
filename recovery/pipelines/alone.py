"""How a pipeline is as a whole, by what the poller kept."""

from recovery.models import Pipeline
from recovery.pipelines.failures import PipelineHealth, PipelineState, failure_from


def health_of(pipeline: Pipeline) -> PipelineHealth:
    """How a pipeline is, as the poller kept it."""
    state = PipelineState(pipeline.judged or "unknown")
    return PipelineHealth(state, pipeline.judged_since, failure_from(pipeline.failure))
