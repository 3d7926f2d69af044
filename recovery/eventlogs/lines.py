"""Whole lines of an event log from where a look ended before, in bounded memory."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoints.formats import Malformed
from recovery.eventlogs.blocks import iterate_blocks

LONGEST_LINE: Final = 16 << 20
"""A longer line is left out: the plan of one query may have megabytes, no event of a stream has so many."""

LARGEST_BLOCK: Final = 256 << 20
"""Plain bytes of one block: packed, they may be a few hundred. Spark closes one at each flush."""


@dataclass(frozen=True)
class Mark:
    """Where a tail goes on: `offset`, the block of the file in which the next line begins, and `skip`, the plain bytes
    before it in that block."""

    offset: int = 0
    skip: int = 0


@dataclass(frozen=True)
class EventLogLine:
    """One whole line, without its end; b"" for one that is too long. `mark`: where the next one begins."""

    text: bytes
    mark: Mark


@dataclass
class Rest:
    """`length`: plain bytes after the last whole line; `is_cut`: time was over before the end."""

    length: int = 0
    is_cut: bool = False


def iterate_lines(
    stream: Any, mark: Mark, rest_of: Rest | None = None, *, until: float = math.inf
) -> Iterator[EventLogLine]:
    """Every line from `mark` on that is whole by now; what is left after them goes to `rest_of`. Raises Malformed,
    OSError. `until`: of the monotonic clock."""
    rest, length, skip = bytearray(), 0, mark.skip
    for offset, pieces in iterate_blocks(stream, mark.offset):
        seen = 0
        for piece in pieces:
            begin = min(max(skip - seen, 0), len(piece))
            seen += len(piece)
            if seen > LARGEST_BLOCK or length > LARGEST_BLOCK:
                raise Malformed(f"a block or line of it has more than {LARGEST_BLOCK >> 20} MiB")
            if time.monotonic() >= until:
                if rest_of is not None:
                    rest_of.length, rest_of.is_cut = length, True
                return
            while (end := piece.find(b"\n", begin)) >= 0:
                length += end - begin
                whole = bytes(rest) + piece[begin:end] if length <= LONGEST_LINE else b""
                rest.clear()
                length, begin = 0, end + 1
                yield EventLogLine(whole, Mark(offset, seen - len(piece) + begin))
            length += len(piece) - begin
            if length > LONGEST_LINE:
                rest.clear()
            else:
                rest += piece[begin:]
        skip = 0
    if rest_of is not None:
        rest_of.length = length
