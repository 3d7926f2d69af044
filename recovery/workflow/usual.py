"""How long things took before, on this flow or, where it has no history, in its workspace; said while they run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import Any, Final

from django.db.models import Q

from recovery.contracts import codec
from recovery.contracts.choices import WorkProgress
from recovery.contracts.step_notes import StepNotes
from recovery.models import Flow, Recovery, Step
from recovery.pipelines.events import when

NEWEST: Final = 200
"""How many rows of the newest are looked at."""

LEAST_ROWS: Final = 1000
"""A batch with fewer rows shows no rate."""


class UsualOf(StrEnum):
    FLOW = "flow"
    WORKSPACE = "workspace"


@dataclass(frozen=True)
class UsualDuration:
    """Seconds: the median of `times` runs, the shortest and the longest of them. `of`: whose runs they were."""

    seconds: float
    shortest: float
    longest: float
    times: int
    of: UsualOf


def usual_of(lengths: Sequence[float], of: UsualOf) -> UsualDuration | None:
    """Of the lengths of earlier runs in seconds; None for none."""
    good = [seconds for seconds in lengths if seconds >= 0]
    return UsualDuration(median(good), min(good), max(good), len(good), of) if good else None


def usual_steps(flow: Flow) -> dict[str, UsualDuration]:
    """By kind of step of a plan: how long done ones took, of this flow where it has such, else of its workspace. The
    early stop is of no plan: it waits for an update to end, where a plan only proves that none runs."""
    found: dict[str, UsualDuration] = {}
    for of, within in _places(flow, "recovery__flow"):
        done = Step.objects.filter(within, state="done", started_at__isnull=False, ended_at__isnull=False)
        done = done.exclude(kind="stop", plan=None)
        lengths: dict[str, list[float]] = {}
        rows = done.order_by("-pk").values_list("kind", "started_at", "ended_at", "result")[:NEWEST]
        for kind, began, ended, result in rows:
            if began and ended and codec.read(StepNotes, result).skipped is None:
                lengths.setdefault(kind, []).append((ended - began).total_seconds())
        for kind, those in lengths.items():
            if kind not in found and (usual := usual_of(those, of)):
                found[kind] = usual
    return found


def usual_look(flow: Flow, field: str) -> UsualDuration | None:
    """How long a look took: `facts` (counting) or `sealing`. The newest of each earlier recovery is known."""
    for of, within in _places(flow, "flow"):
        rows = Recovery.objects.filter(within).order_by("-pk").values_list("facts", "choices")[:NEWEST]
        states = (facts if field == "facts" else (choices or {}).get(field) for facts, choices in rows)
        if usual := usual_of(list(_lengths(states)), of):
            return usual
    return None


def usual_update_seconds(flow: Flow) -> float | None:
    """How long an update of this flow's pipeline takes: by its newest completed ones, else by rerun steps before. Of a
    plain stream the steps come first: its own runs may have gone on for days."""
    ends = [
        (when(u.get("creation_time")), when(u.get("ended_at") or None))
        for u in flow.pipeline.updates
        if u.get("state") == "COMPLETED" and not u.get("validate_only")
    ]
    lengths = [(ended - began).total_seconds() for began, ended in ends if began and ended]
    by_runs, by_steps = usual_of(lengths, UsualOf.FLOW), usual_steps(flow).get("rerun")
    usual = (by_steps or by_runs) if flow.pipeline.workspace.has_streams else (by_runs or by_steps)
    return usual.seconds if usual else None


def usual_rows_per_second(flow: Flow) -> float | None:
    """How many rows of input a second the flow reads, by the newest batch that a poll has kept.

    None: none ran, or it had too few rows: its time then went into its beginning and end."""
    took = flow.last_progress.get("durationMs")
    if not isinstance(took, dict) or "addBatch" not in took:
        return None  # an idle look: no batch ran
    rows, milliseconds = flow.last_progress.get("numInputRows"), took.get("triggerExecution")
    if not isinstance(rows, int) or not isinstance(milliseconds, int):
        return None
    return rows * 1000 / milliseconds if rows >= LEAST_ROWS and milliseconds > 0 else None


def _places(flow: Flow, path: str) -> tuple[tuple[UsualOf, Q], ...]:
    workspace = flow.pipeline.workspace_id
    return (
        (UsualOf.FLOW, Q(**{path: flow.pk})),
        (UsualOf.WORKSPACE, Q(**{f"{path}__pipeline__workspace": workspace})),
    )


def _lengths(states: Iterable[Any]) -> Iterable[float]:
    for state in states:
        progress = codec.read(WorkProgress, state) if isinstance(state, dict) else WorkProgress()
        began, ended = _time(progress.started_at), _time(progress.at)
        if progress.status == "ready" and began and ended:
            yield (ended - began).total_seconds()


def _time(value: Any) -> datetime | None:
    return when(value) if value else None
