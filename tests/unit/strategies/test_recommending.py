"""Diagnosis and comparison recommend the same, and nothing before it is known whether the change was meant."""

from collections.abc import Sequence
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.diagnosis import Advice, Diagnosis
from recovery.contracts.names import ChangeIntent
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.plans.accepted import costs_of
from recovery.strategies.base import Facts
from recovery.strategies.catalogue import JUDGES, judge_all
from recovery.strategies.recommending import may_be_preselected, recommended_strategy
from tests import factories as f
from tests.unit.strategies.facts import facts

ASKS = f.DIAGNOSIS
DAMAGED = Diagnosis(advice=(Advice("Mend it."),))
OPTIONS = judge_all(facts())


def blocked(name: str) -> list[Option]:
    blocker = Blocker(code=BlockerCode.SEED_REFUSED, says="…")
    return [o.model_copy(update={"blocker": blocker}) if o.strategy == name else o for o in OPTIONS]


@pytest.mark.parametrize(
    ("options", "diagnosis", "meant", "strategy"),
    [
        (OPTIONS, ASKS, None, ""),
        (OPTIONS, ASKS, ChangeIntent.UNKNOWN, ""),
        (OPTIONS, ASKS, ChangeIntent.YES, "continue"),
        (OPTIONS, ASKS, ChangeIntent.NO, "revert"),
        (blocked("revert"), ASKS, ChangeIntent.NO, ""),
        (blocked("continue"), ASKS, ChangeIntent.YES, ""),
        (OPTIONS, DAMAGED, None, "continue"),
        (OPTIONS, codec.read(Diagnosis, {"do": ["of a diagnosis of before"]}), None, "continue"),
        ([], ASKS, ChangeIntent.YES, ""),
    ],
)
def test_the_answer_sets_what_is_recommended(
    options: Sequence[Option], diagnosis: Diagnosis, meant: ChangeIntent | None, strategy: str
) -> None:
    assert recommended_strategy(options, diagnosis, meant) == strategy


def repeats(rows: int | None, bound: Bound) -> RowAmount:
    return RowAmount(rows=rows, bound=bound)


@pytest.mark.parametrize(
    ("doubled", "strategy"),
    [
        (repeats(0, Bound.EXACT), "continue"),
        (repeats(0, Bound.AT_MOST), "continue"),
        (repeats(0, Bound.AT_LEAST), ""),
        (repeats(0, Bound.ESTIMATE), ""),
        (repeats(None, Bound.UNKNOWN), ""),
    ],
)
def test_what_has_to_be_accepted_is_never_recommended(
    monkeypatch: pytest.MonkeyPatch, doubled: RowAmount, strategy: str
) -> None:
    judge = JUDGES["continue"]

    def judged(known: Facts) -> Any:
        option = judge(known)
        forecast = option.forecast.model_copy(update={"doubled": doubled})
        return option.model_copy(update={"forecast": forecast})

    monkeypatch.setattr("recovery.strategies.catalogue.JUDGES", {"continue": judged})
    options = judge_all(facts())
    assert bool(costs_of(options[0].forecast)) is (strategy == "")
    assert recommended_strategy(options, DAMAGED, None) == strategy
    assert recommended_strategy(options, ASKS, ChangeIntent.YES) == strategy


def test_what_cannot_be_undone_is_never_preselected() -> None:
    assert {o.strategy for o in OPTIONS if not may_be_preselected(o)} == {"full-refresh", "empty"}
    before = f.judged_option("full-refresh")
    assert not may_be_preselected(before), "as it was stored before options had it"
