"""What releases of before have sealed is read as today's values, and keeps its seal to the byte."""

from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.criteria import Criterion
from recovery.contracts.forecast import Forecast
from recovery.contracts.option import stored_options
from recovery.contracts.steps import PlannedStep
from recovery.models import Plan
from tests import factories as f
from tests.unit.contracts import kept

SEALED = [*kept.plans()]


def through_values(body: dict[str, Any]) -> dict[str, Any]:
    """The body with every part that has a type read as a value and written back."""
    return {
        **body,
        "forecast": codec.to_read_json(codec.read(Forecast, body["forecast"])),
        "steps": [codec.to_read_json(codec.read(PlannedStep, one)) for one in body["steps"]],
        "criteria": [codec.to_read_json(codec.read(Criterion, one)) for one in body["criteria"]],
    }


def test_the_kept_releases_have_sealed_plans_and_gathered_options() -> None:
    assert len(SEALED) == 2
    assert len([*kept.options()]) >= len(SEALED)


@pytest.mark.parametrize(("seal", "body"), SEALED)
def test_a_sealed_plan_goes_through_the_values_to_the_same_bytes(seal: str, body: dict[str, Any]) -> None:
    assert codec.canonical_json(through_values(body)) == codec.canonical_json(body)
    assert codec.seal(through_values(body)) == seal


@pytest.mark.django_db
@pytest.mark.parametrize(
    "made", [f.planned, f.losing, f.verified_below], ids=["a plan", "one that loses", "below"]
)
def test_a_plan_of_today_does_too(made: Any) -> None:
    made()
    body = Plan.objects.get().body
    assert codec.canonical_json(through_values(body)) == codec.canonical_json(body)


def test_a_forecast_that_was_sealed_before_bounds_says_what_its_numbers_are() -> None:
    for _, body in SEALED:
        forecast = codec.read(Forecast, body["forecast"])
        assert {forecast.lost.bound, forecast.doubled.bound, forecast.reread.bound} == {Bound.EXACT}
        assert forecast.downstream == ()


def test_options_that_a_release_of_before_gathered_are_still_read() -> None:
    found = stored_options({"options": [*kept.options()]})
    assert {o.strategy for o in found} >= {"continue", "full-refresh"}
    assert {o.undoable for o in found if o.strategy == "full-refresh"} == {False}
