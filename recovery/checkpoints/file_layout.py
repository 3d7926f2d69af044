"""The files of a checkpoint that does not exist yet: some kept from one that does, some written new.

A layout is read by the same reader as a real checkpoint, so what a repair, a rollback or a copy will give is
judged before a byte is written; then it is written, and must read back with the same fingerprint.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from recovery.checkpoints.read_cache import Inode
from recovery.checkpoints.remote import AT_ONCE, ParallelActs
from recovery.checkpoints.storage import MAX_FILES, DirectoryEntry, Store
from recovery.checkpoints.undo_record import Guard
from recovery.errors import Refused

# metadata last: without it no Spark takes the directory for a checkpoint
ORDER = ("state", "sources", "offsets", "commits")


@dataclass(frozen=True)
class CheckpointFile:
    """A file of an existing checkpoint, as it is."""

    store: Store
    name: str
    size: int


@dataclass
class Layout:
    """Relative name -> where its bytes come from. `directories` may hold ones without files."""

    files: dict[str, CheckpointFile | bytes] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data
        self._note_directories(name)

    def keep(self, kept: CheckpointFile, name: str) -> None:
        self.files[name] = kept
        self._note_directories(name)

    def leave_out(self, name: str) -> None:
        self.files.pop(name, None)

    def names(self, folder: str) -> set[str]:
        """File names directly in a directory."""
        start = f"{folder}/"
        return {n[len(start) :] for n in self.files if n.startswith(start) and "/" not in n[len(start) :]}

    def below(self, folder: str) -> Iterable[str]:
        return [n for n in self.files if n.startswith(f"{folder}/")]

    def _note_directories(self, name: str) -> None:
        while "/" in name:
            name = name.rpartition("/")[0]
            self.directories.add(name)


@dataclass(frozen=True)
class LaidStore(Store):
    """A layout that reads like a directory. Nothing can be written to it."""

    layout: Layout = field(default_factory=Layout)

    def walk(self, limit: int = MAX_FILES) -> tuple[dict[str, int], set[str], bool]:
        files = {n: len(o) if isinstance(o, bytes) else o.size for n, o in self.layout.files.items()}
        return files, set(self.layout.directories), len(files) <= limit

    def entries(self, name: str = "", limit: int | None = None) -> list[DirectoryEntry]:
        start = f"{name}/" if name else ""
        names = {n[len(start) :].partition("/")[0] for n in self.layout.directories if n.startswith(start)}
        files, _, _ = self.walk()
        inside = {n[len(start) :]: size for n, size in files.items() if n.startswith(start)}
        here = [DirectoryEntry(n, 0, True) for n in sorted(names - {""})]
        here += [DirectoryEntry(n, size, False) for n, size in inside.items() if "/" not in n]
        return here[:limit]

    def stream(self, name: str) -> Any:
        origin = self._origin_of(name)
        return io.BytesIO(origin) if isinstance(origin, bytes) else origin.store.stream(origin.name)

    def _open(self, name: str) -> Any:
        origin = self._origin_of(name)
        return io.BytesIO(origin) if isinstance(origin, bytes) else origin.store._open(origin.name)

    def inode(self, name: str) -> Inode | None:
        origin = self._origin_of(name)
        return None if isinstance(origin, bytes) else origin.store.inode(origin.name)

    def _origin_of(self, name: str) -> CheckpointFile | bytes:
        origin = self.layout.files.get(name)
        if origin is None:
            raise FileNotFoundError(name)
        return origin


def lay_out(layout: Layout, old: Store, target: str | None = None) -> LaidStore:
    """The layout, made from `old`, as a store to read from. `target`: where it will lie, for paths that say so."""
    return LaidStore(old.fs, old.root, target or old.location, layout=layout)


def layout_of(store: Store) -> Layout:
    """All files of a checkpoint but hidden ones: sidecars and half-written files of the file system.

    Hadoop's `.<name>.crc` are left out because none is better than a stale one. Raises Refused where there are
    more files than are ever listed: a part of them would be no checkpoint.
    """
    files, directories, whole = store.walk()
    if not whole:
        raise Refused(
            f"{store.location} has more than {MAX_FILES} files; it is not taken along. Check the path."
        )
    return Layout(
        {n: CheckpointFile(store, n, size) for n, size in files.items() if not _is_hidden(n)},
        {d for d in directories if not _is_hidden(d)},
    )


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def write_layout(layout: Layout, new: Store, guard: Guard) -> None:
    """Write all files below `new`: state, sources, offsets, commits, the rest, metadata last.

    Local files one after the other; far away several at a time, begun in this order, and what is at the top when
    all else is there. Files that are kept are linked where the store can: Spark writes each of them once, replaces it
    by a rename if ever, and so leaves the other name alone. All is put on disk in one go at the end.
    `guard` is called before each directory and each file of a log.
    """
    folders: dict[str, list[str]] = {d: [] for d in layout.directories}
    for name in layout.files:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    new.make_dirs()
    with ParallelActs(0 if new.local else AT_ONCE) as crew:
        for folder in sorted(folders, key=_rank_folder):
            guard()
            if folder:
                new.make_dirs(folder)
            else:
                crew.wait()
            for name in sorted(folders[folder], key=lambda n: (n == "metadata", n)):
                if name == "metadata":
                    crew.wait()
                if not folder.startswith("state"):
                    guard()
                crew.do(partial(_write_file, layout.files[name], new, name))
    guard()
    new.settle()


def _rank_folder(folder: str) -> tuple[bool, int, str]:
    part = folder.split("/", 1)[0]
    return (not folder, ORDER.index(part) if part in ORDER else len(ORDER), folder)


def _write_file(origin: CheckpointFile | bytes, new: Store, name: str) -> None:
    if isinstance(origin, bytes):
        new.write(name, origin, later=True)
    else:
        new.link(origin.store, origin.name, name)
