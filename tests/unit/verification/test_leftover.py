"""Which rows several proofs of one table leave lost or doubled."""

from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.measured import Measured, MeasuredRows
from recovery.verification.leftover import sum_leftover

SIX = {"rows": 6, "bound": "exact"}
NOT_KNOWN = {"rows": None, "bound": "unknown"}
NONE, EXACT, LEAST = MeasuredRows(0, Bound.EXACT), Bound.EXACT, Bound.AT_LEAST


def proof(**changes: Any) -> Measured:
    counted = {"lost": 0, "lost_bound": "exact", "lost_before": 0, "doubled": 0, "doubled_bound": "exact"}
    return codec.read(Measured, {**counted, "doubled_before": 0, "key": ["id"], **changes})


CLEAN = proof()
TWICE = proof(doubled=6, doubled_accepted=SIX)
LOST = proof(lost=6, lost_accepted=SIX, lost_before=None)
MAY_REPEAT = proof(doubled=None, doubled_bound="unknown", doubled_before=None, doubled_accepted=NOT_KNOWN)
BLIND = proof(lost_before=None, doubled_bound="at least", doubled_before=None)
TWICE_AND_BLIND = proof(
    lost_before=None, doubled=6, doubled_bound="at least", doubled_before=None, doubled_accepted=SIX
)
LOST_AND_BLIND = proof(
    lost=6, lost_accepted=SIX, lost_before=None, doubled_bound="at least", doubled_before=None
)


def twice(rows: int) -> Measured:
    """That so many rows are there again since before."""
    return proof(doubled=rows, doubled_before=rows)


STILL_TWICE = twice(6)
TWICE_BESIDE_FIVE = proof(doubled=11, doubled_before=5, doubled_accepted=SIX)
STILL_LOST = proof(lost=6, lost_before=6)
LOST_AT_MOST = proof(lost=9, lost_accepted={"rows": 9, "bound": "at most"}, lost_before=None)
LOST_ABOUT = proof(lost=6, lost_accepted={"rows": 6, "bound": "estimate"}, lost_before=None)


@pytest.mark.parametrize(
    ("proofs", "lost", "doubled", "differs"),
    [
        ([], NONE, NONE, False),
        ([CLEAN], NONE, NONE, False),
        ([TWICE], NONE, MeasuredRows(6, EXACT), False),
        ([CLEAN, TWICE, LOST], NONE, NONE, False),
        ([BLIND, TWICE], NONE, MeasuredRows(6, EXACT), False),
        ([BLIND, LOST], MeasuredRows(6, EXACT), NONE, False),
        ([TWICE_AND_BLIND, TWICE], NONE, MeasuredRows(12, LEAST), False),
        ([STILL_TWICE, TWICE], NONE, MeasuredRows(6, EXACT), False),
        ([STILL_TWICE, STILL_TWICE, TWICE], NONE, MeasuredRows(6, EXACT), False),
        ([twice(11), TWICE], NONE, MeasuredRows(11, EXACT), True),
        ([twice(4), TWICE], NONE, MeasuredRows(4, EXACT), True),
        ([STILL_TWICE, CLEAN, TWICE], NONE, MeasuredRows(6, EXACT), True),
        ([STILL_TWICE, MAY_REPEAT], NONE, MeasuredRows(6, EXACT), True),
        ([twice(11), TWICE_BESIDE_FIVE], NONE, MeasuredRows(11, EXACT), True),
        ([STILL_LOST, LOST], MeasuredRows(6, EXACT), NONE, False),
        ([STILL_LOST, STILL_LOST, LOST], MeasuredRows(6, EXACT), NONE, False),
        ([STILL_LOST, LOST_AT_MOST], MeasuredRows(6, Bound.AT_MOST), NONE, False),
        ([STILL_LOST, LOST_ABOUT], MeasuredRows(6, Bound.ESTIMATE), NONE, True),
        ([STILL_LOST, TWICE], MeasuredRows(6, Bound.ESTIMATE), NONE, True),
        ([BLIND, STILL_TWICE], NONE, MeasuredRows(6, EXACT), True),
        ([BLIND, MAY_REPEAT], NONE, MeasuredRows(None, Bound.UNKNOWN), False),
        ([TWICE_AND_BLIND, MAY_REPEAT], NONE, MeasuredRows(6, LEAST), False),
    ],
)
def test_the_newest_proof_that_counted_the_whole_table_ends_the_sum(
    proofs: list[Measured], lost: MeasuredRows, doubled: MeasuredRows, differs: bool
) -> None:
    leftover = sum_leftover(proofs)
    assert (leftover.lost, leftover.doubled, leftover.differs) == (lost, doubled, differs)


@pytest.mark.parametrize(
    ("proofs", "cost"),
    [
        ([CLEAN], ""),
        ([BLIND, TWICE_AND_BLIND, LOST_AND_BLIND], "6 rows lost, at least 6 rows doubled"),
        ([MAY_REPEAT], "rows may be doubled"),
    ],
)
def test_what_is_left_is_named_with_its_bounds(proofs: list[Measured], cost: str) -> None:
    assert sum_leftover(proofs).cost == cost
