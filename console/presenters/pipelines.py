"""A pipeline as a whole, in words and shapes. Pure over rows already read."""

from datetime import datetime
from typing import Final

from console.presenters import status, words
from recovery.models import Pipeline
from recovery.pipelines.alone import health_of
from recovery.pipelines.failures import PipelineState

CANCELLED: Final = status.Badge("attention", "Cancelled")
BEHIND: Final = status.Badge("attention", "Data behind")


def badge_of(pipeline: Pipeline) -> status.Badge:
    """Its state; an update that someone cancelled is called that."""
    failure = health_of(pipeline).failure
    if pipeline.judged == PipelineState.FAILED and failure and failure.is_cancelled:
        return CANCELLED
    return status.state_badge(status.FLOW, pipeline.judged or "unknown")


def pipeline_header(
    pipeline: Pipeline, now: datetime, *, behind: bool, doubted: bool = False
) -> status.Badge:
    """The badge beside the name: `Failed since 02:40:27 UTC`. `behind`: one of its datasets is empty or stale, so that
    it is not well though its updates are. `doubted`: something contradicts one of its flows that are ok or
    run."""
    badge = badge_of(pipeline)
    if behind and pipeline.judged == PipelineState.OK:
        return BEHIND
    if doubted and pipeline.judged in (PipelineState.OK, PipelineState.RUNNING):
        return status.Badge("attention", f"{badge.word}, a flow in doubt")
    if pipeline.judged != PipelineState.FAILED or pipeline.judged_since is None:
        return badge
    return status.Badge(badge.kind, f"{badge.word} since {words.format_clock(pipeline.judged_since, now)}")
