"""A run that cannot go on offers to end it, and recommends nothing that is sure to fail."""

from types import SimpleNamespace
from typing import Any

import pytest

from console.presenters.running import is_given_up, name_skip, offer_skip, run_ladder
from recovery.workflow.steps.rollback import RollbackRefusal


def at(kind: str) -> Any:
    """A failed step whose end is known."""
    return SimpleNamespace(kind=kind, state="failed", evidence=[{"proven": True}], result={}, log=[], args={})


@pytest.mark.parametrize(
    ("kind", "no_skip", "codes", "recommended"),
    [
        ("rerun", None, ["skip", "not-undoable"], "skip"),
        ("rerun", "Step rerun is never skipped.", ["resume", "never-skipped", "not-undoable"], "resume"),
        ("refresh", None, ["resume", "skip", "not-undoable"], "resume"),
        ("verify", None, ["resume", "skip", "not-undoable"], "resume"),
    ],
)
def test_what_a_run_that_stands_still_offers(
    kind: str, no_skip: str | None, codes: list[str], recommended: str
) -> None:
    ladder = run_ladder(SimpleNamespace(), at(kind), RollbackRefusal("Batch 2 was committed since."), no_skip)
    assert [rung.code for rung in ladder] == codes
    assert [rung.code for rung in ladder if rung.first] == [recommended]
    assert is_given_up(kind, no_skip) is (recommended == "skip")


@pytest.mark.parametrize(
    ("refusal", "no_skip", "codes"),
    [
        (None, "Step rerun is never skipped.", ["rollback", "started-by-others", "never-skipped"]),
        (
            RollbackRefusal("Batch 2 was committed since."),
            None,
            ["skip", "started-by-others", "not-undoable"],
        ),
        (
            RollbackRefusal("The stream runs.", "running"),
            "Step rerun is never skipped.",
            ["stop-others", "started-by-others", "never-skipped", "not-undoable"],
        ),
    ],
)
def test_a_rerun_that_others_prevent_is_not_resumed_but_stopped_undone_or_given_up(
    refusal: RollbackRefusal | None, no_skip: str | None, codes: list[str]
) -> None:
    recovery = SimpleNamespace(strategy="continue")
    ladder = run_ladder(recovery, at("rerun"), refusal, no_skip, by_others=True)
    assert [rung.code for rung in ladder] == codes
    assert [rung.code for rung in ladder if rung.first] == codes[:1]


@pytest.mark.parametrize(
    ("kind", "ends"), [("rerun", True), ("verify", True), ("refresh", False), ("backup", False)]
)
def test_a_skip_that_ends_the_recovery_is_named_for_that(kind: str, ends: bool) -> None:
    offer = offer_skip(at(kind))
    assert offer is not None
    assert (offer.ends, offer.label) == (ends, name_skip(kind))
    assert (offer.label == name_skip("verify")) is ends


def test_before_a_plan_there_is_nothing_to_skip() -> None:
    assert offer_skip(None) is None
