"""What was gathered for a recovery is one value, whatever release stored it."""

import json
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.choices import WorkProgress
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.names import Strategy
from tests import factories as f
from tests.unit.contracts import kept


@pytest.mark.parametrize("stored", [*kept.facts()], ids=lambda stored: f"{len(stored)} keys")
def test_facts_of_a_kept_release_are_read(stored: dict[str, Any]) -> None:
    facts = codec.read(GatheredFacts, stored)
    assert facts.is_ready
    assert facts.table_rows == stored.get("table_rows")
    assert len(facts.waiting_files) == len(stored.get("waiting_files", ()))
    assert [option.strategy for option in facts.judged] == [
        one["strategy"] for one in stored.get("options", ())
    ]


def test_before_anything_was_gathered_nothing_is_known() -> None:
    facts = codec.read(GatheredFacts, {"status": "none"})
    assert (facts.options, facts.judged, facts.positions) == (None, (), ())
    assert (facts.is_ready, facts.is_working, facts.option_of(Strategy.CONTINUE)) == (False, False, None)


def test_facts_of_before_stay_while_they_are_gathered_again() -> None:
    working = {**f.facts(), "status": "working"}
    facts = codec.read(GatheredFacts, working)
    assert (facts.is_working, facts.waiting_rows) == (True, 8)
    option = facts.option_of("continue")
    assert option is not None
    assert option.strategy is Strategy.CONTINUE
    assert codec.read(WorkProgress, working).status == "working"


def test_what_is_laid_over_the_row_names_no_field_that_was_not_gathered() -> None:
    """The row keeps its ticket, and when the gathering began."""
    gathered = GatheredFacts(status="ready", table_rows=None, options=())
    assert codec.to_set_json(gathered) == {"status": "ready", "table_rows": None, "options": []}
    stored = json.loads(
        json.dumps({"ticket": "t", **codec.to_set_json(codec.read(GatheredFacts, f.facts()))})
    )
    assert codec.read(GatheredFacts, stored).ticket == "t"


def test_a_key_that_no_release_has_stored_is_refused() -> None:
    with pytest.raises(ValueError, match="table_rowz"):
        codec.read(GatheredFacts, {"status": "ready", "table_rowz": 7})
