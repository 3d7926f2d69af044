"""The files of one checkpoint, listed once: what every part of an inspection looks at."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NoReturn, TypeVar

from recovery.checkpoints import read_cache
from recovery.checkpoints.access import carry_access
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import Store

MAX_LOG_BYTES = 1 << 29  # a compacted source log of three million files, where it is held as a whole
MAX_STREAM_BYTES = 1 << 32  # one that is read piece by piece
READERS = 8
PIECE = 1 << 20  # bytes held of a file that is read through
T = TypeVar("T")
MAX_SMALL_BYTES = 1 << 24  # metadata, offsets, commits, operator metadata


@dataclass(frozen=True)
class Tree:
    """Relative file names with sizes, directories, and whether the listing is whole."""

    store: Store
    files: dict[str, int]
    directories: set[str]
    whole: bool = True
    #: sha256 of the files that were read
    digests: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _children_by_folder(self) -> dict[str, set[str]]:
        children: dict[str, set[str]] = {}
        for name in (*self.files, *self.directories):
            above, _, last = name.rpartition("/")
            children.setdefault(above, set()).add(last)
        return children

    def names(self, folder: str) -> set[str]:
        """Names directly in a directory."""
        return self._children_by_folder.get(folder, set())

    def numbers(self, folder: str) -> set[int]:
        """Batch ids in offsets/ or commits/: files with numeric names; HDFSMetadataLog passes over directories."""
        return {
            int(n)
            for n in self.names(folder)
            if n.isascii()
            and n.isdigit()
            and len(n) < 19
            and str(int(n)) == n
            and f"{folder}/{n}" in self.files
        }

    def bytes_of(self, name: str, limit: int = MAX_SMALL_BYTES) -> bytes:
        """Content of a log file. Malformed: gone, a directory, or larger than `limit`."""
        return b"".join(self.pieces(name, limit))

    def pieces(self, name: str, limit: int = MAX_STREAM_BYTES) -> Iterator[bytes]:
        """The same, piece by piece. What was read to its end is known by its digest from then on."""
        digest, size = hashlib.sha256(), 0
        if self.files.get(name, 0) > limit:
            raise Malformed(f"it has {self.files[name]} bytes, more than the {limit} read here")
        try:
            with self.store.reading(name) as stream:
                before = read_cache.Inode.of_open_file(stream)
                while piece := stream.read(PIECE):
                    size += len(piece)
                    if size > limit:  # it grew since it was listed, or the store reported a wrong size
                        raise Malformed(f"it has more than the {limit} bytes read here")
                    digest.update(piece)
                    yield piece
                self.digests[name] = digest.hexdigest()
                read_cache.learn_digest(before, read_cache.Inode.of_open_file(stream), self.digests[name])
        except FileNotFoundError as error:
            raise Malformed("it is missing") from error
        except IsADirectoryError as error:
            raise Malformed("it is not a file") from error

    def contents_of(self, names: Sequence[str]) -> dict[str, Callable[[], bytes]]:
        """Name -> what `bytes_of` gives or raises, read several at a time from a store far away."""
        return dict(zip(names, self.each(self._reader_of, names), strict=True))

    def _reader_of(self, name: str) -> Callable[[], bytes]:
        try:
            data = self.bytes_of(name)
        except Malformed as problem:
            return partial(_raise_problem, problem)
        return lambda: data

    def each(self, act: Callable[[str], T], names: Sequence[str]) -> list[T]:
        """`act` on every name, in order; several at a time where a store answers slowly, being far away."""
        if self.store.local:
            return [act(name) for name in names]
        with ThreadPoolExecutor(READERS) as pool:
            return list(pool.map(carry_access(act), names))

    def proven(self, name: str) -> str | None:
        """sha256 (hex) of a local file whose very bytes this process has read already (proofs.py); else None."""
        if name not in self.digests:
            try:
                known = read_cache.digest_of(self.store.inode(name))
            except (FileNotFoundError, IsADirectoryError):
                return None
            if known is not None:
                self.digests[name] = known
        return self.digests.get(name)

    def digest_of(self, name: str) -> str:
        """sha256 (hex) of a file's content; of what was read already, without reading it again."""
        if self.proven(name) is None:
            try:
                limit = MAX_STREAM_BYTES if name.startswith("sources/") else MAX_SMALL_BYTES
                for _ in self.pieces(name, limit):
                    pass
            except Malformed:
                return "unread"  # gone since it was listed, or too large: its name and size stand for it
        return self.digests[name]


def _raise_problem(problem: Malformed) -> NoReturn:
    raise problem
