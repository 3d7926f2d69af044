"""The fields of a state row that people can read.

A row is an UnsafeRow: a bit of null for each column in words of 8 bytes, then 8 bytes a column. What does not fit there
is behind them, its offset in the high and its size in the low half of the 8 bytes, and padded to words (`UnsafeRow`).
A RocksDB store puts bytes of its own before the row. Its length must come out to the byte, or nothing of it is read.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from recovery.checkpoints.report import Column
from recovery.numbers import whole

WORD: Final = 8
LONGEST: Final = 100
"""Characters of a text that are kept."""
MOST_BEFORE: Final = 3
"""Bytes that a store puts before a row: the version of its encoding, the id of a column family. More are a checksum."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_fields(row: bytes, columns: Sequence[Column]) -> tuple[tuple[str, str], ...] | None:
    """Name and text of each column of a kind that people read, in their order; None where the row has another form."""
    before = len(row) % WORD
    if before > MOST_BEFORE:
        return None
    row, fixed = row[before:], _null_bytes(len(columns)) + WORD * len(columns)
    if len(row) < fixed or len(row) != fixed + _size_behind(row, columns):
        return None
    try:
        fields = [(column.name, _read_field(row, place, columns)) for place, column in enumerate(columns)]
    except (struct.error, ValueError, OverflowError):
        return None
    return tuple((name, text) for name, text in fields if text is not None)


def _null_bytes(width: int) -> int:
    return (width + 63) // 64 * WORD


def _is_null(row: bytes, place: int) -> bool:
    return bool(row[place // 8] >> (place % 8) & 1)


def _slot(width: int, place: int) -> int:
    return _null_bytes(width) + WORD * place


def _size_behind(row: bytes, columns: Sequence[Column]) -> int:
    """Bytes behind the fixed part, as its columns name them; -1 where one points outside of the row."""
    total = 0
    for place, column in enumerate(columns):
        if column.type in _FIXED or _scale_of_short(column.type) is not None:
            continue
        offset, size = _where(row, place, len(columns))
        if column.type.startswith("decimal"):
            total += 2 * WORD  # reserved, also for null
        elif not _is_null(row, place):
            if offset + size > len(row):
                return -1
            total += -(-size // WORD) * WORD
    return total


def _where(row: bytes, place: int, width: int) -> tuple[int, int]:
    (where,) = struct.unpack_from("<q", row, _slot(width, place))
    return where >> 32, where & 0xFFFFFFFF


def _read_field(row: bytes, place: int, columns: Sequence[Column]) -> str | None:
    """None of a kind that is not shown."""
    kind, width = columns[place].type, len(columns)
    scale = _scale_of_short(kind)
    if kind not in _FIXED and kind != "string" and scale is None:
        return None
    if _is_null(row, place):
        return "null"
    if kind == "string":
        offset, size = _where(row, place, width)
        text = row[offset : offset + size].decode("utf-8")
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if scale is not None:
        (unscaled,) = struct.unpack_from("<q", row, _slot(width, place))
        return str(Decimal(unscaled).scaleb(-scale))
    form, write = _FIXED[kind]
    (value,) = struct.unpack_from(form, row, _slot(width, place))
    return write(value)


def _scale_of_short(kind: str) -> int | None:
    """The scale of a decimal that fits into 8 bytes; None of any other type."""
    if not kind.startswith("decimal("):
        return None
    digits, _, behind = kind.removeprefix("decimal(").removesuffix(")").partition(",")
    precision, scale = whole(digits.strip()), whole(behind.strip())
    return scale if precision is not None and precision <= 18 else None


def _write_time(microseconds: int) -> str:
    return f"{EPOCH + timedelta(microseconds=microseconds):%Y-%m-%d %H:%M:%S}"


_FIXED: Final[Mapping[str, tuple[str, Callable[..., str]]]] = {
    "bigint": ("<q", str),
    "int": ("<i", str),
    "smallint": ("<h", str),
    "tinyint": ("<b", str),
    "boolean": ("<?", lambda value: "true" if value else "false"),
    "float": ("<f", lambda value: f"{value:.7g}"),
    "double": ("<d", repr),
    "date": ("<i", lambda days: (date(1970, 1, 1) + timedelta(days=days)).isoformat()),
    "timestamp": ("<q", lambda value: f"{_write_time(value)} UTC"),
    "timestamp_ntz": ("<q", _write_time),
}
"""By type: how its 8 bytes are read, and written for people."""
