"""Where a recovery goes on: its one address leads there, and the stepper says what was chosen."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from console.presenters import stepper
from recovery.models import Recovery, Step
from recovery.workflow.selectors import plan_of
from tests import factories as f

pytestmark = pytest.mark.django_db

Make = Callable[[], Recovery]


def stopping() -> Recovery:
    made = f.opened()
    f.step(made, "stop", "running")
    return made


PLACES: dict[str, tuple[Make, str]] = {
    "just opened": (f.opened, "diagnose"),
    "being stopped": (stopping, "stop"),
    "stopped": (f.at_offset, "offset"),
    "strategy chosen": (f.at_patch, "patch"),
    "code kept": (f.at_review, "review"),
    "sealed": (f.planned, "review"),
    "void": (f.void, "review"),
    "running": (f.running, "run"),
    "unknown": (f.unknown, "run"),
    "a step failed": (f.failed_step, "run"),
    "proven": (f.verified, "verify"),
    "not proven": (f.not_proven, "verify"),
    "rolled back": (f.rolled_back, "run"),
    "cancelled": (f.cancelled, "diagnose"),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_address_of_a_recovery_leads_to_where_it_stands(responder: Client, name: str) -> None:
    make, page = PLACES[name]
    recovery = make()

    for address in (
        f"/recoveries/{recovery.pk}",
        f"/recoveries/R-{recovery.pk}",
        f"/recoveries/r-{recovery.pk}",
    ):
        answer = responder.get(address)
        assert answer.status_code == 302
        assert answer["Location"] == f"/recoveries/{recovery.pk}/{page}"


def built(recovery: Recovery, here: str) -> stepper.Stepper:
    steps = list(Step.objects.filter(recovery=recovery).order_by("ordinal"))
    return stepper.build_stepper(recovery, steps, plan_of(recovery), here, timezone.now())


def test_a_step_that_cannot_be_reached_yet_has_no_link() -> None:
    places = {s.slug: s for s in built(f.opened(), "diagnose").steps}

    assert places["stop"].href
    assert [s for s in ("offset", "patch", "review", "seed", "rerun", "verify") if places[s].href] == []


def test_done_steps_say_what_was_chosen() -> None:
    notes = {s.slug: s.note for s in built(f.running(), "rerun").steps if s.done}

    assert notes["stop"] == "1.8 s"
    assert notes["offset"] == "continue"
    assert notes["patch"] == "no change"
    assert notes["review"].startswith("sealed ")
    assert notes["seed"] == "0.4 s"


@pytest.mark.parametrize(
    ("strategy", "said"),
    [("revert", "not needed"), ("full-refresh", "by the rerun"), ("empty", "by the rerun")],
)
def test_a_strategy_without_a_seed_says_how_the_reset_is_done(strategy: str, said: str) -> None:
    places = {s.slug: s for s in built(f.planned(strategy=strategy), "review").steps}

    assert places["seed"].note == said


def test_the_short_form_names_this_step_and_the_next() -> None:
    short = built(f.at_patch(), "patch")

    assert (short.number, short.name, short.next) == (4, "Patch code", "Review")


def test_nothing_of_a_void_plan_counts_as_done() -> None:
    places = {s.slug: s for s in built(f.void(), "review").steps}

    assert not places["review"].done
    assert not places["seed"].done
    assert not places["rerun"].href
