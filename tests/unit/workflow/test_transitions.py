"""State moves only along the table."""

import itertools

import pytest

from recovery.models.recovery import STATES
from recovery.models.step import STEP_STATES
from recovery.workflow.transitions import OPEN, RECOVERY, STEP, may_move


def test_the_table_and_the_database_know_the_same_states() -> None:
    assert set(RECOVERY) == set(STATES)
    assert set(STEP) == set(STEP_STATES)
    assert all(to <= set(RECOVERY) for to in RECOVERY.values())
    assert all(to <= set(STEP) for to in STEP.values())


@pytest.mark.parametrize(("old", "new"), list(itertools.product(sorted(STEP), repeat=2)))
def test_a_step_that_ended_never_runs_again(old: str, new: str) -> None:
    if old in ("done", "skipped"):
        assert not may_move(STEP, old, new)


def test_an_unknown_step_is_never_failed_by_silence_alone_but_can_be_proven() -> None:
    assert STEP["running"] == {"done", "failed", "unknown"}
    assert "done" in STEP["unknown"]


def test_success_is_reached_only_through_verification() -> None:
    assert [s for s, to in RECOVERY.items() if "succeeded" in to] == ["verifying"]


def test_what_ended_holds_its_flow_no_longer() -> None:
    assert {"succeeded", "failed", "cancelled", "expired", "rolled_back"}.isdisjoint(OPEN)


def test_an_unknown_state_is_a_fault() -> None:
    with pytest.raises(KeyError):
        may_move(RECOVERY, "planned", "finished")
