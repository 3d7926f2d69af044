"""Whether the files of an operator make up the version that a restart loads, and which earlier ones."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding
from recovery.checkpoints.state.chain import Chain, chain, kind_of, loadable
from recovery.checkpoints.state.history import History
from recovery.checkpoints.state.ids import ids_of_store
from recovery.checkpoints.state.names import DEFAULT, StoreFiles
from recovery.checkpoints.state.needed import Unreadable, read_snapshot, store_chain
from recovery.checkpoints.state.rocksdb import Snapshot
from recovery.checkpoints.tree import Tree

THREADS = 8
SHOWN = 20  # findings of one operator: what is wrong with two hundred partitions is said once
JOIN_ROWS = "keyWithIndexToValue"  # the stores of a join whose keys are its rows


@dataclass(frozen=True)
class Judged:
    """`rows` at the restart's version, `back`: committed batches whose state is whole by name."""

    rows: int | None = None
    back: tuple[int, ...] = ()


@dataclass
class Examined:
    """One store at the version that a restart loads."""

    store: StoreFiles
    links: Chain | None = None
    snapshot: Snapshot | None = None
    damaged: list[tuple[str, Malformed]] = field(default_factory=list)


def judge_files(
    tree: Tree,
    number: int,
    version: int,
    names: Sequence[str],
    partitions: Sequence[int],
    stores: Mapping[tuple[int, str], StoreFiles],
    history: History,
    findings: list[Finding],
) -> Judged:
    """Findings for the version that a restart loads and for holes among the earlier ones."""
    ids = history.ids(number, version)
    unique = any(f.unique_id for store in stores.values() for f in store.versioned)
    mine = [
        stores.get((p, s)) or StoreFiles(p, s, f"state/{number}/{p}" + ("" if s == DEFAULT else f"/{s}"))
        for p in partitions
        for s in names
    ]
    histories = [history.ids_of(number, store, names) if unique else None for store in mine]
    back = _back(history, [loadable(store, told) for store, told in zip(mine, histories, strict=True)])
    words = {"operator": number, "version": version, "back": back[-1] if back else "(none is whole)"}
    found: list[Finding] = []
    if unique and ids is None:
        found.append(finding("STATE_IDS_MISSING", f"commits/{version - 1}", batch=version - 1, **words))
    kind = kind_of(stores.values())

    def look(store: StoreFiles) -> Examined:
        told = ids_of_store(store, names, ids, store.partition, version)
        return _examine(tree, store, version, told, kind)

    with ThreadPoolExecutor(THREADS) as pool:
        examined = [] if unique and ids is None else list(pool.map(look, mine))
    found += [f for one in examined for f in _judge_store(tree, one, words)]
    found += _gaps(number, back, mine, histories, kind, history)
    findings += found[:SHOWN]
    return Judged(_rows(examined), back)


def _examine(
    tree: Tree, store: StoreFiles, version: int, unique_id: str | None, kind: str | None
) -> Examined:
    one = Examined(store)
    try:
        one.links = store_chain(tree, store, version, unique_id, kind)
        one.damaged += [(f.name, Malformed("it is empty")) for f in one.links.files if not f.size]
        if not one.damaged:
            one.snapshot = read_snapshot(tree, one.links)
    except Unreadable as problem:
        one.damaged.append((problem.file, problem))
    return one


def _judge_store(tree: Tree, one: Examined, words: Mapping[str, object]) -> Iterator[Finding]:
    store = one.store
    for name, problem in one.damaged:
        if problem.newer:
            told = {"operator": words["operator"], "version": problem.newer}
            yield finding("STATE_NEWER_FORMAT", name, **told)
        else:
            yield finding("STATE_FILE_DAMAGED", name, why=problem.why, **words)
    if one.links and one.links.missing:
        if store.store != DEFAULT and not store.versioned:
            told = {"operator": words["operator"], "partition": store.partition, "store": store.store}
            yield finding("STATE_STORE_MISSING", store.folder, **told)
        else:
            yield finding("STATE_FILE_MISSING", one.links.missing, **words)
    if one.snapshot and one.links and one.links.base:
        for name, size in one.snapshot.files.items():
            file = f"{store.folder}/{name}"
            if file not in tree.files:
                yield finding("STATE_SST_MISSING", file, zip=one.links.base.name, **words)
            elif size and tree.files[file] != size:
                why = f"it has {tree.files[file]} bytes, and {one.links.base.name} says {size}"
                yield finding("STATE_FILE_DAMAGED", file, why=why, **words)


def _back(history: History, whole: list[set[int]]) -> tuple[int, ...]:
    """Committed batches whose offsets are there and whose state is whole in every store."""
    offsets = history.tree.numbers("offsets")
    common = set.intersection(*whole) if whole else set()
    return tuple(b for b in history.batches if b in offsets and b + 1 in common)


def _gaps(
    number: int,
    back: Sequence[int],
    mine: Sequence[StoreFiles],
    histories: Sequence[dict[int, str] | None],
    kind: str | None,
    history: History,
) -> list[Finding]:
    """A hole below a version that can be loaded; what lies below every file was cleaned up, and is no damage."""
    oldest = max((min((f.version for f in s.versioned), default=1) for s in mine), default=1)
    lost = [b for b in history.batches if b not in back and back and oldest <= b + 1 <= back[-1]]
    for store, told in zip(mine, histories, strict=True) if lost else ():
        for batch in lost:
            if missing := chain(store, batch + 1, told, kind).missing:
                first, last = lost[0], lost[-1]
                span = {"first": first + 1, "last": last + 1, "first_batch": first, "last_batch": last}
                return [finding("STATE_GAP", missing, operator=number, **span)]
    return []


def _rows(examined: Sequence[Examined]) -> int | None:
    """Keys as RocksDB counted them, where every store has a snapshot of the very version."""
    if any(JOIN_ROWS in one.store.store for one in examined):
        examined = [one for one in examined if JOIN_ROWS in one.store.store]
    counts = [
        one.snapshot.rows if one.snapshot and one.links and not one.links.steps else None for one in examined
    ]
    known = [n for n in counts if n is not None]
    return sum(known) if known and len(known) == len(counts) else None
