"""A change of the choices is taken whole or not at all, by who may, and only what differs is an act."""

from typing import Any

import pytest

from recovery.errors import Denied, Refused
from recovery.models import AuditEntry, Recovery
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, VIEWER, choose, recovery

pytestmark = pytest.mark.django_db
HELD = {"strategy": "continue", "key": ["id"]}


def entries() -> list[tuple[str, str]]:
    """(code, actor), the oldest first."""
    return list(AuditEntry.objects.order_by("seq").values_list("action", "outcome"))


def stored(of: Recovery) -> dict[str, Any]:
    of.refresh_from_db()
    return dict(of.choices)


def test_each_part_of_a_change_is_an_act_in_the_order_in_which_one_rests_on_another() -> None:
    of = recovery("diagnosing")
    choose(
        of, refresh_below=False, patch={"/p/q.py": "x = 1\n"}, strategy="continue", key=["id"], meant="yes"
    )
    assert entries() == [(f"recovery.{part}", "done") for part in ("meant", "strategy", "patch", "below")]
    editors = {"/p/q.py": [{"name": RESPONDER.name, "user_id": RESPONDER.user_id}]}
    assert stored(of) == {
        **HELD,
        "meant": "yes",
        "meant_by": RESPONDER.name,
        "patch": {"/p/q.py": "x = 1\n"},
        "editors": editors,
        "below": "left",
    }


def test_a_change_of_which_one_part_is_refused_changes_nothing() -> None:
    of = recovery("diagnosing", choices=HELD)
    with refused("does_not_parse", Refused):
        choose(of, meant="no", strategy="rebuild", patch={"/p/q.py": "def ("})
    assert stored(of) == HELD
    assert entries() == [("recovery.patch", "failed")]


def test_a_part_that_is_the_same_is_no_act() -> None:
    of = recovery("diagnosing", choices=HELD)
    choose(of, strategy="continue", key=["id"], confirmed=(), refresh_below=True, positions={})
    assert stored(of) == HELD
    assert entries() == []


@pytest.mark.parametrize("named", [{"strategy": "continue"}, {"meant": "no"}, {"positions": {}}])
def test_who_may_not_recover_there_changes_nothing_not_even_to_the_same(named: dict[str, Any]) -> None:
    of = recovery("diagnosing", choices=HELD)
    with pytest.raises(Denied):
        choose(of, by=VIEWER, **named)
    assert [outcome for _, outcome in entries()] == ["denied"]


def test_code_and_starts_of_one_strategy_are_not_those_of_another() -> None:
    of = recovery("diagnosing", choices={**HELD, "patch": {"/p/q.py": "x = 1\n"}, "confirmed": ["0->1"]})
    choose(of, strategy="revert", patch={"/p/q.py": "x = 2\n"})
    after = stored(of)
    assert after["patch"] == {"/p/q.py": "x = 2\n"}
    assert "confirmed" not in after


@pytest.mark.parametrize(
    ("held", "named", "strategy"),
    [
        ({}, {}, "continue"),
        ({"meant": "no"}, {}, "revert"),
        ({"meant": "no"}, {"meant": "yes"}, "continue"),
        ({"strategy": "repair", "meant": "no"}, {}, "repair"),
        ({"strategy": "repair"}, {"strategy": "rebuild"}, "rebuild"),
    ],
)
def test_the_default_is_what_was_chosen_and_else_what_the_answer_asks_for(
    held: dict[str, Any], named: dict[str, Any], strategy: str
) -> None:
    of = recovery("diagnosing", choices=held)
    choose(of, default_strategy=True, **named)
    assert stored(of)["strategy"] == strategy


def test_no_strategy_is_chosen_where_none_is_asked_for() -> None:
    of = recovery("diagnosing")
    choose(of, meant="no", key=["id"])
    assert stored(of) == {"meant": "no", "meant_by": RESPONDER.name, "key": ["id"]}
