"""What recoveries have started in a pipeline, so far as it bears on the numbers of batches in tables of files.

A recovery answers for the updates that its own steps have started, by their recorded ids, and for the table of its own
flow. Whatever else ran while it was open is judged as at any other time.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q

from recovery.contracts.plan import PlanBody
from recovery.models import Pipeline, Step
from recovery.models.step import has_unnoted_start
from recovery.pipelines.events import when
from recovery.pipelines.losses import Rerun, Reruns


def reruns_of(pipeline: Pipeline, updates: Sequence[Mapping[str, Any]]) -> Reruns:
    """Of every recovery of the pipeline that was open since the oldest of these updates."""
    oldest = min((at for u in updates if (at := when(u.get("creation_time")))), default=None)
    open_then = Q(recovery__ended_at=None)
    if isinstance(oldest, datetime):
        open_then |= Q(recovery__ended_at__gte=oldest)
    steps = Step.objects.filter(open_then, recovery__flow__pipeline=pipeline, kind="rerun")
    steps = steps.exclude(plan=None).select_related("recovery__flow", "plan").order_by("pk")
    by_update: dict[str, Rerun] = {}
    unnoted: dict[str, str | None] = {}
    for step in steps:
        flow = step.recovery.flow.name
        for name, rerun in _started(step, flow):
            by_update.setdefault(name, rerun)
        if _may_have_started(step):
            unnoted[flow] = step.result["newest_before"]
    return Reruns(by_update, unnoted)


def _started(step: Step, flow: str) -> Iterator[tuple[str, Rerun]]:
    """Every update that the step has noted, the first one first."""
    told = [*(step.result.get("updates") or [step.result.get("ended")]), step.result.get("update_id")]
    contents = step.plan.contents if step.plan else None
    next_batch = contents.numbering.next_batch if contents else 0
    for n, name in enumerate(dict.fromkeys(str(u) for u in told if u)):
        yield name, Rerun(flow, next_batch, () if n or contents is None else _sealed_heads(contents))


def _sealed_heads(contents: PlanBody) -> tuple[int | None, ...]:
    """The newest number in the log of the plan's table of files, as read for the seal."""
    return (contents.preconditions.sink.head,) if contents.sink.kind == "files" else ()


def _may_have_started(step: Step) -> bool:
    """Whether the step may have started an update that it has not noted yet."""
    return has_unnoted_start(step.result) and step.state in ("running", "unknown", "pending")
