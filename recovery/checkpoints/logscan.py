"""Reads a file source's log piece by piece: counts and ends without an object per file. No I/O.

Spark writes every line in one shape (json4s: `{"path":"…","timestamp":1,"batchId":0}`, the path URL-encoded). A
block of such lines is proven and counted as bytes; a block with any other line is read line by line as JSON.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from recovery.checkpoints.formats import Malformed, json_of, text_of, version_of
from recovery.checkpoints.report import SHOWN_ENTRIES, SourceEntry

MAX_LINE = 1 << 20  # bytes; a path has at most a few thousand
NUMBER = rb"0|[1-9][0-9]{0,17}"
# Never inside a line as Spark writes it: control characters (JSON forbids them raw) and the escape character.
UNUSUAL = bytes(range(32)) + b"\\"
LINE = re.compile(rb'\{"path":"([^"]*+)","timestamp":(%b),"batchId":(%b)\}\n' % (NUMBER, NUMBER))


@dataclass
class EntryTally:
    """How many entries, the first hundred, the last."""

    count: int = 0
    first: list[SourceEntry] = field(default_factory=list)
    newest: SourceEntry | None = None

    def add(self, entry: SourceEntry) -> None:
        self.count += 1
        self.newest = entry
        if len(self.first) < SHOWN_ENTRIES:
            self.first.append(entry)

    def merge(self, later: "EntryTally") -> None:
        """Take in what follows in the log."""
        self.count += later.count
        self.first += later.first[: SHOWN_ENTRIES - len(self.first)]
        self.newest = later.newest or self.newest


def iterate_blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines after the version line, each ended by a newline, about a piece at a time.

    Raises Malformed: empty, no version line, a line without end.
    """
    waiting, headed = b"", False
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if not end:
            waiting += piece
            if len(waiting) > MAX_LINE:
                raise Malformed(f"it has a line of more than {MAX_LINE} bytes")
            continue
        block, waiting = waiting + piece[:end], piece[end:]
        if not headed:
            block, headed = _after_version(block), True
        if block:
            yield block
    if not headed:
        if not waiting:
            raise Malformed("it is empty")
        _after_version(waiting)
    elif waiting:
        yield waiting + b"\n"


def _after_version(block: bytes) -> bytes:
    line, _, rest = block.partition(b"\n")
    version_of(text_of(line[:64]), "sources")
    return rest


def count_usual_lines(block: bytes, lines: re.Pattern[bytes], last_key: bytes = b'"batchId":') -> int:
    """The number of entries of a block that is nothing but lines of Spark's own shape, else 0.

    `last_key` occurs once in a line of that shape, since no string in it may hold a quote.
    """
    if lines.fullmatch(block) is None:
        return 0
    count = block.count(last_key)
    odd = len(block) - len(block.translate(None, UNUSUAL))
    if odd > count or not (block.isascii() or text_of(block)):
        return 0  # more than the newline that ends each entry
    return count


def lines_up_to(reached: int | None) -> re.Pattern[bytes] | None:
    """Lines of Spark's own shape whose batchId is at most `reached`; None where there is no such number."""
    if reached is None or reached < 0:
        return None
    number = b"|".join(at_most(reached)) if reached < 10**18 else NUMBER
    return re.compile(rb'(?:\{"path":"[^"]*+","timestamp":(?:%b),"batchId":(?:%b)\}\n)*+' % (NUMBER, number))


def at_most(highest: int) -> list[bytes]:
    """Patterns that together match exactly the whole numbers 0..`highest`, without leading zeros."""
    digits = str(highest)
    alternatives = [digits]
    for place, digit in enumerate(digits):
        lowest = 1 if place == 0 and len(digits) > 1 else 0
        if int(digit) > lowest:
            alternatives.append(
                f"{digits[:place]}[{lowest}-{int(digit) - 1}][0-9]{{{len(digits) - place - 1}}}"
            )
    if len(digits) > 1:
        alternatives.append("[0-9]")
    if len(digits) > 2:
        alternatives.append(f"[1-9][0-9]{{1,{len(digits) - 2}}}")
    return [pattern.encode() for pattern in alternatives]


SINK_LINES = re.compile(
    rb'(?:\{"path":"[^"]*+","size":(?:%b),"isDir":(?:true|false),"modificationTime":(?:%b),'
    rb'"blockReplication":(?:%b),"blockSize":(?:%b),"action":"[^"]*+"\}\n)*+' % ((NUMBER,) * 4)
)
ANY = lines_up_to(10**18)


def parse_entries(block: bytes) -> Iterator[SourceEntry]:
    """The entries of whole lines. Raises Malformed."""
    assert ANY is not None, "a number as large as this has a pattern"
    if count_usual_lines(block, ANY):
        for line in LINE.finditer(block):
            yield SourceEntry(line[1].decode(), int(line[2]), int(line[3]))
    else:
        for text in text_of(block).split("\n")[:-1]:
            yield source_entry(json_of(text))


def tally_entries(pieces: Iterable[bytes], reached: int | None) -> tuple[EntryTally, EntryTally]:
    """(entries up to log id `reached`, entries after it) of one log file. Raises Malformed."""
    before, after = EntryTally(), EntryTally()
    settled = lines_up_to(reached)
    for block in iterate_blocks(pieces):
        if settled and (count := count_usual_lines(block, settled)):
            last = block.rfind(b"\n", 0, -1) + 1
            room = SHOWN_ENTRIES - len(before.first)
            before.merge(
                EntryTally(
                    count,
                    list(islice(parse_entries(block), room)) if room else [],
                    *parse_entries(block[last:]),
                )
            )
            continue
        for entry in parse_entries(block):
            (after if reached is None or entry.batch_id > reached else before).add(entry)
    return before, after


def source_entry(body: Any) -> SourceEntry:
    """One line's JSON as an entry. Raises Malformed."""
    try:
        path, stamp, entry = body["path"], body["timestamp"], body["batchId"]
    except (TypeError, KeyError, IndexError) as error:
        raise Malformed("an entry lacks path, timestamp or batchId") from error
    if type(path) is not str or type(stamp) is not int or type(entry) is not int:
        raise Malformed("an entry's path, timestamp or batchId is of the wrong type")
    return SourceEntry(path, stamp, entry)
