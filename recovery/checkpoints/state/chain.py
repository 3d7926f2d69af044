"""Which files make up one version of one store, and which of them are missing. Names only, no file is opened.

Version v is the newest whole state (`snapshot`, `zip`) at or below v and every change (`delta`, `changelog`)
after it; version 0 is empty (HDFSBackedStateStoreProvider.loadMap, RocksDB.load). With state checkpoint format 2
each version has one unique id, and only files that carry it count (RocksDB.loadWithCheckpointId).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from recovery.checkpoints.state.names import BASES, STEPS, StateFile, StoreFiles

Ids = Mapping[int, str]  # version -> unique id


@dataclass(frozen=True)
class Chain:
    """`base` is None where the chain begins at the empty version 0. `missing`: the first file that breaks it."""

    version: int
    base: StateFile | None
    steps: tuple[StateFile, ...]
    missing: str | None = None

    @property
    def files(self) -> tuple[StateFile, ...]:
        return ((self.base,) if self.base else ()) + self.steps


def chain_of_version(
    store: StoreFiles,
    version: int,
    ids: Ids | None = None,
    kind: str | None = None,
    without: Collection[str] = (),
) -> Chain:
    """The files of `version`. `ids`: unique ids by version with format 2, None with format 1.

    `kind`: what a missing file is called where the store itself does not show it. `without`: names of files that
    are as good as missing.
    """
    by_key = {(f.version, f.kind, f.unique_id): f for f in store.versioned if f.name not in without}
    steps: list[StateFile] = []
    for at in range(version, 0, -1):
        unique_id = ids.get(at) if ids is not None else None
        if ids is not None and unique_id is None:
            return Chain(version, None, tuple(reversed(steps)), f"{store.folder}/{at}_*")
        base = next((by_key[k] for k in ((at, b, unique_id) for b in BASES) if k in by_key), None)
        if base:
            return Chain(version, base, tuple(reversed(steps)))
        step = next((by_key[k] for k in ((at, s, unique_id) for s in STEPS) if k in by_key), None)
        if step is None:
            name = f"{at}_{unique_id}" if unique_id else str(at)
            missing = f"{store.folder}/{name}.{kind_of([store]) or kind or 'delta'}"
            return Chain(version, None, tuple(reversed(steps)), missing)
        steps.append(step)
    return Chain(version, None, tuple(reversed(steps)))


def kind_of(stores: Iterable[StoreFiles]) -> str | None:
    """The kind of file that these stores write for each version; None where no file is left."""
    kinds = {f.kind for store in stores for f in store.versioned}
    return next((k for k in ("delta", "changelog", "zip") if k in kinds), None)


def loadable_versions(store: StoreFiles, ids: Ids | None = None, without: Collection[str] = ()) -> set[int]:
    """Every version above 0 whose chain is whole `without` some files. Linear in the number of files."""
    here: dict[int, set[str]] = {}
    for file in store.versioned:
        wanted = ids.get(file.version, "?") if ids is not None else None
        if file.unique_id == wanted and file.name not in without:
            here.setdefault(file.version, set()).add(file.kind)
    loadable: set[int] = set()
    for version in sorted(here):
        kinds = here[version]
        follows = version == 1 or version - 1 in loadable
        if kinds & set(BASES) or (kinds & set(STEPS) and follows):
            loadable.add(version)
    return loadable
