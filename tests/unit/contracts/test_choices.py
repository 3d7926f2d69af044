"""Choices are one value, and it is stored as every release stored them."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from recovery.contracts import codec
from recovery.contracts.acceptance import Acceptance, Accepted, Effect
from recovery.contracts.amounts import Bound
from recovery.contracts.choices import Choices, ChoicesChange
from recovery.contracts.names import Strategy, name_strategy, read_strategy
from recovery.contracts.start_choice import StartChoice

COST = {"effect": "loss", "rows": 9, "bound": "exact", "why": "so it is"}
ACCEPTED = Accepted(loss=Acceptance(effect=Effect.LOSS, by="ada", rows=9, bound=Bound.EXACT, reason=""))
STORED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "release 0.1.0": {"strategy": "continue", "key": [], "patch": {}, "sealing": {"status": "ready"}},
    "what was edited": {
        "patch": {"/p/q.py": "x = 1\n"},
        "editors": {"/p/q.py": [{"name": "ada", "user_id": 7}, {"name": "bot", "user_id": None}]},
        "original": {"/p/q.py": ""},
        "validation": {"status": "valid", "ticket": "t", "problem": None, "repeats": 0, "started_at": "s", "at": "a",
                       "says": "It is.", "update_id": "u"},
    },
    "sources": {
        "positions": {"0": {"earliest": True, "parts": {"t-1": {"by_hand": "600"}, "t-2": None}}, "1": {"version": 0}},
        "positions_look": {"status": "failed", "ticket": "t", "problem": "Away.", "repeats": 1, "started_at": "s",
                           "asked": {"0": {"at_ms": 5}}, "wishes": {"0": {"latest": True}}, "at": "a", "says": "Away.",
                           "code": "unreachable", "costs": []},
        "confirmed": ["0->1", "1->"],
    },
    "a plan that was refused": {
        "meant": "unknown", "strategy": "full-refresh", "key": ["id"], "below": "left",
        "sealing": {"by": {"name": "ada", "role": "responder", "user_id": 7, "request_id": "r"}, "basis": "b",
                    "accept": ["repeats"], "costs": [COST], "status": "failed", "ticket": "t", "problem": "No.",
                    "repeats": 0, "started_at": "s", "says": "No.", "code": "loses_rows", "at": "a"},
        "accepted": codec.to_json(ACCEPTED),
        "halt": {},
    },
    "a plan that was sealed": {
        "strategy": "rewind", "sealing": {"accept": None, "plan": "f" * 64, "status": "ready"},
        "halt": {"by": "ada", "at": "a", "when": "step"},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_what_was_stored_is_stored_again_to_the_byte(name: str) -> None:
    stored = STORED[name]
    written = codec.to_read_json(codec.read(Choices, stored))
    assert written == stored
    assert codec.canonical_json(written) == codec.canonical_json(json.loads(json.dumps(stored)))


@pytest.mark.parametrize(
    "stored",
    [
        {"strtegy": "continue"},
        {"strategy": "magic"},
        {"sealing": {"state": "ready"}},
        {"positions": {"0": {"earliest": 1}}},
        {"halt": {"when": "later"}},
    ],
)
def test_what_no_release_wrote_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        codec.read(Choices, stored)


def test_a_change_names_only_what_there_is() -> None:
    with pytest.raises(ValidationError):
        ChoicesChange.model_validate({"postion": {}})


def test_a_wish_is_the_same_json_however_it_was_written() -> None:
    assert codec.to_json(StartChoice(earliest=True, latest=False, version=None)) == {"earliest": True}
    assert codec.to_json(StartChoice(version=0)) == {"version": 0}
    assert StartChoice(latest=True, at_ms=None) == codec.read(StartChoice, {"latest": True})


def test_what_is_forgotten_is_stored_as_if_it_had_never_been_chosen() -> None:
    held = codec.read(Choices, {"strategy": "continue", "patch": {}, "below": "left"})
    after = held.forget("patch", "validation").replace(strategy=Strategy.REVERT)
    assert codec.to_read_json(after) == {"strategy": "revert", "below": "left"}
    assert (after.patch, after.refresh_below) == (None, False)


def test_a_strategy_is_stored_under_one_name_whichever_of_its_names_it_was_given() -> None:
    for named in ("reread", "rewind"):
        assert ChoicesChange(strategy=named).strategy == "rewind"
    assert ChoicesChange(strategy="continue").strategy == "continue"
    assert name_strategy("rewind") == "reread"
    assert {read_strategy(name_strategy(s)) for s in Strategy} == {s.value for s in Strategy}
