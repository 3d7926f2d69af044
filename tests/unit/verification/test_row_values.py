"""The words of a proof claim the columns that were compared, and no more."""

from dataclasses import replace

import pytest

from recovery.contracts.criterion_values import ExpectedRows, MeasuredRowsOnce
from recovery.spark.api import Measure, RowValues
from recovery.verification.row_values import add_values, compared_by

BY_KEY = Measure(key=("userId",), key_from="the code", expected_rows=2, new_rows=2, missing=0, extra=0)
MEASURED = MeasuredRowsOnce(expected=2, found=2, missing=0, extra=0, repeats_added=0)


@pytest.mark.parametrize(
    ("values", "claims", "compared", "not_compared"),
    [
        (None, "identified by userId (the code)", None, ()),
        (RowValues(), "other columns not compared", False, ()),
        (RowValues(0), "compared in every column", True, ()),
        (RowValues(0, left_out=("at", "by")), "compared in every column but at, by", True, ("at", "by")),
        (RowValues(0, other_types=("at",)), "compared in every column", True, ("at",)),
    ],
)
def test_each_column_that_was_compared_or_not(
    values: RowValues | None, claims: str, compared: bool | None, not_compared: tuple[str, ...]
) -> None:
    measure = replace(BY_KEY, values=values)
    assert compared_by(ExpectedRows(key=("userId",)), measure).endswith(claims)
    measured = add_values(MEASURED, measure)
    assert (measured.values_compared, measured.left_out) == (compared, not_compared)


def test_columns_with_other_values_and_those_that_the_table_lacks_are_apart() -> None:
    other = add_values(MEASURED, replace(BY_KEY, values=RowValues(2, ("amount",))))
    assert (other.other_values, other.differing, other.absent) == (2, ("amount",), ())
    lacks = add_values(MEASURED, replace(BY_KEY, values=RowValues(absent=("day",))))
    assert (lacks.other_values, lacks.differing, lacks.absent) == (None, (), ("day",))


def test_what_an_earlier_release_measured_says_nothing_of_other_columns() -> None:
    assert (MEASURED.values_compared, MEASURED.left_out) == (None, ())


def test_no_column_that_was_left_out_is_called_compared() -> None:
    expected = ExpectedRows(key=("userId",), whole_rows=True)
    left_out = RowValues(rows=0, left_out=("processed_at",))
    assert "processed_at" in compared_by(expected, Measure(key=("userId",), values=left_out))
    assert "userId" not in compared_by(expected, Measure(key=("userId",)))
