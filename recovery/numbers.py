"""Whole numbers as people type them, or as they stand in an address."""

DIGITS = 18
"""So many always fit a key of the database."""


def whole(text: str) -> int | None:
    """The number, from 0 on; None for anything else. To `isdigit` alone `²` is one too, and to `int` it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None
