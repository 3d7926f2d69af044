"""What releases of before have sealed is read as today's values, and keeps its seal to the byte."""

from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.forecast import Forecast
from recovery.contracts.option import Option
from recovery.contracts.start_choice import StartChoice
from recovery.models import Plan
from tests import factories as f
from tests.unit.contracts import kept

SEALED = [*kept.plans()]


def test_the_kept_releases_have_sealed_plans_and_gathered_options() -> None:
    assert len(SEALED) == 2
    assert len([*kept.options()]) >= len(SEALED)


@pytest.mark.parametrize(("seal", "body"), SEALED)
def test_a_sealed_plan_goes_through_the_value_to_the_same_bytes_but_for_what_no_reader_knows(
    seal: str, body: dict[str, Any]
) -> None:
    written = codec.to_read_json(codec.read_plan(body))
    dropped = {key: body[key] for key in ("seal_number", "processed_files")}
    for finding in written["findings"]:
        del finding["outcome"]  # findings had none
    assert codec.seal({**written, **dropped}) == seal


@pytest.mark.parametrize(
    "wish",
    [
        {"latest": True},
        {"earliest": True, "parts": {"orders-0": None, "orders-1": {"at_ms": 5}}},
        {"version": 0},
        {"file": "file:///in/1.json"},
        {"by_hand": '{"orders":{"0":3}}'},
    ],
    ids=["a word", "parts", "a version", "a file", "by hand"],
)
def test_a_chosen_start_keeps_the_bytes_that_it_was_sealed_with(wish: dict[str, Any]) -> None:
    _, body = SEALED[0]
    read = codec.read_plan({**body, "wishes": {"0": wish}})
    assert read.wishes == {"0": StartChoice(**wish)}
    for write in (codec.to_read_json, codec.to_json):
        assert codec.canonical_json(write(read)["wishes"]) == codec.canonical_json({"0": wish})


@pytest.mark.django_db
@pytest.mark.parametrize(
    "made", [f.planned, f.losing, f.verified_below], ids=["a plan", "one that loses", "below"]
)
def test_a_plan_of_today_keeps_its_bytes(made: Any) -> None:
    made()
    plan = Plan.objects.get()
    assert plan.contents.is_runnable


def test_a_forecast_that_was_sealed_before_bounds_says_what_its_numbers_are() -> None:
    for _, body in SEALED:
        forecast = codec.read(Forecast, body["forecast"])
        assert {forecast.lost.bound, forecast.doubled.bound, forecast.reread.bound} == {Bound.EXACT}
        assert forecast.downstream == ()


def test_options_that_a_release_of_before_gathered_are_still_read() -> None:
    found = [codec.read(Option, one) for one in kept.options()]
    assert {o.strategy for o in found} >= {"continue", "full-refresh"}
    assert {o.undoable for o in found if o.strategy == "full-refresh"} == {False}
