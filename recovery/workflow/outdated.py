"""Whether what an open recovery counted is still so: once a rerun began or a newer batch was seen, it no longer is."""

from datetime import datetime
from enum import StrEnum

from recovery.contracts.facts import GatheredFacts
from recovery.models import Recovery, Step
from recovery.pipelines.events import when


class Outdating(StrEnum):
    """What came after the facts."""

    RERUN = "rerun"
    BATCH = "batch"


def outdating_of(recovery: Recovery) -> Outdating | None:
    """What made the numbers of a recovery's facts old; None: they are still so, or there are none."""
    facts, rerun = recovery.gathered, last_rerun(recovery)
    if facts.at is None:
        return None
    if rerun is not None and rerun.started_at is not None and not gathered_after(facts, rerun.started_at):
        return Outdating.RERUN
    batch = when((recovery.flow.last_progress or {}).get("timestamp"))
    return Outdating.BATCH if batch is not None and not gathered_after(facts, batch) else None


def last_rerun(recovery: Recovery) -> Step | None:
    """The step that ran the flow last; None: none began."""
    reruns = recovery.steps.filter(kind="rerun", started_at__isnull=False)
    return reruns.select_related("plan").order_by("started_at").last()


def gathered_after(facts: GatheredFacts, moment: datetime) -> bool:
    """Whether facts are newer than a moment; False where they have no time."""
    return facts.at is not None and datetime.fromisoformat(facts.at) > moment
