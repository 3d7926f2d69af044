"""What this process has read already, and may say again without reading: bounded, and never of a guess.

An inode whose device, number, size, mtime and ctime are those under which its bytes were read still holds these
bytes: whoever writes into a file moves its mtime, and whoever sets the mtime back moves its ctime, which no one can
set. Clocks of file systems are coarse, so an inode that has moved within the last seconds proves nothing. A second
name (a hard link) moves the ctime too; `carry` takes the proof along over the one that is made here.
"""

import io
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

UNSURE_NS = 2_000_000_000  # the coarsest mtime of a file system that is met (FAT: two seconds)
MAX_INODES = 1 << 14

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The last `room` values that were put in or asked for. Threads may share it."""

    def __init__(self, room: int) -> None:
        self._room, self._held, self._lock = room, OrderedDict[K, V](), Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._room:
                self._held.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()


@dataclass(frozen=True, slots=True)
class Inode:
    """A file's identity and all that tells whether it was written to. Times in nanoseconds."""

    device: int
    number: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of_status(cls, status: os.stat_result) -> "Inode":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @classmethod
    def of_open_file(cls, stream: Any) -> "Inode | None":
        """Of an open local file; None for bytes in memory or far away."""
        if not isinstance(getattr(stream, "raw", None), io.FileIO):
            return None
        status = os.fstat(stream.fileno())
        return cls.of_status(status) if stat.S_ISREG(status.st_mode) else None


_DIGESTS: Recent[Inode, str] = Recent(MAX_INODES)


def digest_of(inode: Inode | None) -> str | None:
    """sha256 (hex) of the bytes that were read of this very inode; None where that is not proven."""
    return None if inode is None else _DIGESTS.get(inode)


def learn_digest(before: Inode | None, after: Inode | None, digest: str) -> None:
    """The bytes read between two looks at an inode have this digest. Of no use where it moved meanwhile or lately."""
    if before is None or before != after:
        return
    if time.time_ns() - max(before.mtime_ns, before.ctime_ns) > UNSURE_NS:
        _DIGESTS.put(before, digest)


def carry_digest(before: os.stat_result, after: os.stat_result) -> None:
    """A link made here, between these two looks, has moved the ctime of an inode and nothing else of it."""
    old, new = Inode.of_status(before), Inode.of_status(after)
    known = _DIGESTS.get(old)
    same = (old.device, old.number, old.size, old.mtime_ns) == (
        new.device,
        new.number,
        new.size,
        new.mtime_ns,
    )
    if known and same and after.st_nlink == before.st_nlink + 1:
        _DIGESTS.put(new, known)


def forget_digests() -> None:
    """As a process that has just begun."""
    _DIGESTS.clear()
