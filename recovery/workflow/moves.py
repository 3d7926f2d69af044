"""Moves a recovery or a step along the transition table: compare-and-set, never `save()`."""

from datetime import datetime
from typing import Any, Final

from django.db.models import F
from django.utils import timezone

from recovery.approvals.moves import settle_request
from recovery.contracts import codec
from recovery.contracts.choices import Halt
from recovery.errors import NotFound, Refused
from recovery.models import Recovery, Step
from recovery.notify.actions import announce_event
from recovery.workflow import guards
from recovery.workflow.doubting import PROVING, keep_doubts_of
from recovery.workflow.transitions import OPEN, RECOVERY, RECOVERY_ARROWS, STEP, guard_of, may_move

ENDED = frozenset(RECOVERY) - OPEN
TOLD = {"needs_attention", "succeeded", "unproven", "rolled_back"}
"""States that people are told about, whoever moves a recovery into them (`recovery.<state>`)."""


def move(recovery: Recovery, new: str, *, says: str = "", **values: Any) -> None:
    """Take a recovery to state `new`, only if nobody moved it since it was read. `says`: why, for what hung on it.

    A request for approval that the move leaves behind is used or void, in the same transaction. Raises Refused when
    the table or the arrow's guard forbids the move, or when someone else was faster.
    """
    if not may_move(RECOVERY, recovery.state, new):
        raise Refused(
            f"{recovery.label} is {state_label(recovery.state)}, so it cannot become {state_label(new)}.",
            code="wrong_state",
        )
    guards.check(guard_of(RECOVERY_ARROWS, recovery.state, new), recovery, values)
    ended = {"ended_at": timezone.now()} if new in ENDED else {}
    changed = Recovery.objects.filter(pk=recovery.pk, version=recovery.version, state=recovery.state).update(
        state=new, version=F("version") + 1, active=new in OPEN, **ended, **values
    )
    if not changed:
        raise Refused(f"Someone else moved {recovery.label} a moment ago. Reload the page.", code="lost_race")
    if recovery.state in PROVING or new in PROVING:
        keep_doubts_of(recovery.pk)
    recovery.refresh_from_db()
    settle_request(recovery, new, says or str(values.get("reason") or ""))
    if new in TOLD:
        announce_event(event=f"recovery.{new}", recovery=recovery, facts={"reason": recovery.reason})


def get(recovery_id: int) -> Recovery:
    """With flow, pipeline and workspace. Raises NotFound."""
    try:
        return Recovery.objects.select_related("flow__pipeline__workspace").get(pk=recovery_id)
    except Recovery.DoesNotExist:
        raise NotFound(f"There is no recovery R-{recovery_id}.") from None


def lock(recovery_id: int) -> Recovery:
    """The row, held until the transaction ends. Whoever changes a recovery and its request takes this lock first, so
    that two of them wait for each other instead of standing in each other's way."""
    Recovery.objects.select_for_update().get(pk=recovery_id)
    return Recovery.objects.select_related("flow__pipeline__workspace").get(pk=recovery_id)


def only_in(recovery: Recovery, *states: str) -> None:
    """Raise Refused, naming the states in which an act is possible, unless the recovery is in one of them."""
    if recovery.state not in states:
        raise Refused(
            f"{recovery.label} is {state_label(recovery.state)}; this can be done only while it is "
            f"{' or '.join(state_label(s) for s in states)}.",
            code="wrong_state",
        )


def halt_of(recovery_id: int) -> Halt:
    """Who asked for the run to end. By no one where it was resumed since."""
    choices = Recovery.objects.values_list("choices", flat=True).get(pk=recovery_id)
    return codec.read(Halt, choices.get("halt") or {})


def held_by(recovery_id: int) -> str:
    """Who stopped the run; empty when no one did, and for a run that is only paused after the step that runs."""
    halt = halt_of(recovery_id)
    return "" if halt.when == "step" else halt.by


STATE_LABELS: Final = {
    "unproven": "ended without proof",
    "needs_attention": "in need of attention",
}
"""States whose name does not follow *is*."""


def state_label(state: str) -> str:
    """A state as people say it."""
    return STATE_LABELS.get(state, state.replace("_", " "))


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
        look_at=None,
        problem="",
        problem_code="",
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
    values.setdefault("look_at", None)
    if new in ("done", "failed", "skipped"):
        values.setdefault("ended_at", timezone.now())
    changed = Step.objects.filter(pk=step.pk, state=step.state, fence=step.fence).update(state=new, **values)
    if changed:
        step.refresh_from_db()
    return bool(changed)
