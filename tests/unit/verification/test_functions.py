"""A function of foreachBatch may filter, split or upsert: what differs by that is no loss, and repeats stay repeats."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts.amounts import Bound
from recovery.spark.api import Measure, RowValues, WholeComparison
from recovery.verification.evidence import Evidence, OldFiles, WholeFlow
from recovery.verification.judge import judge
from recovery.verification.outcome import outcome_of
from tests.factories.judged import forecast_of
from tests.unit.verification.world import World

WHOLE = WholeComparison(absent=0)
NONE = {"rows": 0, "bound": "exact"}


def evidence_of(
    world: World, *, by_function: bool = True, touched: tuple[str, ...] = (), **measured: Any
) -> Evidence:
    found = world.evidence(by_function=by_function, old_files=OldFiles(files=3, touched=touched))
    assert found.measure is not None
    return replace(found, measure=replace(found.measure, **measured), whole_flow=WholeFlow(files=5))


def verdicts(world: World, evidence: Evidence) -> dict[str, bool | None]:
    criteria = world.criteria(NO_KEY_TWICE={"key": world.key, "accepted": NONE})
    return {c.code: c.ok for c in judge(world.strategy, criteria, evidence).criteria}


KEYED = World(key=["id"], old_rows=["a"], expected=["b", "c"])
UPSERT = World(key=["id"], old_rows=["a", "x"], expected=["b", "x"], written=["b"])
FILTERS = World(key=["id"], old_rows=["a"], expected=["b", "c"], written=["b"])
REPEATS = World(key=["id"], old_rows=["a"], expected=["b", "c"], written=["b", "c", "c"])
ROWS = ("TABLE_GREW_BY_NEW_BATCHES", "EVERY_ROW_ONCE", "COUNTS_EQUAL_FORECAST", "ROWS_OF_BEFORE_UNTOUCHED")


@pytest.mark.parametrize(
    ("world", "measured", "open_criteria"),
    [
        (KEYED, {}, ()),
        (FILTERS, {}, ("EVERY_ROW_ONCE", "COUNTS_EQUAL_FORECAST")),
        (KEYED, {"vanished": 1}, ("TABLE_GREW_BY_NEW_BATCHES", "ROWS_OF_BEFORE_UNTOUCHED")),
        (KEYED, {"touched": ("p0",)}, ("ROWS_OF_BEFORE_UNTOUCHED",)),
        (KEYED, {"values": RowValues(0)}, ()),
        (KEYED, {"values": RowValues(2, ("cents",))}, ("EVERY_ROW_ONCE",)),
    ],
    ids=[
        "as the code yields",
        "it filters",
        "it updates rows",
        "it rewrites files",
        "it keeps values",
        "it changes values",
    ],
)
def test_what_a_function_may_have_made_is_not_known_and_wrong_elsewhere(
    world: World, measured: dict[str, Any], open_criteria: tuple[str, ...]
) -> None:
    found = verdicts(world, evidence_of(world, **measured))
    assert {code for code in ROWS if found[code] is None} == set(open_criteria)
    assert False not in found.values()
    plain = verdicts(world, evidence_of(world, by_function=False, **measured))
    assert {code for code in ROWS if plain[code] is False} == set(open_criteria)


def test_a_key_alone_proves_no_rows_that_a_function_writes() -> None:
    unseen = {"values": RowValues()}
    assert verdicts(KEYED, evidence_of(KEYED, **unseen))["EVERY_ROW_ONCE"] is None
    assert verdicts(KEYED, evidence_of(KEYED, by_function=False, **unseen))["EVERY_ROW_ONCE"] is True


def test_repeats_are_no_work_of_a_function() -> None:
    found = verdicts(REPEATS, evidence_of(REPEATS))
    assert [code for code, ok in found.items() if ok is False] == [
        "EVERY_ROW_ONCE",
        "NO_KEY_TWICE",
        "COUNTS_EQUAL_FORECAST",
    ]


@pytest.mark.parametrize(
    ("world", "measured", "lost"),
    [
        (KEYED, {"whole": WHOLE}, (0, Bound.EXACT)),
        (KEYED, {"vanished": 1, "whole": WHOLE}, (0, Bound.EXACT)),
        (FILTERS, {"whole": replace(WHOLE, absent=1)}, (1, Bound.AT_MOST)),
        (FILTERS, {"whole": None}, (None, Bound.UNKNOWN)),
        (FILTERS, {"whole": WHOLE, "key": ()}, (None, Bound.UNKNOWN)),
    ],
)
def test_what_is_lost_at_a_function_is_counted_by_keys(
    world: World, measured: dict[str, Any], lost: tuple[int | None, Bound]
) -> None:
    forecast = forecast_of(lost={"rows": 0, "bound": "exact"}, doubled={"rows": 0, "bound": "exact"})
    found = outcome_of(forecast, world.criteria(), evidence_of(world, **measured))
    assert (found.lost, found.lost_bound) == lost


def test_rows_that_a_table_lacks_are_lost_where_spark_writes_it() -> None:
    forecast = forecast_of(lost={"rows": 0, "bound": "exact"}, doubled={"rows": 0, "bound": "exact"})
    found = outcome_of(forecast, FILTERS.criteria(), evidence_of(FILTERS, by_function=False, whole=WHOLE))
    assert (found.lost, found.lost_bound) == (1, Bound.EXACT)


def test_an_unmeasured_table_is_no_work_of_a_function() -> None:
    found = verdicts(UPSERT, replace(evidence_of(UPSERT), measure=Measure(problem="away")))
    assert found["EVERY_ROW_ONCE"] is None
