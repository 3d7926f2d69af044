"""What recoveries have started in a pipeline, so far as it bears on the numbers of batches in tables of files.

A recovery answers for the updates that its own steps have started, by their recorded ids, and for the table of its own
flow. Whatever else ran while it was open is judged as at any other time.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from recovery.contracts import codec
from recovery.contracts.plan import PlanBody
from recovery.contracts.results import UpdateResult
from recovery.models import Pipeline, Step
from recovery.pipelines.events import when
from recovery.pipelines.losses import Rerun, Reruns

MAY_HAVE_STARTED: Final = ("running", "unknown", "pending")
"""States of a step that may have started an update which it has not noted yet."""


def reruns_of(pipeline: Pipeline, updates: Sequence[Mapping[str, Any]]) -> Reruns:
    """Of every recovery of the pipeline that was open since the oldest of these updates."""
    oldest = min((at for u in updates if (at := when(u.get("creation_time")))), default=None)
    open_then = Q(recovery__ended_at=None)
    if isinstance(oldest, datetime):
        open_then |= Q(recovery__ended_at__gte=oldest)
    steps = Step.objects.filter(open_then, recovery__flow__pipeline=pipeline, kind="rerun")
    steps = steps.exclude(plan=None).select_related("recovery__flow", "plan").order_by("pk")
    by_update: dict[tuple[str, str], Rerun] = {}
    unnoted: dict[str, str | None] = {}
    for step in steps:
        flow = step.recovery.flow.name
        noted = codec.read(UpdateResult, step.result)
        for name, rerun in _started(step, noted):
            by_update.setdefault((name, flow), rerun)
        if noted.has_unnoted_start and step.state in MAY_HAVE_STARTED:
            unnoted[flow] = noted.newest_before
    return Reruns(by_update, unnoted)


def _started(step: Step, noted: UpdateResult) -> Iterator[tuple[str, Rerun]]:
    """Every update that the step has noted, the first one first."""
    contents = step.plan.contents if step.plan else None
    next_batch = contents.numbering.next_batch if contents else 0
    for n, name in enumerate(noted.started):
        yield name, Rerun(next_batch, () if n or contents is None else _sealed_heads(contents))


def _sealed_heads(contents: PlanBody) -> tuple[int | None, ...]:
    """The newest number in the log of the plan's table of files, as read for the seal."""
    return (contents.preconditions.sink.head,) if contents.sink.kind == "files" else ()
