"""An option is stored as one value and read back as it, whichever release wrote it."""

import json
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.option import SETTLED, Blocker, BlockerCode, Option
from recovery.strategies.catalogue import judge_all
from tests import factories as f
from tests.unit.strategies.facts import facts


@pytest.mark.parametrize("update", [None, "77a"], ids=["some can run", "none can"])
def test_what_is_judged_is_read_back_as_it_was(update: str | None) -> None:
    for option in judge_all(facts(active_update=update)):
        stored = json.loads(json.dumps(codec.to_json(option)))
        assert codec.to_json(codec.read(Option, stored)) == stored
        assert codec.read(Option, stored).forecast == option.forecast
        assert codec.read(Option, stored).blocker == option.blocker


def test_an_option_is_stored_with_the_keys_that_programs_know() -> None:
    assert list(codec.to_json(judge_all(facts())[0])) == [
        "strategy", "title", "summary", "blocked", "blocker", "recommended", "undoable", "forecast", "findings",
        "steps", "criteria", "rollback", "code_live", "table_meanwhile", "positions", "mapping", "effort",
    ]  # fmt: skip


@pytest.mark.parametrize("code", BlockerCode)
def test_a_blocker_is_stored_as_its_words_its_code_and_what_settles_it(code: BlockerCode) -> None:
    blocker = Blocker(code=code, says="…")
    stored = codec.to_json(f.judged_option("continue").model_copy(update={"blocker": blocker}))
    settled_by = SETTLED.get(code)
    assert (stored["blocked"], stored["blocker"]) == ("…", {"code": code.value, "settled_by": settled_by})
    assert codec.read(Option, stored).blocker == blocker


@pytest.mark.parametrize(
    "changes",
    [{"more": 1}, {"strategy": "guess"}, {"recommended": 1}, {"forecast": {"lost": 1}}],
    ids=["an unknown key", "no strategy", "a number for yes", "no forecast"],
)
def test_what_is_no_option_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Option"):
        codec.read(Option, {**f.option("continue"), **changes})
