"""What was accepted is one value, in choices and in plans, whichever release wrote it."""

from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.acceptance import Acceptance, Accepted, Effect
from recovery.contracts.amounts import Bound

LOSS = Acceptance(effect=Effect.LOSS, by="anna", reason="Old rows.", rows=9, bound=Bound.AT_MOST)
STORED = {"by": "anna", "reason": "Old rows.", "rows": 9, "bound": "at most"}


def test_an_acceptance_is_stored_under_its_effect() -> None:
    stored = codec.to_json(Accepted(loss=LOSS))
    assert stored == {"loss": STORED, "repeats": None}
    assert list(stored["loss"]) == list(STORED)
    assert codec.read(Accepted, stored) == Accepted(loss=LOSS)


@pytest.mark.parametrize(
    ("stored", "loss", "repeats"),
    [
        ({}, None, None),
        ({"loss": False, "repeats": False, "by": "", "reason": ""}, None, None),
        (
            {"loss": False, "repeats": True, "by": "bert", "reason": "Twice."},
            None,
            Acceptance(effect=Effect.REPEATS, by="bert", reason="Twice."),
        ),
    ],
    ids=["nothing", "no", "one person for both"],
)
def test_what_a_release_of_before_stored_is_read(
    stored: dict[str, Any], loss: Acceptance | None, repeats: Acceptance | None
) -> None:
    assert codec.read(Accepted, stored) == Accepted(loss=loss, repeats=repeats)


@pytest.mark.parametrize(
    "stored", [{"gain": STORED}, {"loss": {**STORED, "by": None}}, {"loss": {"rows": 1}}]
)
def test_what_is_no_acceptance_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Accepted"):
        codec.read(Accepted, stored)
