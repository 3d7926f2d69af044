"""Which directory below `sources/` is whose: a source that the code reads twice has two lines and one log. Pure.

MicroBatchExecution gives every leaf of the plan a line, and every source that differs the next number for its
log; a self-join of one frame thus has the lines 0 and 1, and `sources/0` alone. Both lines then stand at the same
position in every batch. In format 2 a source has one line, whose key is the number of its last leaf.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from recovery.checkpoints import formats
from recovery.checkpoints.formats import OffsetFile

MAX_LINES = 8  # the number of ways to share logs grows fast; no one reads one source that often
Way = tuple[int, ...]


def folders_of(
    basis: OffsetFile, every: Collection[OffsetFile], entries: Mapping[str, Collection[int]]
) -> dict[str, str]:
    """Key of each line of `basis` -> name of its log's directory: the same, unless the lines share logs.

    `every`: all offset files that can be read; `entries`: the entry ids in each directory below `sources/`.
    Where several ways of sharing fit, the first in plan order is taken: their positions are equal.
    """
    own = {line.key: line.key for line in basis.sources}
    files = [formats.log_offset(line.offset_json) for line in basis.sources]
    numbered = all(key.isdecimal() for key in own) and all(name.isdecimal() for name in entries)
    whole = all(key in entries for key, at in zip(own, files, strict=True) if at is not None)
    if not numbered or whole or len(own) > MAX_LINES:
        return own
    if basis.version > 1:
        return _by_last_leaf(own, entries)
    rows = [
        [line.offset_json for line in offsets.sources]
        for offsets in every
        if len(offsets.sources) == len(basis.sources)
    ]
    for way in _iterate_ways(len(files)):
        if set(entries) <= {str(n) for n in way} and _fits_logs(way, files, rows, entries):
            return {line.key: str(n) for line, n in zip(basis.sources, way, strict=True)}
    return own


def _by_last_leaf(own: Mapping[str, str], entries: Mapping[str, Collection[int]]) -> dict[str, str]:
    """Format 2: as many lines as logs, and keys with gaps."""
    if {int(name) for name in entries} != set(range(len(own))):
        return dict(own)
    return {key: str(place) for place, key in enumerate(sorted(own, key=int))}


def _iterate_ways(count: int, first: Way = (0,)) -> Iterator[Way]:
    """Every way to give `count` lines logs, numbered as they first appear."""
    if len(first) == count:
        yield first
        return
    for number in range(max(first) + 2):
        yield from _iterate_ways(count, (*first, number))


def _fits_logs(
    way: Way,
    reached: Sequence[int | None],
    rows: Sequence[Sequence[str | None]],
    entries: Mapping[str, Collection[int]],
) -> bool:
    """Lines of one log are equal in every batch, and each file source's log has the entry where its lines stand."""
    for row in rows:
        if len({(n, line) for n, line in zip(way, row, strict=True)}) > len(set(way)):
            return False
    return all(at is None or at in entries.get(str(n), ()) for n, at in zip(way, reached, strict=True))
