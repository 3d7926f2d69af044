"""All versions of a flow's checkpoint, and when each was in use. Only reads; no version's state is listed."""

from dataclasses import dataclass, replace

from recovery.checkpoints import formats
from recovery.checkpoints.batches import listed, numbered
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.tree import Tree

MAX_VERSIONS = 100


@dataclass(frozen=True)
class VersionUse:
    """One version of a flow's checkpoint: which batches it holds and when they were planned (epoch ms).

    `from_ms`, `to_ms`: the oldest and the newest batch that is kept and was planned in this version; Spark deletes
    older files. `seeded_at`: its two oldest offset files are the same bytes, which no batch of Spark's own leaves:
    it was seeded at that batch, and used after it. `why`: what cannot be read.
    """

    number: int
    location: str
    first_batch: int | None = None
    last_planned: int | None = None
    last_committed: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    seeded_at: int | None = None
    query_id: str | None = None
    why: str = ""


def uses(flow_location: str) -> tuple[VersionUse, ...]:
    """Every version in a flow's directory, newest first, a hundred at most; () for a checkpoint without versions.

    Raises Unreachable when the storage fails; a missing directory has no versions.
    """
    with reaching(flow_location):
        store = Store.open(flow_location)
        try:
            names = numbered(store)
        except FileNotFoundError:
            return ()
        newest = sorted(names, reverse=True)[:MAX_VERSIONS]
        return tuple(_use(store.child(names[n]), n) for n in newest)


def _use(store: Store, number: int) -> VersionUse:
    tree = listed(store)
    offsets, commits = sorted(tree.numbers("offsets")), tree.numbers("commits")
    use = VersionUse(number, store.location, last_committed=max(commits, default=None))
    try:
        if "metadata" in tree.files:
            use = replace(use, query_id=formats.parse_metadata(tree.bytes_of("metadata")))
        if not offsets:
            return use
        use = replace(
            use, first_batch=offsets[0], last_planned=offsets[-1], seeded_at=_seeded_at(tree, offsets)
        )
        own = [n for n in offsets if use.seeded_at is None or n > use.seeded_at]
        if not own:
            return use
        first, last = (formats.parse_offsets(tree.bytes_of(f"offsets/{n}")) for n in (own[0], own[-1]))
    except Malformed as problem:
        return replace(use, why=problem.why)
    return replace(use, from_ms=first.timestamp_ms, to_ms=last.timestamp_ms)


def _seeded_at(tree: Tree, offsets: list[int]) -> int | None:
    if len(offsets) < 2 or offsets[1] != offsets[0] + 1:
        return None
    same = tree.bytes_of(f"offsets/{offsets[0]}") == tree.bytes_of(f"offsets/{offsets[1]}")
    return offsets[1] if same else None
