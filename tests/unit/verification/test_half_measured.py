"""What was measured in part is never taken for a whole measurement, whatever the other numbers say."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts.amounts import Bound
from recovery.contracts.criterion_values import ExpectedDatasets
from recovery.contracts.measured import Measured, NotWholeReason
from recovery.spark.api import BoundedBy, BudgetBound, Measure, WholeComparison
from recovery.verification.below import downstream_agrees
from recovery.verification.evidence import FurtherUpdate, WholeFlow
from recovery.verification.judge import judge
from recovery.verification.outcome import compared_whole, outcome_of
from recovery.verification.words import FlowCode, headline, whole_findings
from tests.factories.judged import forecast_of
from tests.unit.verification.test_below import after_refresh, changed
from tests.unit.verification.test_topics import SENT, SINK
from tests.unit.verification.world import World


def judged(code: str, world: World | None = None, **changes: Any) -> bool | None:
    world = world or World()
    verdict = judge(world.strategy, world.criteria(), replace(world.evidence(), **changes))
    return next(c.ok for c in verdict.criteria if c.code == code)


def test_a_comparison_without_the_numbers_that_it_compared_proves_no_row() -> None:
    measure = replace(World().evidence().measure, expected_rows=None, new_rows=None)  # type: ignore[type-var]
    assert judged("EVERY_ROW_ONCE", measure=measure) is None


@pytest.mark.parametrize("ok", [True, None])
def test_records_are_not_called_single_where_it_was_not_counted_how_often_they_are_there(
    ok: bool | None,
) -> None:
    measure = SENT if ok else replace(SENT, repeated=None)
    changes = {"sink_before": SINK, "sink_after": SINK, "measured_files": (), "measure": measure}
    assert judged("EVERY_ROW_ONCE", **changes) is ok
    found = outcome_of(forecast_of(), [], replace(World().evidence(), **changes))
    assert (found.doubled, found.doubled_bound) == ((0, Bound.EXACT) if ok else (None, Bound.UNKNOWN))


def test_an_update_that_adds_nothing_while_input_arrives_proves_nothing() -> None:
    """It may have begun before that input, or its sink may have passed it over."""
    quiet = FurtherUpdate("COMPLETED", 7, 7, ("f",), ("f",))
    assert judged("FURTHER_UPDATE_ADDS_NOTHING", further=quiet) is True
    assert judged("FURTHER_UPDATE_ADDS_NOTHING", further=replace(quiet, arrived=("/in/9.json",))) is None


@pytest.mark.parametrize(
    "numbers",
    [{"rows": None}, {"expected_rows": None}, {"rows": 8}, {"rows": None, "expected_rows": None}],
    ids=str,
)
def test_a_dataset_below_agrees_only_by_numbers_that_are_there_and_equal(numbers: dict[str, Any]) -> None:
    well = after_refresh("c.s.v", compared=True, rows=9, expected_rows=9, missing=0, extra=0)
    expected = ExpectedDatasets(datasets=("c.s.v",), compared=("c.s.v",))
    assert downstream_agrees(expected, (well,)).ok is True
    assert downstream_agrees(expected, (changed(well, **numbers),)).ok is None


@pytest.mark.parametrize("absent", ["absent", "doubled", "beyond"])
def test_a_whole_flow_of_which_a_number_is_missing_was_not_compared(absent: str) -> None:
    whole = WholeComparison(5, 5, 5, 5, absent=0, doubled=0, beyond=0)
    flow = WholeFlow(files=2, size=5)
    assert compared_whole(flow, whole).why is None  # type: ignore[union-attr]
    found = compared_whole(flow, replace(whole, **{absent: None}))
    assert found is not None
    assert found.why is NotWholeReason.NOT_COMPARED
    measure = Measure(table_rows=5, missing=0, extra=0, whole=replace(whole, **{absent: None}))
    told = outcome_of(forecast_of(), [], replace(World().evidence(), measure=measure, whole_flow=flow))
    assert [f.code for f in whole_findings(Measured(**dict(told)))] == [FlowCode.NOT_COMPARED]


@pytest.mark.parametrize(
    ("held", "claim"),
    [(0, "in the table once"), (2, "repeat another, as the input does"), (None, "written once")],
)
def test_the_headline_says_once_in_the_table_only_where_the_rows_of_before_were_asked(
    held: int | None, claim: str
) -> None:
    """Without a key no criterion looks for repeats: rows that the input has twice, or had before, are right there."""
    world = World()
    bounded = () if held is not None else (BudgetBound(BoundedBy.LOOKUP, 9, 1),)
    measure = replace(
        world.evidence().measure,  # type: ignore[type-var]
        repeats_added=held, duplicates_explained=held, held_before=held, bounded=bounded,
    )  # fmt: skip
    evidence = replace(world.evidence(), measure=measure)
    verdict = judge(world.strategy, world.criteria(), evidence)
    assert verdict.verified
    told = outcome_of(forecast_of(), world.criteria(), evidence)
    assert claim in headline(Measured(**dict(verdict), **dict(told))).says
