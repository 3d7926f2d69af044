"""What the logs of batches betray beside their numbers: headers, gaps, names that only Spark counts."""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import OffsetFile
from recovery.checkpoints.report import Finding

COUNTED = re.compile(r"[+-]?[0-9]{1,18}")  # HDFSMetadataLog lists whatever Scala's toLong takes


def tracks_asynchronously(offsets: Collection[int], commits: Collection[int]) -> bool:
    """Do the logs prove asynchronous progress tracking, under which the batch before the newest may be missing?

    Of some batches neither file was ever written. A single gap, just before the newest batch, may be lost files.
    """
    both = sorted(set(offsets) & set(commits))
    gaps = [b for a, b in pairwise(both) if b - a > 1 and not any(a < n < b for n in (*offsets, *commits))]
    return any(b != both[-1] for b in gaps)


def stray_offsets(offsets: set[int], commits: set[int]) -> set[int]:
    """Offset files that follow on nothing: neither they nor the batch before them was ever committed."""
    left, stray = sorted(offsets), set()
    while len(left) > 1:
        newest = left[-1]
        if newest - 1 == left[-2] or {newest, newest - 1} & commits:
            break
        stray.add(left.pop())
    return stray


def judge_headers(
    tree: Tree, read: Mapping[int | None, OffsetFile], committed: int | None, *, old: bool
) -> list[Finding]:
    """`read`: offset files by batch. `committed`: the newest batch that has a commit file. `old`: of a Spark that
    wrote no settings."""
    return [
        *_check_file_names(tree),
        *_check_gaps(tree),
        *(() if old else _check_confs(read, committed)),
        *_check_control_batches(read, committed),
    ]


def _check_file_names(tree: Tree) -> Iterator[Finding]:
    """`0007` is batch 7 to Spark's listing, and no file `7` is found when it is opened."""
    for folder in ("offsets", "commits"):
        newest = max(tree.numbers(folder), default=-1)
        for name in sorted(tree.names(folder)):
            if COUNTED.fullmatch(name) and int(name) > newest and f"{folder}/{name}" in tree.files:
                yield finding("NAME_STRAY", f"{folder}/{name}", name=name, folder=folder, batch=int(name))


def _check_gaps(tree: Tree) -> Iterator[Finding]:
    """Batches without offsets and without a commit between two that have both."""
    offsets, commits = tree.numbers("offsets"), tree.numbers("commits")
    both = sorted(offsets & commits)
    if len(both) < 2:
        return
    kept = [b for b in offsets | commits if both[0] <= b <= both[-1]]
    missing = both[-1] - both[0] + 1 - len(kept)
    if missing:
        span = f"{both[0]} to {both[-1]}"
        yield finding("ASYNC_PROGRESS", "offsets", missing=missing, span=span, last=both[-1])


def _check_confs(read: Mapping[int | None, OffsetFile], committed: int | None) -> Iterator[Finding]:
    newest = max((b for b in read if b is not None), default=None)
    for batch in sorted({b for b in (committed, newest) if b is not None}):
        if batch in read and not read[batch].conf:
            yield finding("HEADER_CONF_EMPTY", f"offsets/{batch}", batch=batch)


def _check_control_batches(read: Mapping[int | None, OffsetFile], committed: int | None) -> Iterator[Finding]:
    for batch in sorted(b for b in read if b is not None):
        if read[batch].control:
            late = committed is None or batch > committed
            code = "CONTROL_BATCH_PLANNED" if late else "CONTROL_BATCH"
            yield finding(code, f"offsets/{batch}", batch=batch, operation=read[batch].control)
