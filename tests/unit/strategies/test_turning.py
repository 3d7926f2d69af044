"""What would change the recommendation: the decision table, asked with one thing otherwise."""

import re
from collections.abc import Sequence

import pytest

from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.diagnosis import Advice, Diagnosis
from recovery.contracts.names import CORRECTING, ChangeIntent, Strategy, name_strategy
from recovery.contracts.option import Option
from recovery.strategies.deciding import GROUNDS, OLD_ROWS, RULES, NeededInput
from recovery.strategies.turning import NO_WAY, NONE_FITS, grounds_of, list_changes
from tests import factories as f
from tests.unit.strategies.test_deciding import PAGE, able

ASKS = f.DIAGNOSIS
DAMAGED = Diagnosis(advice=(Advice("Mend it."),))


def turns(
    options: Sequence[Option], diagnosis: Diagnosis = ASKS, meant: ChangeIntent | None = None
) -> dict[str, str | None]:
    return {turn.condition.value: turn.then for turn in list_changes(options, diagnosis, meant)}


ALL = ("continue", "revert", "rebuild", "full-refresh")


@pytest.mark.parametrize(
    ("can", "diagnosis", "meant", "expected"),
    [
        # before the answer: what each answer leads to
        (ALL, ASKS, None, {"meant": "continue", "mistake": "revert", "not-sure": "call-the-owner"}),
        (ALL, ASKS, ChangeIntent.UNKNOWN, {"meant": "continue", "mistake": "revert"}),
        # continue reads nothing again: only unread input, or older rows that must follow, change it
        (ALL, ASKS, ChangeIntent.YES, {
            "mistake": "revert", "not-sure": "call-the-owner", "unread-input-gone": None,
            "old-rows-follow": "full-refresh"}),
        # what was read is gone: neither a replay nor a full refresh is left
        (("rebuild", "full-refresh", "revert"), ASKS, ChangeIntent.YES, {
            "mistake": "revert", "not-sure": "call-the-owner", "read-input-gone": None, "unread-input-gone": None,
            "old-rows-follow": "full-refresh"}),
        (ALL, ASKS, ChangeIntent.NO, {"meant": "continue", "not-sure": "call-the-owner", "unread-input-gone": None}),
        # nobody is asked
        (("repair",), DAMAGED, None, {"unread-input-gone": None}),
        (("full-refresh",), ASKS, ChangeIntent.YES, {
            "mistake": None, "not-sure": "call-the-owner", "read-input-gone": None, "unread-input-gone": None}),
        ((), DAMAGED, None, {}),
    ],
)  # fmt: skip
def test_each_condition_that_leads_elsewhere_is_named(
    can: tuple[str, ...], diagnosis: Diagnosis, meant: ChangeIntent | None, expected: dict[str, str | None]
) -> None:
    assert turns(able(*can), diagnosis, meant) == expected


def test_a_way_with_a_cost_is_named_with_its_cost_where_no_other_is_left() -> None:
    repeats = RowAmount(rows=31, bound=Bound.EXACT)
    options = [
        o.model_copy(update={"forecast": o.forecast.model_copy(update={"doubled": repeats})})
        if o.strategy == "continue"
        else o
        for o in able("continue", "rebuild")
    ]
    found = {t.condition.value: t for t in list_changes(options, ASKS, ChangeIntent.YES)}
    assert found["read-input-gone"].then == "continue"
    assert "31 rows would be in the table twice" in found["read-input-gone"].because
    assert found["unread-input-gone"].because == NO_WAY


@pytest.mark.parametrize("strategy", [rule.strategy for rule in RULES if ChangeIntent.YES in rule.answers])
def test_what_holds_of_a_way_without_a_cost_is_not_said_of_one_with_a_cost(strategy: Strategy) -> None:
    lost = RowAmount(rows=None, bound=Bound.UNKNOWN, why="The state begins empty.")
    options = [
        o.model_copy(update={"forecast": o.forecast.model_copy(update={"lost": lost})})
        for o in able(strategy.value)
    ]
    found = {t.condition.value: t for t in list_changes(options, ASKS, None)}
    assert found["meant"].then == strategy.value
    assert next(r.because for r in RULES if r.strategy is strategy) not in found["meant"].because


def test_why_no_way_is_left_is_the_reason_of_the_first_that_would_be() -> None:
    options = [
        o for o in able("continue") if o.strategy not in CORRECTING
    ]  # no proof found rows missing, or too often
    found = {t.condition.value: t for t in list_changes(options, ASKS, ChangeIntent.YES)}
    assert (found["mistake"].then, found["mistake"].because) == (None, "revert cannot run: …")
    only = [o for o in able("continue") if o.strategy == "continue"]
    without = {t.condition.value: t for t in list_changes(only, ASKS, ChangeIntent.YES)}
    assert without["old-rows-follow"].because == NONE_FITS


def test_every_strategy_that_can_be_recommended_has_its_grounds_and_the_documentation_has_them() -> None:
    text = PAGE.read_text()
    assert {rule.strategy.value for rule in RULES} <= set(GROUNDS)
    assert grounds_of(Strategy.EMPTY) == tuple(NeededInput)
    for rule in RULES:
        grounds, name = grounds_of(rule.strategy), name_strategy(rule.strategy)
        marks = ["yes" if held else "" for held in (*(g in grounds for g in NeededInput), name in OLD_ROWS)]
        row = re.sub(" +", " ", f"| {' | '.join([name, *marks])} |")
        assert row in text, name
