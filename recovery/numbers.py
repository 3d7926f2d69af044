"""Whole numbers as people type them, as they stand in an address, and as others send them."""

DIGITS = 18
"""So many always fit a key of the database."""


def whole(text: str) -> int | None:
    """The number, from 0 on; None for anything else. To `isdigit` alone `²` is one too, and to `int` it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def read_whole(value: object) -> int | None:
    """Of a number, or of digits, in JSON of others; None for anything else: a negative one, one of more digits."""
    if isinstance(value, str):
        return whole(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 10**DIGITS else None


def read_recovery_number(text: str) -> int | None:
    """Of `R-12` or `12`, whatever its case and the blanks around it; None for anything else."""
    return whole(text.strip().upper().removeprefix("R-"))


def read_joint_plan_number(text: str) -> int | None:
    """Of `J-3` or `3`, likewise."""
    return whole(text.strip().upper().removeprefix("J-"))
