"""A step that waits for an update holds no worker: its row says when somebody looks next, and what was seen last.

The row is the truth (`Step.look_at`); a message only wakes who looks. A look takes the row for `LEASE` first, so two at
once do no harm; whoever dies leaves a row that is due again, and beat wakes a look at every row that is overdue
(`tasks.sweep_looks`). Nothing here acts on a pipeline.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.step_notes import StepNotes, UpdateWatch
from recovery.models import Step
from recovery.pipelines.events import when
from recovery.workflow import broker

LEASE: Final = timedelta(seconds=60)
"""Longer than a look takes; after it another one may look."""
FIRST: Final = timedelta(seconds=0.5)
LONGEST: Final = timedelta(seconds=10)
OVERDUE: Final = timedelta(seconds=3)
"""So late, the message that should have woken a look was lost."""
GIVEN_UP: Final = timedelta(minutes=10)
"""After so long without an answer it is unknown what became of the update."""


def read_watch(step: Step) -> UpdateWatch:
    """What looks have seen of the update that a step waits for, or waited for."""
    watched = step.notes.watched
    assert watched is not None, "noted when it began to wait"
    return watched


def measure_silence(watched: UpdateWatch, now: datetime) -> timedelta:
    """How long the API has not answered."""
    since = when(watched.silent_since)
    return now - since if since else timedelta()


def begin(step: Step) -> None:
    """The step waits from now on: its worker is free, and a first look follows at once."""
    now = timezone.now()
    _arm(step, UpdateWatch(began=now.isoformat()), FIRST, now)


def lease(step_id: int, fence: int) -> Step | None:
    """The waiting step, for one look. None: it is not due, does not wait, or somebody else looks."""
    now = timezone.now()
    due = Step.objects.filter(pk=step_id, fence=fence, state="running", look_at__lte=now)
    if not due.update(look_at=now + LEASE, heartbeat_at=now):
        return None
    return Step.objects.select_related("recovery__flow__pipeline__workspace", "plan").get(pk=step_id)


def rearm(step: Step, watched: UpdateWatch) -> None:
    """Look again: soon at first, at most every `LONGEST` later."""
    now = timezone.now()
    began = when(watched.began) or now
    soon = min(max((now - began) / 30, FIRST), LONGEST)
    pause = LONGEST if watched.silent_since else soon
    _arm(step, watched, pause, now)


def end(step: Step, watched: UpdateWatch, ended: str) -> None:
    """What it waited for has ended: wake a worker to go on. Were that lost, the next look wakes one again."""
    from recovery.workflow import tasks

    _keep(step, codec.change(watched, ended=ended), timezone.now() + LEASE)
    broker.send_on_commit(tasks.go_on_with_step, step.pk, step.fence)


def take(step_id: int, fence: int, *, worker: str, deadline: datetime) -> Step | None:
    """Make this worker the one that goes on, under the next fence. None: another one did, or it waits no more."""
    now = timezone.now()
    waiting = Step.objects.filter(pk=step_id, fence=fence, state="running", look_at__isnull=False)
    taken = waiting.update(
        fence=F("fence") + 1, look_at=None, worker=worker, heartbeat_at=now, deadline=deadline
    )
    if not taken:
        return None
    return Step.objects.select_related("recovery__flow__pipeline__workspace", "plan").get(pk=step_id)


def wake_overdue() -> None:
    """Give again every message that was lost: looks at steps that wait, and steps whose time to begin has come."""
    from recovery.workflow import tasks

    overdue = Step.objects.filter(look_at__lte=timezone.now() - OVERDUE)
    for pk, fence in overdue.filter(state="running").values_list("pk", "fence"):
        tasks.look_at_step.delay(pk, fence)
    for pk, fence in overdue.filter(state="pending").values_list("pk", "fence"):
        tasks.run_step.delay(pk, fence)


def hurry(recovery_id: int) -> None:
    """A step that waits to begin again is looked at now: somebody wants its run to end."""
    waiting = Step.objects.filter(recovery=recovery_id, state="pending", look_at__isnull=False)
    waiting.update(look_at=timezone.now())


def _arm(step: Step, watched: UpdateWatch, pause: timedelta, now: datetime) -> None:
    from recovery.workflow import tasks

    if _keep(step, watched, now + pause):
        broker.send_later(tasks.look_at_step, pause, step.pk, step.fence)


def _keep(step: Step, watched: UpdateWatch, look_at: datetime) -> bool:
    """False: the step is no longer this one's. What others kept meanwhile stays."""
    with transaction.atomic():
        row = Step.objects.select_for_update().filter(pk=step.pk, fence=step.fence, state="running").first()
        if row is None:
            return False
        result = StepNotes(watched=watched).lay_over(row.result)
        Step.objects.filter(pk=step.pk).update(result=result, look_at=look_at, heartbeat_at=timezone.now())
    step.result, step.look_at = result, look_at
    return True
