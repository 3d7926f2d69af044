"""Names in `state/<operator>/<partition>/[<store>/]`: what each file is, without opening it.

`<v>.delta`, `<v>.snapshot` (HDFSBackedStateStoreProvider); `<v>.zip`, `<v>.changelog`, `SSTs/*.sst`,
`logs/*.log` (RocksDBFileManager); `<v>_<uuid>.zip|changelog` with state checkpoint format 2;
`<file>.crc` is Spark's checksum of that file, `.<file>.crc` Hadoop's (LocalFileSystem only).
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field

from recovery.checkpoints.file_listing import Tree

DEFAULT = "default"
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
VERSIONED = re.compile(rf"([1-9][0-9]{{0,17}})(?:_({UUID}))?\.(delta|snapshot|zip|changelog)")
NUMBER = re.compile(r"0|[1-9][0-9]{0,7}")
BASES = ("snapshot", "zip")  # hold the whole state of their version
STEPS = ("delta", "changelog")  # hold what their version changed
ROCKSDB = {"zip", "changelog"}
TEMPORARY = re.compile(r"temp--?[0-9]+")  # of a task of Spark 2 that has not ended, or ended badly
PLACES = ("SSTs", "logs")  # RocksDB's own files, shared by the versions of one store


@dataclass(frozen=True)
class StateFile:
    """One versioned file of a store. `name` is relative to the checkpoint, `size` in bytes."""

    name: str
    #: delta, snapshot, zip, changelog
    kind: str
    version: int
    unique_id: str | None
    size: int


@dataclass
class StoreFiles:
    """One store of one partition: its directory, versioned files, RocksDB's own files, checksum files."""

    partition: int
    store: str
    folder: str
    versioned: list[StateFile] = field(default_factory=list)
    #: name relative to the checkpoint -> bytes
    shared: dict[str, int] = field(default_factory=dict)
    sidecars: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    #: all files, without Hadoop's hidden checksums
    size: int = 0

    def find(self, version: int, kinds: tuple[str, ...], unique_id: str | None) -> StateFile | None:
        """The file of this version, of the first of these kinds that is there."""
        by_key = {(f.version, f.kind, f.unique_id): f for f in self.versioned if f.version == version}
        return next((by_key[k] for k in ((version, kind, unique_id) for kind in kinds) if k in by_key), None)


def parse_name(name: str) -> tuple[int, str | None, str] | None:
    """(version, unique id or None, kind) of a state file's own name; None for any other name."""
    match = VERSIONED.fullmatch(name)
    return (int(match[1]), match[2], match[3]) if match else None


def is_state_data(name: str) -> bool:
    """Is this file of a checkpoint part of some version of the state, rather than a schema or operator metadata?"""
    return name.startswith("state/") and not {"_metadata", "_stateSchema"} & set(name.split("/"))


def partitions_of(tree: Tree, operator: int) -> set[int]:
    """Partition directories of an operator."""
    return {int(n) for n in tree.names(f"state/{operator}") if NUMBER.fullmatch(n)}


def operators_of(tree: Tree) -> set[int]:
    """Operator directories."""
    return {int(n) for n in tree.names("state") if NUMBER.fullmatch(n)}


def stores_of(tree: Tree) -> dict[int, dict[tuple[int, str], StoreFiles]]:
    """Every store of every operator: operator -> (partition, store name) -> its files. One pass over the tree."""
    by_operator: dict[int, dict[tuple[int, str], StoreFiles]] = defaultdict(dict)
    for name, size in tree.files.items():
        if not name.startswith("state/"):
            continue
        parts = name.split("/")
        if len(parts) < 4 or not NUMBER.fullmatch(parts[1]) or not NUMBER.fullmatch(parts[2]):
            continue
        rest = parts[3:]
        store = DEFAULT
        if len(rest) > 1 and rest[0] not in PLACES and rest[0] != "_metadata":
            store, rest = rest[0], rest[1:]
        key = (int(parts[2]), store)
        stores = by_operator[int(parts[1])]
        if key not in stores:
            folder = "/".join(parts[:3] if store == DEFAULT else parts[:4])
            stores[key] = StoreFiles(key[0], store, folder)
        _add_file(stores[key], name, rest, size)
    return dict(by_operator)


def _add_file(store: StoreFiles, name: str, rest: list[str], size: int) -> None:
    last = rest[-1]
    if last.startswith(".") or TEMPORARY.fullmatch(last):
        return
    store.size += size
    if len(rest) == 2 and rest[0] in PLACES:
        store.shared[name] = size
    elif len(rest) == 1 and last.endswith(".crc"):
        store.sidecars.add(name)
    elif len(rest) == 1 and (parsed := parse_name(last)):
        version, unique_id, kind = parsed
        store.versioned.append(StateFile(name, kind, version, unique_id, size))
    elif rest[0] != "_metadata":
        store.unknown.add(name)
