"""Pipelines that no flow speaks for, as rows of the inventory and as a page. Pure over rows already read."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presenters import status, words
from recovery.models import Pipeline
from recovery.pipelines.alone import health_of
from recovery.pipelines.failures import PipelineState, say_health

CANCELLED: Final = status.Badge("attention", "Cancelled")


@dataclass(frozen=True)
class PipelineRow:
    """`since`: of its state, None for not known. `wrong`: why, in a sentence, "" where nothing is."""

    pipeline: Pipeline
    badge: status.Badge
    since: datetime | None
    wrong: str
    condition: str
    kind: str = "pipeline"

    @property
    def needs_attention(self) -> bool:
        return self.pipeline.judged == PipelineState.FAILED


def row_of(pipeline: Pipeline) -> PipelineRow:
    health = health_of(pipeline)
    condition = health.failure.condition if health.failure else ""
    return PipelineRow(
        pipeline=pipeline,
        badge=badge_of(pipeline),
        since=health.since,
        wrong="" if health.state is PipelineState.OK else say_health(health),
        condition=condition,
        kind="pipeline, no flow yet" if getattr(pipeline, "flows_known", 1) == 0 else "pipeline",
    )


def rows(pipelines: Iterable[Pipeline]) -> list[PipelineRow]:
    return [row_of(pipeline) for pipeline in pipelines]


def badge_of(pipeline: Pipeline) -> status.Badge:
    """Its state; an update that somebody cancelled is called that."""
    failure = health_of(pipeline).failure
    if pipeline.judged == PipelineState.FAILED and failure and failure.is_cancelled:
        return CANCELLED
    return status.badge(status.FLOW, pipeline.judged or "unknown")


def header(pipeline: Pipeline, now: datetime) -> status.Badge:
    """The badge beside the name: `Failed since 02:40:27 UTC`."""
    found = badge_of(pipeline)
    if pipeline.judged != PipelineState.FAILED or pipeline.judged_since is None:
        return found
    return status.Badge(found.kind, f"{found.word} since {words.clock(pipeline.judged_since, now)}")


def matches(row: PipelineRow, *, env: str, condition: str, said: str) -> bool:
    """Does the row fit the inventory's filters? `said`: words that are all looked for."""
    pipeline = row.pipeline
    if (env and pipeline.environment != env) or (condition and row.condition != condition):
        return False
    text = f"{pipeline.name} {pipeline.workspace.name} {row.wrong} {row.condition}".lower()
    return all(word in text for word in said.lower().split())


ENVIRONMENTS: Final = {"production": 0, "staging": 1, "development": 2}


def in_order(found: list[PipelineRow]) -> list[PipelineRow]:
    """Most urgent first: production before the rest, then what fails longest."""
    return sorted(
        found,
        key=lambda r: (
            ENVIRONMENTS.get(r.pipeline.environment, 9),
            r.since.timestamp() if r.since else 9e12,
            r.pipeline.name,
        ),
    )
