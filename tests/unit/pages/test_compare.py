"""Ways out next to each other: what each asks for, with its unit and its bound, and those that do not fit."""

import re
from typing import Any

import pytest

from console.presenters import (
    wizard,
)
from recovery.contracts.option import Option
from recovery.strategies.catalogue import EXECUTABLE
from tests import factories as f


def test_every_question_of_the_comparison_has_an_answer_for_every_strategy() -> None:
    compare = wizard.compare_strategies(f.judged_options(), "", EXECUTABLE, recommended="continue")

    assert [c.strategy for c in compare.columns] == ["continue", "revert", "full-refresh"]
    assert {len(line.cells) for line in compare.lines} == {3}
    answers = {line.question: [cell for _, cell in line.cells] for line in compare.lines}
    assert [c.badge and c.badge.word for c in answers["Can it run?"]] == [
        "Yes",
        "Yes",
        "Yes, with care",
    ]
    assert [(c.big, c.unit, c.bad) for c in answers["Rows doubled"]] == [
        ("0", "rows", False), ("0", "rows", False), ("1", "row", True),
    ]  # fmt: skip
    assert [c.text for c in answers["Takes about"]] == ["7 s", "6 s", "9 s"]


def test_what_does_not_fit_is_folded_away_with_its_reason_and_its_rows() -> None:
    compare = wizard.compare_strategies(f.judged_options(), "", EXECUTABLE, recommended="continue")
    assert [(w.strategy, re.findall(r"\d+", w.rows)) for w in compare.folded] == [("empty", ["8", "0"])]
    assert [words.split()[-1] for words in compare.folded[0].rows.split(", ")] == ["lost", "doubled"]
    assert "8 rows" in compare.folded[0].says


def test_a_strategy_that_was_chosen_stays_a_column_when_it_does_not_fit_any_more() -> None:
    compare = wizard.compare_strategies(f.judged_options(), "empty", EXECUTABLE, recommended="continue")
    assert [(c.strategy, c.disabled, c.checked) for c in compare.columns][-1] == ("empty", True, True)
    assert compare.folded == []


def answers_of(*options: Option) -> dict[str, list[str]]:
    compare = wizard.compare_strategies(options, "", EXECUTABLE, recommended="")
    return {line.question: [cell.text or cell.big for _, cell in line.cells] for line in compare.lines}


EFFORTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "people": ({"people": f.counted(3)}, "People, steps", "3 people, 5 steps"),
    "at least so many": ({"people": f.counted(1, "at least")}, "People, steps", "at least 1 person, 5 steps"),
    "read": ({}, "To read", "about 8 rows, 2.1 KiB"),
    "rows not known": ({"rows": None}, "To read", "rows not known, 2.1 KiB"),
    "bytes not known": ({"bytes": None}, "To read", "about 8 rows"),
    "neither known": ({"rows": None, "bytes": None}, "To read", "not known"),
    "no backup": ({}, "Backup needed", "No"),
    "a backup": ({"backup": {"needed": True, "bytes": f.counted(2048)}}, "Backup needed", "Yes, 2.0 KiB"),
    "one of unknown size": ({"backup": {"needed": True, "bytes": None}}, "Backup needed", "Yes"),
    "table stays": ({}, "Table reset", "No"),
    "emptied": ({"table": "emptied"}, "Table reset", "Yes, empty about 9 s"),
    "emptied, no time": (
        {"table": "emptied", "seconds": None},
        "Table reset",
        "Yes, empty until the update ends",
    ),
    "filled": ({"table": "emptied-then-filled"}, "Table reset", "Yes, then filled back"),
    "restored": ({"table": "restored"}, "Table reset", "Put back to earlier rows"),
    "state": ({}, "State", "dropped, about 12 keys"),
    "state rebuilt": ({"state": {"fate": "rebuilt", "keys": None}}, "State", "built again"),
    "undo": ({}, "Undo until", "Batch 3 is committed"),
}


@pytest.mark.parametrize("name", EFFORTS)
def test_what_a_strategy_asks_for_is_said_with_its_unit_and_its_bound(name: str) -> None:
    changes, question, text = EFFORTS[name]
    option = f.judged_option("continue", effort=f.effort("continue", **changes))
    assert answers_of(option)[question] == [text]


def test_of_options_that_were_stored_before_nothing_is_made_up() -> None:
    found = answers_of(f.judged_option("continue", effort=None))
    assert {"People, steps", "To read", "Backup needed", "Table reset"} & set(found) == set()
    assert found["State"] == ["Dropped: 12 keys"]
    assert re.findall(r"batch (\d+)", found["Undo until"][0]) == ["3"]


def test_what_cannot_be_undone_is_said_as_bad() -> None:
    option = f.judged_option("full-refresh", undoable=False)
    compare = wizard.compare_strategies([option], "", EXECUTABLE, recommended="")
    cell = next(line.cells[0][1] for line in compare.lines if line.question == "Undo until")
    assert (cell.big, cell.bad) == ("No way back", True)


def test_datasets_below_are_counted_by_what_becomes_of_them() -> None:
    below = [
        {"dataset": name, "effect": effect, "rows": None, "reason": None, "kind": "view", "pipeline": None}
        for name, effect in (("a", "refreshed"), ("b", "refreshed"), ("c", "doubled"))
    ]
    option = f.judged_option("continue", forecast={"downstream": below})
    [says] = answers_of(option)["Tables below"]
    effects = [(one.split()[0], one.split()[-1]) for one in says.split(", ")]
    assert effects == [("2", "refreshed"), ("1", "twice")]
    assert answers_of(f.judged_option("continue"))["Tables below"] == ["none is known"]
