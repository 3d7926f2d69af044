"""Moves a recovery or a step along the transition table: compare-and-set, never `save()`."""

from datetime import datetime
from typing import Any

from django.db.models import F
from django.utils import timezone

from recovery.errors import Refused
from recovery.models import Recovery, Step
from recovery.notify.actions import announce
from recovery.workflow.transitions import OPEN, RECOVERY, STEP, may_move

ENDED = frozenset(RECOVERY) - OPEN
TOLD = {"needs_attention", "succeeded", "rolled_back"}
"""States that people are told about, whoever moves a recovery into them (`recovery.<state>`)."""


def move(recovery: Recovery, new: str, **values: Any) -> None:
    """Take a recovery to state `new`, only if nobody moved it since it was read.

    Raises Refused when the table forbids the move, or when someone else was faster.
    """
    if not may_move(RECOVERY, recovery.state, new):
        raise Refused(
            f"{recovery.label} is {words(recovery.state)}, so it cannot become {words(new)}.",
            code="wrong_state",
        )
    ended = {"ended_at": timezone.now()} if new in ENDED else {}
    changed = Recovery.objects.filter(pk=recovery.pk, version=recovery.version, state=recovery.state).update(
        state=new, version=F("version") + 1, active=new in OPEN, **ended, **values
    )
    if not changed:
        raise Refused(
            f"Somebody else moved {recovery.label} a moment ago. Reload the page.", code="lost_race"
        )
    recovery.refresh_from_db()
    if new in TOLD:
        announce(event=f"recovery.{new}", recovery=recovery, facts={"reason": recovery.reason})


def held_by(recovery_id: int) -> str:
    """Who asked for the run to be stopped; empty when nobody did, or when it was resumed since."""
    choices = Recovery.objects.values_list("choices", flat=True).get(pk=recovery_id)
    return str((choices.get("halt") or {}).get("by") or "")


def words(state: str) -> str:
    """A state as people say it."""
    return state.replace("_", " ")


def claim(step_id: int, fence: int, *, worker: str, deadline: datetime) -> Step | None:
    """Make this worker the step's only one: pending -> running under the next fence.

    None: another worker has it, or the wake-up is an old one.
    """
    now = timezone.now()
    changed = Step.objects.filter(pk=step_id, state="pending", fence=fence).update(
        state="running",
        fence=F("fence") + 1,
        attempt=F("attempt") + 1,
        worker=worker,
        heartbeat_at=now,
        started_at=now,
        ended_at=None,
        deadline=deadline,
        problem="",
        evidence=[],
    )
    return (
        Step.objects.select_related("recovery__flow__pipeline__workspace", "plan").get(pk=step_id)
        if changed
        else None
    )


def step_to(step: Step, new: str, **values: Any) -> bool:
    """Compare-and-set on (state, fence). False: the step is no longer ours to move."""
    if not may_move(STEP, step.state, new):
        raise Refused(f"Step {step.kind} is {step.state}, so it cannot become {new}.", code="wrong_state")
    if new in ("done", "failed", "skipped"):
        values.setdefault("ended_at", timezone.now())
    changed = Step.objects.filter(pk=step.pk, state=step.state, fence=step.fence).update(state=new, **values)
    if changed:
        step.refresh_from_db()
    return bool(changed)
