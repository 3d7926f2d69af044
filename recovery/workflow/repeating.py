"""A step begins again by itself where that can do no harm: so many times, each later than the one before, each said.

After a kill no one should have to press a button at night for what only reads, or for an update of which it is proven
that it was not started, or was cut off. What changes something, and may have done so, is never repeated by itself.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from recovery.audit.actions import append_entry
from recovery.models import Recovery, Step
from recovery.people.roles import SYSTEM
from recovery.workflow import broker, joining
from recovery.workflow.moves import step_to

PAUSES: Final = tuple(timedelta(seconds=s) for s in (5, 15, 45, 120, 300))
"""Before each beginning; as many as there are. A Spark that is started again is there within the first three."""
READING: Final = frozenset({"stop", "backup", "table-backup", "fill", "deduplicate", "verify"})
"""Kinds that read, or that may be done twice: stopping what is stopped, keeping a copy, measuring, and what
changes rows of a table whose log lets it happen once: a fill, a deduplicate."""
STARTING: Final = frozenset({"rerun", "refresh"})
"""Kinds that start an update, at most one: each attempt first looks for the one that an earlier attempt started."""


class RepeatReason(StrEnum):
    """Why it begins again."""

    SILENT = "silent"
    NOT_STARTED = "not_started"
    CUT = "cut"
    NO_ANSWER = "no_answer"


SAYS: Final[Mapping[RepeatReason, str]] = {
    RepeatReason.SILENT: "its worker fell silent, and doing it again changes nothing",
    RepeatReason.NOT_STARTED: "it is proven that no update of it was started",
    RepeatReason.CUT: "its update was cut off when what it ran on ended",
    RepeatReason.NO_ANSWER: "something did not answer, and nothing had been changed",
}


@dataclass(frozen=True)
class Repeat:
    """`number` 1 is the first; `at` when it was decided, `due` when it begins: ISO times, UTC."""

    number: int
    why: RepeatReason
    at: str
    due: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, for `Step.repeats`."""
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Repeat":
        """As `as_dict` stored it."""
        return cls(stored["number"], RepeatReason(stored["why"]), stored["at"], stored["due"])


def is_harmless(step: Step, *, acted: bool) -> bool:
    """May it be begun again without anybody's word, once it is known that it does not go on? `acted`: did its last
    attempt come to its first effect?"""
    if step.kind == "rollback":
        return False
    if step.kind in STARTING and not joining.read_update(step).is_reset:
        return True
    return step.kind in READING or not acted


def may_repeat(step: Step) -> bool:
    """Is there a beginning left?"""
    return len(step.repeats) < len(PAUSES)


def _writes_again(step: Step) -> bool:
    """Would the batch that a cut update left open be written a second time? A declared sink (a topic, a function of
    each batch) takes it again; and its update runs the whole pipeline, so the sinks of other flows take theirs."""
    return step.plan is not None and step.plan.contents.sink.is_declared


def next_repeat(step: Step) -> Repeat | None:
    """The beginning that a pending step waits for; None where it waits for none."""
    return Repeat.of(step.repeats[-1]) if step.state == "pending" and step.look_at and step.repeats else None


def repeat(step: Step, why: RepeatReason) -> bool:
    """failed or unknown -> pending, to begin again after a pause. False: it has begun again often enough, or somebody
    else moved it."""
    from recovery.workflow import tasks

    if not may_repeat(step) or (why is RepeatReason.CUT and _writes_again(step)):
        return False
    now, pause = timezone.now(), PAUSES[len(step.repeats)]
    made = Repeat(len(step.repeats) + 1, why, now.isoformat(), (now + pause).isoformat())
    says = f"Begins again by itself in {pause.total_seconds():.0f} s ({made.number} of {len(PAUSES)}): {SAYS[why]}."
    with transaction.atomic():
        row = Step.objects.select_for_update().get(pk=step.pk)
        kept = {
            "repeats": [*row.repeats, made.as_dict()],
            "log": [*row.log, [now.isoformat(), says]],
            "look_at": now + pause,
            "woken_at": None,
            "ended_at": None,
        }
        if not step_to(step, "pending", **kept):
            return False
        recovery = Recovery.objects.get(pk=step.recovery_id)
        if step.plan is not None:
            joining.resume_members(step)
        append_entry(
            action="step.repeat",
            outcome="done",
            by=SYSTEM,
            target_kind="step",
            target=f"{step.kind} #{step.pk}, attempt {step.attempt}",
            recovery=recovery.label,
            says=f"Step {step.kind}: {says[0].lower()}{says[1:]}",
            after=made.as_dict(),
        )
        broker.send_later(tasks.run_step, pause, step.pk, step.fence)
    return True
