"""Parts of a file source's log: the files of some log entries, or one page of all of it. Bounded memory.

A log of a million files is passed over as bytes; only the entries that are shown become objects.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from recovery.checkpoints import filelog, logscan
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import SHOWN_ENTRIES, SourceEntry

PAGE = 100
ID = re.compile(rb'"batchId":([0-9]+)\}\n')
MANY_IDS = 1000  # beyond this many log entries every line is looked at


@dataclass(frozen=True)
class LogSpan:
    """Log entries `after` (exclusive) to `upto`: how many input files they hold, and the first hundred of them.

    `why`: what could not be read, in people's words; then `count` says no more than what was found.
    """

    after: int
    upto: int
    count: int = 0
    first: tuple[SourceEntry, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class LogPage:
    """A hundred entries of a source's log at most, newest first. `number` counts from 1; `why` as in Span."""

    number: int
    pages: int
    count: int
    entries: tuple[SourceEntry, ...]
    why: str = ""


def files_between(tree: Tree, folder: str, after: int, upto: int) -> LogSpan:
    """The files of the log entries after one log id, up to another. Damage is said in `why`, never raised."""
    names = filelog.index_of(tree.names(folder))
    singles = {parsed[0] for n in tree.names(folder) if (parsed := filelog.parse_name(n)) and not parsed[1]}
    files, missing = _select_log_files(names, singles, after, upto)
    seen, why = _Seen(after, upto), _describe_missing_entries(missing)
    for name in files:
        try:
            for block in logscan.iterate_blocks(tree.pieces(f"{folder}/{name}")):
                seen.take(block)
        except Malformed as problem:
            why = f"{folder}/{name} cannot be read: {problem.why}"
    return LogSpan(after, upto, seen.count, tuple(seen.first), why)


@dataclass
class _Seen:
    """What was found of the log entries `after` (exclusive) to `upto`."""

    after: int
    upto: int
    count: int = 0
    first: list[SourceEntry] = field(default_factory=list)

    @cached_property
    def ids(self) -> re.Pattern[bytes] | None:
        """Finds these log ids in lines of Spark's own shape; None where there are too many to name."""
        if self.upto - self.after > MANY_IDS:
            return None
        wanted = b"|".join(b"%d" % i for i in range(self.after + 1, self.upto + 1))
        return re.compile(rb'"batchId":(?:%b)\}' % wanted)

    def take(self, block: bytes) -> None:
        usual = _count_usual_lines(block)
        if usual and self.ids and not self.ids.search(block):
            return
        if usual and len(self.first) >= SHOWN_ENTRIES:
            self.count += sum(self.after < int(m[1]) <= self.upto for m in ID.finditer(block))
            return
        for entry in logscan.parse_entries(block):
            if self.after < entry.batch_id <= self.upto:
                self.count += 1
                if len(self.first) < SHOWN_ENTRIES:
                    self.first.append(entry)


def _select_log_files(
    names: Mapping[int, str], singles: set[int], after: int, upto: int
) -> tuple[list[str], list[int]]:
    """(file names that hold these log entries, ascending; log ids that no file holds, the first ten).

    A single entry is preferred; else the next compacted one, which holds everything up to its own id.
    """
    ids = sorted(i for i in singles if after < i <= upto)
    if len(ids) == upto - after:
        return [str(i) for i in ids], []
    later = [i for i in filelog.compacted_ids(names) if i > after]
    covering = next((i for i in later if i >= upto), max(later, default=None))
    if covering is None:
        held = set(ids)
        return [str(i) for i in ids], list(
            islice((i for i in range(after + 1, upto + 1) if i not in held), 10)
        )
    rest = [i for i in ids if i > covering]
    held = set(rest)
    lost = (i for i in range(max(covering, after) + 1, upto + 1) if i not in held)
    return [names[covering], *map(str, rest)], list(islice(lost, 10))


def _describe_missing_entries(ids: list[int]) -> str:
    return (
        ""
        if not ids
        else f"log entry {ids[0]} is missing"
        if len(ids) == 1
        else f"log entries {ids[0]} and more are missing"
    )


def page_of_log(tree: Tree, folder: str, number: int) -> LogPage:
    """Page `number` (from 1) of a source's whole log, newest entries first; the nearest page there is."""
    names = filelog.index_of(tree.names(folder))
    ids, missing = filelog.needed_entries(names)
    files, counts, why = [], [], _describe_missing_entries(missing)
    for i in ids:
        file = f"{folder}/{names[i]}"
        try:
            counts.append(sum(_count_entries(block) for block in logscan.iterate_blocks(tree.pieces(file))))
            files.append(file)
        except Malformed as problem:
            why = f"{file} cannot be read: {problem.why}"
    total = sum(counts)
    pages = max(1, -(-total // PAGE))
    number = min(max(number, 1), pages)
    stop = total - (number - 1) * PAGE
    entries = list(_read_entry_window(tree, list(zip(files, counts, strict=True)), max(0, stop - PAGE), stop))
    return LogPage(number, pages, total, tuple(reversed(entries)), why)


def _count_usual_lines(block: bytes) -> int:
    """The number of entries of a block that is nothing but lines of Spark's own shape, else 0."""
    assert logscan.ANY is not None, "a number as large as this has a pattern"
    return logscan.count_usual_lines(block, logscan.ANY)


def _count_entries(block: bytes) -> int:
    return _count_usual_lines(block) or sum(1 for _ in logscan.parse_entries(block))


def _read_entry_window(
    tree: Tree, files: list[tuple[str, int]], start: int, stop: int
) -> Iterator[SourceEntry]:
    """Entries `start` to `stop` (exclusive) of these files, counted from the oldest. Raises Malformed."""
    place = 0
    for file, count in files:
        if place + count <= start or place >= stop:
            place += count
            continue
        for block in logscan.iterate_blocks(tree.pieces(file)):
            held = _count_entries(block)
            if place + held > start and place < stop:
                yield from islice(logscan.parse_entries(block), max(0, start - place), stop - place)
            place += held
