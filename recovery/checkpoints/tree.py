"""The files of one checkpoint, listed once: what every part of an inspection looks at."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import Store, TooLarge

MAX_LOG_BYTES = 1 << 29  # a compacted source log of three million files
MAX_SMALL_BYTES = 1 << 24  # metadata, offsets, commits, operator metadata
KEEP_BYTES = 1 << 18


@dataclass(frozen=True)
class Tree:
    """Relative file names with sizes, directories, and whether the listing is whole."""

    store: Store
    files: dict[str, int]
    directories: set[str]
    whole: bool = True
    _kept: dict[str, bytes] = field(default_factory=dict)

    @cached_property
    def _children(self) -> dict[str, set[str]]:
        children: dict[str, set[str]] = {}
        for name in (*self.files, *self.directories):
            above, _, last = name.rpartition("/")
            children.setdefault(above, set()).add(last)
        return children

    def names(self, folder: str) -> set[str]:
        """Names directly in a directory."""
        return self._children.get(folder, set())

    def numbers(self, folder: str) -> set[int]:
        """Batch ids in offsets/ or commits/: numeric names, as HDFSMetadataLog lists them."""
        return {
            int(n)
            for n in self.names(folder)
            if n.isascii() and n.isdigit() and len(n) < 19 and str(int(n)) == n
        }

    def bytes_of(self, name: str, limit: int = MAX_SMALL_BYTES) -> bytes:
        """Content of a log file. Malformed: gone, a directory, or larger than `limit`."""
        if name in self._kept:
            return self._kept[name]
        try:
            data = self.store.read(name, limit)
        except FileNotFoundError as error:
            raise Malformed("it is missing") from error
        except IsADirectoryError as error:
            raise Malformed("it is a directory") from error
        except TooLarge as error:
            raise Malformed(f"it has {error.size} bytes, more than the {error.limit} read here") from error
        if len(data) <= KEEP_BYTES:
            self._kept[name] = data  # read again for the fingerprint
        return data

    def pieces(self, name: str) -> Iterator[bytes]:
        """Content of a file, piece by piece."""
        if name in self._kept:
            yield self._kept[name]
        else:
            yield from self.store.chunks(name)
