"""What a number is decides by its bound, and no sentence that explains it is read."""

from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Amount, Bound, OpenWindow, RowAmount, joint_bound


@pytest.mark.parametrize(
    ("bounds", "together"),
    [
        ([], Bound.EXACT),
        ([Bound.EXACT, Bound.EXACT], Bound.EXACT),
        ([Bound.EXACT, Bound.AT_MOST], Bound.AT_MOST),
        ([Bound.AT_MOST, Bound.ESTIMATE], Bound.ESTIMATE),
        ([Bound.ESTIMATE, Bound.AT_MOST], Bound.ESTIMATE),
        ([Bound.AT_MOST, Bound.AT_LEAST], Bound.ESTIMATE),
        ([Bound.AT_LEAST, Bound.UNKNOWN], Bound.UNKNOWN),
    ],
)
def test_a_sum_is_no_surer_than_its_parts(bounds: list[Bound], together: Bound) -> None:
    assert joint_bound(bounds) is together


@pytest.mark.parametrize(
    "amount",
    [
        Amount(value=8),
        Amount(value=8, bound=Bound.ESTIMATE, why="estimated from bytes"),
        Amount(value=8, bound=Bound.AT_MOST, why="markers take offsets too"),
        Amount(value=8, bound=Bound.ESTIMATE, why="at most: a file of this name"),
        RowAmount(rows=8, bound=Bound.AT_LEAST, why="", files=2, start="a", end="b"),
        RowAmount(rows=None, bound=Bound.UNKNOWN),
        RowAmount(
            rows=1,
            bound=Bound.EXACT,
            windows=(OpenWindow(start_ms=1, end_ms=None, groups=1),),
        ),
    ],
)
def test_an_amount_is_stored_with_its_bound_and_read_back(amount: Amount | RowAmount) -> None:
    stored = codec.to_json(amount)
    assert (stored["bound"], stored["exact"]) == (amount.bound, amount.exact)
    assert codec.read(type(amount), stored) == amount
    assert codec.to_read_json(codec.read(type(amount), stored)) == stored


@pytest.mark.parametrize(
    ("kind", "old", "bound", "why"),
    [
        (Amount, {"value": 8, "exact": True, "why": ""}, Bound.EXACT, ""),
        (Amount, {"value": 8, "exact": False, "why": "at most: markers"}, Bound.AT_MOST, "markers"),
        (RowAmount, {"rows": 8, "files": 2, "exact": False, "why": "by size"}, Bound.ESTIMATE, "by size"),
        (RowAmount, {"rows": None, "from": None, "exact": False, "why": "no"}, Bound.UNKNOWN, "no"),
    ],
)
def test_an_amount_of_before_is_read_with_its_bound_and_written_as_it_was(
    kind: type[Amount | RowAmount], old: dict[str, Any], bound: Bound, why: str
) -> None:
    amount = codec.read(kind, old)
    assert (amount.bound, amount.why) == (bound, why)
    assert codec.to_read_json(amount) == old
    assert codec.read(kind, codec.to_json(amount)) == amount


@pytest.mark.parametrize(
    "stored",
    [
        {"rows": 8, "exact": True, "size": 1},
        {"rows": True, "exact": True},
        {"rows": "8", "exact": True},
        {"rows": 8, "bound": "some"},
    ],
    ids=["an unknown key", "no number", "a number as text", "no bound"],
)
def test_what_is_no_amount_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="RowAmount"):
        codec.read(RowAmount, stored)


def test_rows_that_are_not_known_have_no_other_bound() -> None:
    assert RowAmount(rows=None, bound=Bound.EXACT).bound is Bound.UNKNOWN
    assert RowAmount(rows=None, bound=Bound.UNKNOWN).bounded(Bound.AT_LEAST, "").bound is Bound.UNKNOWN


@pytest.mark.parametrize(
    ("bound", "loosened"),
    [(Bound.EXACT, Bound.ESTIMATE), (Bound.AT_MOST, Bound.AT_MOST), (Bound.ESTIMATE, Bound.ESTIMATE)],
)
def test_a_number_that_is_loosened_is_no_longer_exact(bound: Bound, loosened: Bound) -> None:
    assert RowAmount(rows=3, bound=bound, why="a").loosened("b") == RowAmount(rows=3, bound=loosened, why="b")
