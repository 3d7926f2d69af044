"""The windows of an aggregation's groups, from the keys of its state.

A key is an UnsafeRow: a bit of null for each column in words of 8 bytes, then 8 bytes a column; a struct's hold where
it is in the row, offset in the high and size in the low half, and it is an UnsafeRow itself. Timestamps are
microseconds since 1970 (`UnsafeRow`, `TimestampType`). A RocksDB store puts bytes of its own before the row.
"""

import heapq
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from recovery.checkpoints.report import Column
from recovery.contracts.amounts import OpenWindow

WINDOW: Final = "struct<start:timestamp,end:timestamp>"
SESSION_START: Final = "sessionStartTime"
SHOWN: Final = 20
WORD: Final = 8


def has_windows(columns: Sequence[Column]) -> bool:
    """Do keys of these columns tell a window?"""
    return _window_column(columns) is not None


def windows_in(keys: Iterable[bytes], columns: Sequence[Column]) -> tuple[OpenWindow, ...]:
    """The `SHOWN` first windows of these keys, by their start; () where a key does not tell one."""
    place = _window_column(columns)
    if place is None:
        return ()
    windows: Counter[tuple[int, int | None]] = Counter()
    for key in keys:
        try:
            windows[_read_bounds(key[len(key) % WORD :], len(columns), place, columns[place])] += 1
        except (struct.error, ValueError):
            return ()
    first = sorted(windows.items(), key=lambda each: (each[0][0], each[0][1] or 0))[:SHOWN]
    return tuple(OpenWindow(start_ms=start, end_ms=end, groups=groups) for (start, end), groups in first)


def first_groups(
    keys: Iterable[bytes], columns: Sequence[Column], most: int
) -> list[tuple[int, int | None, bytes]]:
    """Start, end and key of the `most` first groups, as `windows_in` orders them; [] where a key tells no window."""
    place = _window_column(columns)
    if place is None:
        return []
    try:
        bounds = (
            (*_read_bounds(key[len(key) % WORD :], len(columns), place, columns[place]), key) for key in keys
        )
        return heapq.nsmallest(most, bounds, key=lambda each: (each[0], each[1] or 0, each[2]))
    except (struct.error, ValueError):
        return []


def is_window(column: Column) -> bool:
    """Is this the column of a key that tells its window?"""
    return _window_column((column,)) is not None


def _window_column(columns: Sequence[Column]) -> int | None:
    """Which column tells the window; None for none."""
    for place, column in enumerate(columns):
        if column.type == WINDOW or (column.name, column.type) == (SESSION_START, "timestamp"):
            return place
    return None


def _read_bounds(row: bytes, width: int, place: int, column: Column) -> tuple[int, int | None]:
    at = _null_bytes(width) + WORD * place
    if column.type != WINDOW:
        return _read_ms(row, at), None
    (where,) = struct.unpack_from("<q", row, at)
    offset, size = where >> 32, where & 0xFFFFFFFF
    if size != 3 * WORD or not 0 <= offset <= len(row) - size:
        raise ValueError("no window")
    return _read_ms(row, offset + WORD), _read_ms(row, offset + 2 * WORD)


def _null_bytes(width: int) -> int:
    return (width + 63) // 64 * WORD


def _read_ms(row: bytes, at: int) -> int:
    return int(struct.unpack_from("<q", row, at)[0]) // 1000
