"""What people type for a recovery or a joint plan is its number, or none."""

import pytest

from recovery.numbers import read_joint_plan_number, read_recovery_number, read_whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("R-12", 12), (" r-12 ", 12), ("12", 12), ("R-", None), ("", None), ("J-3", None), ("R--3", None),
        ("R-R-3", None), ("R-²", None), ("R-" + "9" * 40, None),
    ],
)  # fmt: skip
def test_a_recovery_is_named_by_its_label_or_number(text: str, number: int | None) -> None:
    assert read_recovery_number(text) == number


@pytest.mark.parametrize(("text", "number"), [("J-3", 3), ("j-3", 3), ("3", 3), ("R-3", None), ("J-x", None)])
def test_a_joint_plan_is_named_by_its_label_or_number(text: str, number: int | None) -> None:
    assert read_joint_plan_number(text) == number


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7, 7), ("7", 7), (0, 0), (-1, None), (True, None), (None, None), ("²", None), ("٣", None), ("9" * 5000, None),
        (10**30, None), (1.0, None), ([], None),
    ],
)  # fmt: skip
def test_a_number_of_others_is_whole_and_fits_the_database_or_is_none(
    value: object, number: int | None
) -> None:
    assert read_whole(value) == number
