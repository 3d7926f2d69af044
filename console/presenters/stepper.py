"""The eight steps of a recovery: which are done, what was chosen in each, which one is current. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.urls import reverse

from console.presenters import words
from console.presenters.verifying import proven_with
from recovery.contracts.choices import Choices
from recovery.contracts.names import BEGINNING_AGAIN, name_strategy
from recovery.models import Plan, Recovery, Step

NAMES: Final = (
    ("diagnose", "Diagnose"),
    ("stop", "Stop"),
    ("offset", "Start offset"),
    ("patch", "Patch code"),
    ("review", "Review"),
    ("seed", "Reset flow"),
    ("rerun", "Rerun"),
    ("verify", "Verify"),
)
RAN: Final = ("running", "verifying", "succeeded", "unproven", "failed", "needs_attention", "rolled_back")


@dataclass(frozen=True)
class StepperPlace:
    """One of the eight. `href` is empty where one cannot go yet."""

    number: int
    slug: str
    name: str
    done: bool
    current: bool
    note: str
    href: str


@dataclass(frozen=True)
class Stepper:
    steps: Sequence[StepperPlace]

    @property
    def _current_index(self) -> int:
        return next((i for i, s in enumerate(self.steps) if s.current), 0)

    @property
    def number(self) -> int:
        return self._current_index + 1

    @property
    def name(self) -> str:
        return self.steps[self._current_index].name

    @property
    def next(self) -> str:
        return self.steps[self._current_index + 1].name if self._current_index + 1 < len(self.steps) else ""


def early_stop(steps: Sequence[Step]) -> Step | None:
    """The newest stop before any plan."""
    return next((s for s in reversed(steps) if s.kind == "stop" and s.plan_id is None), None)


def of_plan(steps: Sequence[Step], kind: str, plan: Plan | None) -> Step | None:
    """The newest step of this kind under the plan in force."""
    if plan is None:
        return None
    return next((s for s in reversed(steps) if s.kind == kind and s.plan_id == plan.pk), None)


def has_begun(recovery: Recovery, steps: Sequence[Step], plan: Plan | None) -> bool:
    """Did the plan in force start?"""
    return recovery.state in RAN or any(
        s.plan_id and plan is not None and s.plan_id == plan.pk and s.state not in ("pending", "skipped")
        for s in steps
    )


def current_slug(recovery: Recovery, steps: Sequence[Step], plan: Plan | None) -> str:
    """The slug of the page on which this recovery goes on: what `/recoveries/<id>` leads to."""
    if recovery.state in ("running", "rolled_back", "failed"):
        return "run"
    if recovery.state in ("verifying", "succeeded", "unproven"):
        return "verify"
    if recovery.state == "needs_attention":
        stuck = any(s.plan_id and s.state in ("failed", "unknown", "running", "pending") for s in steps)
        return "verify" if recovery.measured and not stuck else "run"
    if plan is not None:
        return "review"
    stop = early_stop(steps)
    if recovery.state == "cancelled" or stop is None:
        return "diagnose"
    if stop.state != "done":
        return "stop"
    if not recovery.chosen.strategy:
        return "offset"
    voided = any(s.plan_id for s in steps)
    return "review" if voided or recovery.chosen.patch is not None else "patch"


def build_stepper(
    recovery: Recovery, steps: Sequence[Step], plan: Plan | None, here: str, now: datetime
) -> Stepper:
    """`here` is the slug of the page shown."""
    done = _done_steps(recovery, steps, plan)
    notes = _step_notes(recovery, steps, plan, now)
    ran = has_begun(recovery, steps, plan)
    if here == "rerun" and of_plan(steps, "seed", plan) is not None and not done["seed"]:
        here = "seed"  # the run page covers both
    places = []
    for number, (slug, name) in enumerate(NAMES, start=1):
        earlier = all(done[s] for s, _ in NAMES[: number - 1]) if number <= 5 else False
        open_ = slug in ("diagnose", "stop") or done[slug] or earlier
        if number > 5:
            open_ = ran
        note = "now" if slug == here and not notes[slug] else notes[slug]
        places.append(
            StepperPlace(
                number,
                slug,
                name,
                done[slug],
                slug == here,
                note,
                _step_href(recovery, slug) if open_ else "",
            )
        )
    return Stepper(places)


def _step_href(recovery: Recovery, slug: str) -> str:
    page = "run" if slug in ("seed", "rerun") else slug
    return reverse(page, args=[recovery.pk])


def _done_steps(recovery: Recovery, steps: Sequence[Step], plan: Plan | None) -> dict[str, bool]:
    stop = early_stop(steps)
    ran = has_begun(recovery, steps, plan)
    chosen = bool(recovery.chosen.strategy)
    rerun = of_plan(steps, _kind_of_rerun(plan), plan)
    seed = of_plan(steps, "seed", plan)
    rerun_done = rerun is not None and rerun.state == "done"
    return {
        "diagnose": True,
        "stop": (stop is not None and stop.state == "done") or plan is not None,
        "offset": chosen or plan is not None,
        "patch": recovery.chosen.patch is not None or plan is not None,
        "review": ran,
        "seed": seed.state == "done" if seed is not None else rerun_done,
        "rerun": rerun_done,
        "verify": recovery.state == "succeeded",
    }


def _kind_of_rerun(plan: Plan | None) -> str:
    """The step that changes the rows of the table: the update, or what a plan does to them that starts none."""
    return "rerun" if plan is None else str(plan.contents.changing_step)


def _step_notes(
    recovery: Recovery, steps: Sequence[Step], plan: Plan | None, now: datetime
) -> dict[str, str]:
    stop = early_stop(steps)
    return {
        "diagnose": words.format_clock(recovery.created_at, now, zone=False)[-8:],
        "stop": _duration_note(stop),
        "offset": _strategy_note(recovery.chosen),
        "patch": _patch_note(recovery, plan),
        "review": f"sealed {plan.hash[:8]}" if plan is not None else "",
        "seed": _seed_note(steps, plan),
        "rerun": _duration_note(of_plan(steps, _kind_of_rerun(plan), plan)),
        "verify": _verify_note(recovery),
    }


def _strategy_note(chosen: Choices) -> str:
    """The strategy, and how many sources start elsewhere than where they were committed."""
    moved = len(chosen.positions)
    return name_strategy(chosen.strategy or "") + (
        f", {words.format_count(moved, 'start')} moved" if moved else ""
    )


def _duration_note(step: Step | None) -> str:
    if step is None or step.state in ("pending", "skipped"):
        return ""
    if step.state == "done" and step.started_at and step.ended_at:
        return words.format_duration((step.ended_at - step.started_at).total_seconds())
    return {"running": "running", "failed": "failed", "unknown": "unknown", "done": "done"}.get(
        step.state, ""
    )


def _seed_note(steps: Sequence[Step], plan: Plan | None) -> str:
    if plan is None:
        return ""
    if of_plan(steps, "seed", plan) is None:
        return "by the rerun" if plan.contents.strategy in BEGINNING_AGAIN else "not needed"
    return _duration_note(of_plan(steps, "seed", plan))


def _patch_note(recovery: Recovery, plan: Plan | None) -> str:
    changed = plan.contents.patch if plan is not None else recovery.chosen.patch
    if changed is None:
        return ""
    return words.format_count(len(changed), "file") if changed else "no change"


def _verify_note(recovery: Recovery) -> str:
    if recovery.state == "succeeded":
        return proven_with(recovery.proof) or "proven"
    if recovery.state == "unproven":
        return "skipped"
    if recovery.state == "verifying":
        return "running"
    return "not proven" if recovery.proof and not recovery.proof.verified else ""
