"""When the matrix calls a forecast equal to its outcome, and when it does not."""

from dataclasses import replace

import pytest

from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.strategies.catalogue import judge_all
from tests.factories.judged import forecast_of
from tests.matrix.acting import Outcome
from tests.matrix.cells import compared
from tests.unit.strategies.facts import facts


def amount(rows: int | None, *, exact: bool = True) -> RowAmount:
    return RowAmount(rows=rows, bound=Bound.ESTIMATE.unless(exact and rows is not None))


TOLD = forecast_of(lost=amount(0), doubled=amount(2), reread=amount(3), new_rows=7, table_after=19)
CAME = Outcome(lost=0, doubled=2, new_rows=7, table_after=19, reread=3)
CASES = [
    ("all numbers are those that came", TOLD, CAME, "equal"),
    ("a row is lost that was not forecast", TOLD, replace(CAME, lost=1), "differs"),
    ("the table has other rows", TOLD, replace(CAME, table_after=18), "differs"),
    ("fewer than at most", TOLD.model_copy(update={"doubled": amount(5, exact=False)}), CAME, "bounded"),
    ("more than at most", TOLD.model_copy(update={"doubled": amount(1, exact=False)}), CAME, "differs"),
    ("it was not told", TOLD.model_copy(update={"lost": amount(None)}), CAME, "untold"),
    (
        "not told, and another number is wrong",
        TOLD.model_copy(update={"lost": amount(None)}),
        replace(CAME, doubled=0),
        "differs",
    ),
    ("what cannot be measured is not compared", TOLD, replace(CAME, reread=None), "equal"),
]


@pytest.mark.parametrize(("told", "came", "verdict"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_forecast_is_held_to_its_outcome(told: Forecast, came: Outcome, verdict: str) -> None:
    option = judge_all(facts())[0].model_copy(update={"forecast": told})
    assert compared(option, came).verdict == verdict
