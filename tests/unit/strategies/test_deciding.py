"""The decision table, row by row: what is recommended, what comes next, and that the documentation says the same."""

from pathlib import Path

import pytest

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.names import ChangeIntent, Strategy, name_strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.strategies.catalogue import EXECUTABLE, judge_all
from recovery.strategies.deciding import NOT_ASKED, RULES, decide
from tests.unit.strategies.facts import facts

ONE = next(o for o in judge_all(facts()) if o.strategy == "continue")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "strategies.md"


def able(*names: str) -> list[Option]:
    """All of them could run at no cost, but those that are not named; each with the finding that its row asks for."""
    blocker = Blocker(code=BlockerCode.SEED_REFUSED, says="…")
    asked = {rule.strategy: (Finding(rule.found, Severity.INFO, "", ""),) for rule in RULES if rule.found}
    return [
        ONE.model_copy(
            update={
                "strategy": s,
                "blocker": None if s in names else blocker,
                "findings": asked.get(s, ONE.findings),
            }
        )
        for s in Strategy
    ]


def test_a_row_that_asks_for_a_finding_does_not_count_without_it() -> None:
    asked = {rule.strategy for rule in RULES if rule.found}
    assert asked == {Strategy.TOP_UP, Strategy.DEDUPLICATE}
    without = [o.model_copy(update={"findings": ()}) for o in able(*Strategy)]
    assert decide(without, NOT_ASKED).strategy == "repair"
    assert decide(able(*Strategy), NOT_ASKED).strategy == "top-up"


@pytest.mark.parametrize("number", range(1, len(RULES) + 1))
def test_each_row_counts_where_no_row_before_it_does(number: int) -> None:
    rule = RULES[number - 1]
    later = [r.strategy for r in RULES[number - 1 :]]
    for answer in rule.answers:
        found = decide(able(*later), answer)
        following = [r.strategy for r in RULES[number:] if answer in r.answers]
        assert (found.rule, found.strategy, found.because) == (number, rule.strategy, rule.because)
        assert found.runner_up == (following[0] if following else "")
    for answer in {NOT_ASKED, *ChangeIntent} - set(rule.answers):
        assert decide(able(rule.strategy), answer).strategy == ""


def test_where_nobody_knows_whether_it_was_meant_nothing_is_recommended() -> None:
    assert decide(able(*Strategy), ChangeIntent.UNKNOWN).strategy == ""


def test_a_strategy_that_has_a_cost_is_neither_recommended_nor_next() -> None:
    lost = RowAmount(rows=1, bound=Bound.EXACT)
    costly = ONE.model_copy(update={"forecast": ONE.forecast.model_copy(update={"lost": lost})})
    assert decide([costly], NOT_ASKED).strategy == ""


def test_repeats_that_are_known_exactly_come_before_those_that_have_a_bound() -> None:
    most = ONE.forecast.model_copy(update={"doubled": RowAmount(rows=0, bound=Bound.AT_MOST)})
    options = [
        o.model_copy(update={"forecast": most}) if o.strategy in ("continue", "top-up", "deduplicate") else o
        for o in able(*Strategy)
    ]
    found = decide(options, ChangeIntent.YES)
    assert (found.strategy, found.runner_up) == ("rebuild", "prime")


def test_the_documentation_has_each_row_and_each_strategy_that_can_run_has_one() -> None:
    text = PAGE.read_text()
    for number, rule in enumerate(RULES, 1):
        marks = [
            "yes" if answer in rule.answers else ""
            for answer in (NOT_ASKED, ChangeIntent.YES, ChangeIntent.NO)
        ]
        cells = " | ".join([str(number), name_strategy(rule.strategy), *marks, rule.because])
        assert f"| {cells} |".replace("|  |", "| |").replace("|  |", "| |") in text
    never = {
        Strategy.EMPTY,
        Strategy.REPLAY,
    }  # the one loses or repeats rows; which rows are wrong, a person knows
    assert {r.strategy for r in RULES} == set(EXECUTABLE) - never
