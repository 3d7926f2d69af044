"""What a number is decides by its bound, and no sentence that explains it is read."""

from typing import Any

import pytest

from recovery.sources.base import Amount, Bound, joint_bound, stored_bound, stored_why


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
    ("amount", "bound"),
    [
        (Amount(8), Bound.EXACT),
        (Amount(8, False, "estimated from bytes"), Bound.ESTIMATE),
        (Amount(8, False, "markers take offsets too", Bound.AT_MOST), Bound.AT_MOST),
        (Amount(8, False, "at most: a file of this name"), Bound.ESTIMATE),
    ],
)
def test_an_amount_is_stored_with_its_bound_and_read_back(amount: Amount, bound: Bound) -> None:
    assert amount.bound is bound
    assert stored_bound(amount.as_dict()) is bound


@pytest.mark.parametrize(
    ("old", "bound", "why"),
    [
        ({"value": 8, "exact": True, "why": ""}, Bound.EXACT, ""),
        ({"value": 8, "exact": False, "why": "at most: markers"}, Bound.AT_MOST, "markers"),
        ({"rows": 8, "exact": False, "why": "by size"}, Bound.ESTIMATE, "by size"),
        ({"rows": None, "exact": False, "why": "not counted"}, Bound.UNKNOWN, "not counted"),
        ({}, Bound.UNKNOWN, ""),
    ],
)
def test_an_amount_of_before_is_still_readable(old: dict[str, Any], bound: Bound, why: str) -> None:
    assert (stored_bound(old), stored_why(old)) == (bound, why)
