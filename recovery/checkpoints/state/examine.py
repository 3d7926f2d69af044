"""One store at the version that a restart loads: the files that Spark will take, and what is wrong with them.

A whole state (`snapshot`, `zip`) that cannot be loaded is not the end: Spark then takes an older one, or the empty
version 0, with every change after it (AutoSnapshotLoader, since 4.1, on unless
spark.sql.streaming.stateStore.autoSnapshotRepair.enabled is false). A change that cannot be read is the end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state.chain import Chain, chain_of_version
from recovery.checkpoints.state.ids import lineage_of
from recovery.checkpoints.state.names import StateFile, StoreFiles
from recovery.checkpoints.state.needed import UnreadableState, read_snapshot, store_ids
from recovery.checkpoints.state.rocksdb import RocksDbSnapshot
from recovery.checkpoints.state.sst import BlockDamaged

MAX_REPLAY = 500  # the default of autoSnapshotRepair.maxChangeFileReplay


@dataclass(frozen=True)
class BadFile:
    """A file that cannot be read; `missing_of`: the zip that names it, where it is not there at all."""

    file: str
    problem: Malformed
    missing_of: str | None = None


@dataclass
class ExaminedChain:
    """`links`: what Spark loads in the end; None where not known. `bases`, `steps`: what is damaged."""

    store: StoreFiles
    links: Chain | None = None
    snapshot: RocksDbSnapshot | None = None
    bases: list[BadFile] = field(default_factory=list)
    steps: list[BadFile] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether Spark can load the version; past a damaged base it replays so many changes and no more."""
        if self.links is None or self.links.missing or self.steps:
            return False
        return not self.bases or len(self.links.steps) <= MAX_REPLAY

    @property
    def rows(self) -> int | None:
        """Keys, where a snapshot of this very version tells them."""
        return self.snapshot.rows if self.snapshot and self.links and not self.links.steps else None


def examine_store(
    tree: Tree,
    store: StoreFiles,
    version: int,
    unique_id: str | None,
    kind: str | None,
    problems: Mapping[str, Malformed],
) -> ExaminedChain:
    """`unique_id`: with format 2; `kind`: as for `chain`; `problems`: of a deep look, by file."""
    examined = ExaminedChain(store)
    try:
        ids = store_ids(tree, store, version, unique_id)
    except UnreadableState as bad:
        examined.steps.append(BadFile(bad.file, bad))
        return examined
    useless: set[str] = set()
    while True:
        examined.links = chain_of_version(store, version, ids, kind, useless)
        base, examined.snapshot = examined.links.base, None
        if base is None:
            break
        damages = list(_check_base(tree, examined, base, problems))
        if damages and all(isinstance(bad.problem, BlockDamaged) for bad in damages):
            examined.steps += (
                damages  # it loads, so that Spark looks for nothing older; the query fails on the way
            )
            break
        if not damages:
            break
        examined.bases += damages
        useless.add(base.name)
        ids = _ids_behind_damage(tree, store, base, ids)
    examined.steps += [bad for file in examined.links.steps for bad in _check_own_file(file, problems)]
    return examined


def _ids_behind_damage(
    tree: Tree, store: StoreFiles, base: StateFile, ids: dict[int, str] | None
) -> dict[int, str] | None:
    """Unique ids of the versions before a damaged zip of format 2: the changelog of the same version has them.

    Where the zip is missing and not damaged, Spark 4.2 does not look there.
    """
    if ids is None or base.unique_id is None:
        return ids
    try:
        return lineage_of(tree, store, base.version, base.unique_id, past_zip=True) | ids
    except Malformed:
        return ids


def _check_own_file(file: StateFile, problems: Mapping[str, Malformed]) -> Iterator[BadFile]:
    if not file.size:
        yield BadFile(file.name, Malformed("it is empty"))
    elif file.name in problems:
        yield BadFile(file.name, problems[file.name])


def _check_base(
    tree: Tree, examined: ExaminedChain, base: StateFile, problems: Mapping[str, Malformed]
) -> Iterator[BadFile]:
    """What is wrong with a snapshot, or with a zip and the SST files that it names."""
    own = list(_check_own_file(base, problems))
    if own or base.kind != "zip":
        yield from own
        return
    try:
        examined.snapshot = read_snapshot(tree, base)
    except UnreadableState as bad:
        yield BadFile(bad.file, bad)
        return
    for name, size in examined.snapshot.files.items():
        file = f"{examined.store.folder}/{name}"
        here = tree.files.get(file)
        if here is None:
            yield BadFile(file, Malformed(f"it is missing, and {base.name} names it"), base.name)
        elif size and here != size:
            yield BadFile(file, Malformed(f"it has {here} bytes, and {base.name} says {size}"))
        elif file in problems:
            yield BadFile(file, problems[file])
