"""What a worker gathered for a recovery is stored as pages read it, and no more."""

import json

from recovery.contracts import codec
from recovery.contracts.amounts import Amount
from recovery.contracts.facts import GatheredFacts
from recovery.workflow.studies import build_gathered
from tests.unit.strategies.facts import facts


def test_facts_are_laid_over_the_row_without_its_ticket_and_read_back_as_they_were() -> None:
    gathered = build_gathered(facts(), people=Amount(value=2))
    stored = json.loads(json.dumps(codec.to_set_json(gathered)))
    assert set(stored) == {
        "status", "options", "table_rows", "sink", "waiting_rows", "waiting_files", "processed_files", "key",
        "key_from", "whole_rows", "code_operators",
    }  # fmt: skip
    assert codec.read(GatheredFacts, stored) == gathered
    kept = codec.read(GatheredFacts, {"ticket": "t-1", "started_at": "2026-11-26T12:00:00+00:00", **stored})
    assert (kept.ticket, kept.is_ready, kept.judged) == ("t-1", True, gathered.judged)


def test_the_report_of_the_checkpoint_is_not_stored_with_the_recovery() -> None:
    """It grows with every file that the checkpoint names, and every list reads the row."""
    stored = codec.to_set_json(build_gathered(facts(), people=Amount(value=2)))
    assert "checkpoint" not in stored
