"""A plan says what the code that runs after it asked for in vain."""

from dataclasses import replace

import pytest

from recovery.checkpoints.report import Severity
from recovery.contracts.measured import NOTHING_ABSENT, AbsentInputs
from recovery.contracts.names import Strategy
from recovery.strategies.base import Facts
from recovery.strategies.defaults import list_defaults_taken
from tests.unit.strategies.facts import facts
from tests.unit.strategies.streams import options

RATE = AbsentInputs(variables=("RATE",))


def given(
    *, new: AbsentInputs = NOTHING_ABSENT, old: AbsentInputs = NOTHING_ABSENT, is_plain: bool = False
) -> Facts:
    """The facts with what either code asks for in vain."""
    plain = facts(is_plain=is_plain)
    assert plain.old_code is not None
    old_code, new_code = replace(plain.old_code, absent=old), replace(plain.new_code, absent=new)
    return replace(plain, old_code=old_code, new_code=new_code)


@pytest.mark.parametrize(
    ("absent", "is_plain", "ways"),
    [
        (RATE, True, ["env NAME=VALUE"]),
        (RATE, False, ["spark_env_vars"]),
        (AbsentInputs(files=("rates.json",)), True, ["--argument FILE"]),
        (AbsentInputs(settings=("spark.a",)), True, ["--conf NAME=VALUE"]),
        (AbsentInputs(("A",), ("spark.a",)), False, ["spark_env_vars", "configuration"]),
    ],
)
def test_each_name_and_where_to_give_it(absent: AbsentInputs, is_plain: bool, ways: list[str]) -> None:
    (finding,) = list_defaults_taken(given(new=absent, is_plain=is_plain), Strategy.CONTINUE)
    assert (finding.code, finding.severity) == ("DEFAULTS_TAKEN", Severity.WARNING)
    assert all(name in finding.says for name in absent.names)
    assert all(way in finding.do for way in ways)


def test_each_strategy_names_what_its_own_code_asks_for() -> None:
    for held, of_revert in ((given(new=RATE), False), (given(old=RATE), True)):
        for strategy, option in options(held).items():
            is_named = "DEFAULTS_TAKEN" in [finding.code for finding in option.findings]
            assert is_named is (of_revert is (strategy == "revert")), strategy


def test_code_that_asks_for_nothing_has_no_finding() -> None:
    assert list(list_defaults_taken(facts(), Strategy.CONTINUE)) == []
