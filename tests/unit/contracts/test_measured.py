"""What a proof measured is one value, of any release, and goes out as it was stored."""

import json
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.measured import Measured
from tests import factories as f
from tests.unit.contracts import kept


@pytest.mark.parametrize("stored", [*kept.proofs()], ids=lambda stored: f"{len(stored)} keys")
def test_a_proof_of_a_kept_release_is_read_and_sent_as_it_was_stored(stored: dict[str, Any]) -> None:
    measured = codec.read(Measured, stored)
    assert measured.lost_bound is (Bound.UNKNOWN if stored.get("lost") is None else Bound.AT_LEAST)
    assert codec.to_read_json(measured) == stored


def test_a_proof_of_today_keeps_every_key() -> None:
    stored = json.loads(json.dumps(f.measured(repeats=6)))
    measured = codec.read(Measured, stored)
    assert codec.to_read_json(measured) == stored
    none = {"downstream": [], "left_behind": [], "reached": [], "last_batch": None}
    assert codec.to_json(measured) == {**stored, **none}


def test_a_key_that_no_release_has_stored_is_refused() -> None:
    with pytest.raises(ValueError, match="table_rowz"):
        codec.read(Measured, {"verified": True, "table_rowz": 7})


@pytest.mark.parametrize(
    ("criteria", "unproven", "failed", "holding"),
    [
        ([], (), (), 0),
        ([("A", True), ("B", True)], (), (), 2),
        ([("A", True), ("B", False), ("C", None)], ("B", "C"), ("B",), 1),
    ],
)
def test_a_proof_knows_which_criteria_do_not_hold(
    criteria: list[tuple[str, bool | None]],
    unproven: tuple[str, ...],
    failed: tuple[str, ...],
    holding: int,
) -> None:
    measured = codec.read(Measured, {"criteria": [{"code": code, "ok": ok} for code, ok in criteria]})
    assert measured.unproven == unproven
    assert tuple(one.code for one in measured.failed) == failed
    assert measured.holding == holding
