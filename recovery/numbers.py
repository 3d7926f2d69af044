"""Whole numbers as people type them, or as they stand in an address."""

DIGITS = 18
"""So many always fit a key of the database."""


def whole(text: str) -> int | None:
    """The number, from 0 on; None for anything else. To `isdigit` alone `²` is one too, and to `int` it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def read_recovery_number(text: str) -> int | None:
    """Of `R-12` or `12`, whatever its case and the blanks around it; None for anything else."""
    return whole(text.strip().upper().removeprefix("R-"))


def read_joint_plan_number(text: str) -> int | None:
    """Of `J-3` or `3`, likewise."""
    return whole(text.strip().upper().removeprefix("J-"))
