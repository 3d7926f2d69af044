"""All versions of a flow's checkpoint, and when each was in use. Only reads; no version's state is listed."""

from dataclasses import dataclass

from recovery.checkpoints import formats
from recovery.checkpoints.batches import list_log_files, numbered_versions
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.inspection import SHOWN_BATCHES
from recovery.checkpoints.storage import Store, reaching

MAX_VERSIONS = 100


@dataclass(frozen=True)
class VersionUse:
    """One version of a flow's checkpoint: which batches it holds and when they were planned (epoch ms)."""

    number: int
    location: str
    first_batch: int | None = None
    last_planned: int | None = None
    last_committed: int | None = None
    #: the oldest batch that is kept and was planned in this version; Spark deletes older files
    from_ms: int | None = None
    #: the newest batch that was planned in this version
    to_ms: int | None = None
    #: it was seeded at this batch and used after it: its two oldest offset files are the same bytes, as Spark's
    #: own never are
    seeded_at: int | None = None
    #: the newest batch whose offset file is the same bytes in the version before: it continued or was repaired
    #: from there
    copied_to: int | None = None
    query_id: str | None = None
    #: which files cannot be read
    why: str = ""


def list_uses(flow_location: str) -> tuple[VersionUse, ...]:
    """Every version in a flow's directory, newest first, a hundred at most; () for a checkpoint without versions.

    Raises Unreachable when the storage fails; a missing directory has no versions.
    """
    with reaching(flow_location):
        store = Store.open(flow_location)
        try:
            names = numbered_versions(store)
        except FileNotFoundError:
            return ()
        newest = sorted(names, reverse=True)[:MAX_VERSIONS]
        trees = [list_log_files(store.child(names[n])) for n in newest]
        older: list[Tree | None] = [*trees[1:], None][: len(trees)]
        return tuple(
            _describe_version_use(n, tree, old) for n, tree, old in zip(newest, trees, older, strict=True)
        )


def _describe_version_use(number: int, tree: Tree, older: Tree | None) -> VersionUse:
    offsets, commits = sorted(tree.numbers("offsets")), tree.numbers("commits")
    problems: list[str] = []
    seeded = _seeded_at(tree, offsets)
    copied = _copied_to(tree, offsets, older) if older else None
    own = [n for n in offsets if n > max(-1 if b is None else b for b in (seeded, copied))]
    first, last = (_planned_ms(tree, own[n], problems) if own else None for n in (0, -1))
    return VersionUse(
        number,
        tree.store.location,
        min(offsets, default=None),
        max(offsets, default=None),
        max(commits, default=None),
        first,
        last,
        seeded,
        copied,
        _query_id(tree, problems),
        "; ".join(dict.fromkeys(problems)),
    )


def _planned_ms(tree: Tree, batch: int, problems: list[str]) -> int | None:
    file = f"offsets/{batch}"
    try:
        return formats.parse_offsets(tree.bytes_of(file)).timestamp_ms
    except Malformed as problem:
        problems.append(f"{file} cannot be read: {problem.why}")
        return None


def _query_id(tree: Tree, problems: list[str]) -> str | None:
    if "metadata" not in tree.files:
        return None
    try:
        return formats.parse_metadata(tree.bytes_of("metadata"))
    except Malformed as problem:
        problems.append(f"metadata cannot be read: {problem.why}")
        return None


def _seeded_at(tree: Tree, offsets: list[int]) -> int | None:
    if len(offsets) < 2 or offsets[1] != offsets[0] + 1:
        return None
    try:
        first, other = (tree.bytes_of(f"offsets/{n}") for n in offsets[:2])
    except Malformed:
        return None
    return offsets[1] if first and first == other else None


def _copied_to(tree: Tree, offsets: list[int], older: Tree) -> int | None:
    """The newest batch that both versions hold in the same bytes; of those that a restart could need."""
    both = sorted(set(offsets) & older.numbers("offsets"))
    for batch in reversed(both[-SHOWN_BATCHES:]):
        file = f"offsets/{batch}"
        try:
            if tree.files.get(file) == older.files.get(file) and tree.bytes_of(file) == older.bytes_of(file):
                return batch
        except Malformed:
            continue
    return None
