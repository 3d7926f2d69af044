"""The files of `state/<operator>` that a restart from one version reads: what a copy must hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state.chain import chain_of_version
from recovery.checkpoints.state.ids import ids_of_store, lineage_of
from recovery.checkpoints.state.metadata import UNKNOWN, OperatorMetadata, metadata_file, parse_metadata
from recovery.checkpoints.state.names import NUMBER, StateFile, StoreFiles, stores_of
from recovery.checkpoints.state.rocksdb import RocksDbSnapshot, parse_snapshot


@dataclass(frozen=True)
class NeededFiles:
    """`files`: names relative to the checkpoint that are there, ascending. `missing`: names that are not.

    `unreadable`: files that had to be opened (zips, changelogs of format 2) and are damaged, with the reason.
    """

    files: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


def files_needed(
    tree: Tree, operator: int, version: int, ids: Sequence[Sequence[str]] | None = None
) -> NeededFiles:
    """What a restart that loads state `version` of one operator reads: state files, metadata and schemas.

    `version`: a restart after committed batch N loads N + 1; 0 is the empty state, of which no file is kept.
    `ids`: with state checkpoint format 2 the commit file's `stateUniqueIds[operator]`, a list of unique ids (one
    per store, in the order of the operator metadata) for each partition; None with format 1. For a store: the
    newest snapshot or zip at or below `version`, the SST and log files that the zip names, every delta or changelog
    after it, and Spark's checksum files of these. Hadoop's hidden `.<name>.crc` are left out: a copy has its own.
    Opens each zip (its metadata), and with format 2 the changelog of `version` where it has no zip (its lineage).
    Raises OSError when the store fails; damage is reported in the answer.
    """
    stores = stores_of(tree).get(operator, {})
    names = _read_metadata(tree, operator, version).store_names
    files, missing, unreadable = set(_list_described_files(tree, operator, version)), [], []
    for (partition, name), store in sorted(stores.items()):
        if version == 0 or (names != UNKNOWN.store_names and name not in names):
            continue
        try:
            unique_id = ids_of_store(store, names, ids, partition, version)
            links = chain_of_version(store, version, store_ids(tree, store, version, unique_id))
            base = links.base
            snapshot = read_snapshot(tree, base) if base and base.kind == "zip" else None
        except UnreadableState as problem:
            unreadable.append((problem.file, problem.why))
            continue
        needed = [f.name for f in links.files]
        beside = [f"{store.folder}/{n}" for n in (snapshot.files if snapshot else ())]
        files.update(needed, (n for n in beside if n in tree.files))
        files.update(f"{n}.crc" for n in needed if f"{n}.crc" in store.sidecars)
        missing += [links.missing] if links.missing else []
        missing += [n for n in beside if n not in tree.files]
    return NeededFiles(tuple(sorted(files)), tuple(missing), tuple(unreadable))


class UnreadableState(Malformed):
    """A state file that had to be opened is damaged."""

    def __init__(self, file: str, problem: Malformed) -> None:
        super().__init__(problem.why, problem.newer)
        self.file = file


def store_ids(tree: Tree, store: StoreFiles, version: int, unique_id: str | None) -> dict[int, str] | None:
    """Unique ids that lead to `version`, None with format 1. Raises Unreadable."""
    if unique_id is None:
        return None
    try:
        return lineage_of(tree, store, version, unique_id)
    except Malformed as problem:
        raise UnreadableState(f"{store.folder}/{version}_{unique_id}.changelog", problem) from problem


def read_snapshot(tree: Tree, zipped: StateFile) -> RocksDbSnapshot:
    """The metadata of a zip. Raises Unreadable."""
    try:
        with tree.store.stream(zipped.name) as stream:
            return parse_snapshot(stream)
    except FileNotFoundError as error:
        raise UnreadableState(zipped.name, Malformed("it is missing")) from error
    except Malformed as problem:
        raise UnreadableState(zipped.name, problem) from problem


def _read_metadata(tree: Tree, operator: int, version: int) -> OperatorMetadata:
    file = metadata_file(tree, operator, version)
    try:
        return parse_metadata(tree.bytes_of(file)) if file else UNKNOWN
    except Malformed:
        return UNKNOWN


def _list_described_files(tree: Tree, operator: int, version: int) -> list[str]:
    """Metadata and schema files; those of transformWithState that a batch wrote only up to that batch."""
    names = []
    above = f"state/{operator}/"
    for name in tree.files:
        parts = name[len(above) :].split("/") if name.startswith(above) else []
        if not parts or parts[-1].startswith("."):
            continue
        if parts[0] == "_metadata":
            early = parts[1] != "v2" or (NUMBER.fullmatch(parts[-1]) and int(parts[-1]) < max(version, 1))
            names += [name] if early else []
        elif parts[0] == "_stateSchema" or "_metadata" in parts[1:-1]:
            names.append(name)
    return names
