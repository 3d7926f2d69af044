"""Files of a checkpoint over fsspec: listed and read with bounds, written so that a crash leaves whole files.

All I/O of this room passes here, so that limits, sidecars and the order of writes are decided once.
"""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from recovery.errors import RepriseError, Unreachable, WrongUse

MAX_FILES = 2_000_000
MAX_DEPTH = 7  # state/<operator>/<partition>/<store>/SSTs/<file> and one more; also ends symlink loops
RENAME_NOREPLACE = 1
AT_FDCWD = -100


class TooLarge(Exception):
    """A file is larger than the reader's limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, limit {limit}")
        self.size, self.limit = size, limit


@dataclass(frozen=True)
class Entry:
    """One name in a directory. `mtime_ms` is None where the store does not tell."""

    name: str
    size: int
    is_dir: bool
    mtime_ms: int | None = None


@contextmanager
def reaching(location: str) -> Iterator[None]:
    """Turn a storage failure on the way to `location` into one sentence (Unreachable)."""
    try:
        yield
    except RepriseError:
        raise
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise Unreachable(
            f"{location} cannot be read ({reason}). Check the path and that the storage answers."
        ) from error


@dataclass(frozen=True)
class Store:
    """A directory on a file system. Names given to its methods are relative to it, with `/` between parts."""

    fs: Any
    root: str
    location: str

    @classmethod
    def open(cls, location: str) -> "Store":
        """Path or URL -> Store. Raises WrongUse for a scheme that nobody here can open."""
        if not location or "\0" in location:
            raise WrongUse("No path was given. Name a directory or a URL.")
        try:
            fs, root = fsspec.core.url_to_fs(location)
        except (ValueError, ImportError) as error:
            raise WrongUse(
                f"{location} cannot be opened: {error}. Name a path or a supported URL."
            ) from error
        fs.invalidate_cache()
        return cls(fs, root.rstrip("/") or "/", location.rstrip("/") or "/")

    @property
    def local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    def child(self, name: str) -> "Store":
        return Store(self.fs, self.path(name), f"{self.location.rstrip('/')}/{name}")

    def path(self, name: str = "") -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def exists(self, name: str = "") -> bool:
        return bool(self.fs.exists(self.path(name)))

    def is_dir(self, name: str = "") -> bool:
        return bool(self.fs.isdir(self.path(name)))

    def entries(self, name: str = "") -> list[Entry]:
        """What a directory holds, in the order in which the store lists it. Missing: FileNotFoundError."""
        where = self.path(name)
        if self.local:
            with os.scandir(where) as found:
                return [_local_entry(e) for e in found]
        infos = self.fs.ls(where, detail=True)
        return [e for e in (_entry(i) for i in infos if i["name"].rstrip("/") != where.rstrip("/")) if e.name]

    def walk(self, limit: int = MAX_FILES) -> tuple[dict[str, int], set[str], bool]:
        """(files: relative name -> size, directories, whole): `whole` is False when `limit` ended the walk."""
        files: dict[str, int] = {}
        directories: set[str] = set()
        waiting = [""]
        while waiting:
            above = waiting.pop()
            try:
                found = self.entries(above)
            except (FileNotFoundError, NotADirectoryError):
                if not above:
                    raise
                continue  # gone since it was listed: a running query deletes old files
            for entry in found:
                name = f"{above}/{entry.name}" if above else entry.name
                if not entry.is_dir:
                    files[name] = entry.size
                elif name not in directories:
                    directories.add(name)
                    if name.count("/") < MAX_DEPTH - 1:
                        waiting.append(name)
                if len(files) + len(directories) > limit:
                    return files, directories, False
        return files, directories, True

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file. Raises TooLarge beyond `limit` bytes, FileNotFoundError when it is gone."""
        with self._open(name) as stream:
            data: bytes = stream.read(limit + 1)
        if len(data) > limit:
            raise TooLarge(int(self.fs.info(self.path(name))["size"]), limit)
        return data

    def chunks(self, name: str, size: int = 1 << 20) -> Iterator[bytes]:
        """The bytes of a file, piece by piece."""
        with self._open(name) as stream:
            while piece := stream.read(size):
                yield piece

    def stream(self, name: str) -> Any:
        """A file, open for reading from any place in it; the caller closes it."""
        return self._open(name)

    def _open(self, name: str) -> Any:
        where = self.path(name)
        return Path(where).open("rb") if self.local else self.fs.open(where, "rb")

    def make_dirs(self, name: str = "") -> None:
        self.fs.makedirs(self.path(name), exist_ok=True)

    def write(self, name: str, data: bytes) -> None:
        """A new file, on disk when this returns (local), else as durable as the store's own upload."""
        if not self.local:
            self.fs.pipe_file(self.path(name), data)
            return
        with Path(self.path(name)).open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())

    def copy(self, source: "Store", name: str, to: str) -> None:
        """One file from another place of the same file system, on disk when this returns."""
        if not self.local:
            self.fs.cp_file(source.path(name), self.path(to))
            return
        with Path(source.path(name)).open("rb") as old, Path(self.path(to)).open("xb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())

    def sync(self, name: str = "") -> None:
        """Put a directory's names on disk (local; other stores have no such thing)."""
        if not self.local:
            return
        handle = os.open(self.path(name), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: str, new: str) -> None:
        """Rename; never over something that is there (FileExistsError). Atomic on a local file system."""
        if self.local:
            _rename_free(self.path(old), self.path(new))
            return
        if self.exists(new):
            raise FileExistsError(errno.EEXIST, "is there already", self.path(new))
        self.fs.mv(self.path(old), self.path(new), recursive=True)

    def replace(self, old: str, new: str) -> None:
        """Rename a file over another one."""
        if self.local:
            Path(self.path(old)).replace(self.path(new))
        else:
            self.fs.mv(self.path(old), self.path(new))

    def remove(self, name: str) -> None:
        """Remove a file or a whole directory; what is gone already is fine."""
        if self.exists(name):
            self.fs.rm(self.path(name), recursive=True)


def _local_entry(entry: os.DirEntry[str]) -> Entry:
    try:
        told = entry.stat()
        return Entry(entry.name, told.st_size, entry.is_dir(), told.st_mtime_ns // 1_000_000)
    except OSError:  # a dangling link, or gone since it was listed: a name without content
        return Entry(entry.name, 0, False)


def _entry(info: dict[str, Any]) -> Entry:
    name = info["name"].rstrip("/").rsplit("/", 1)[-1]
    stamp: Any = info.get("mtime") or info.get("LastModified") or info.get("created")
    seconds = stamp.timestamp() if hasattr(stamp, "timestamp") else stamp
    return Entry(
        name,
        int(info.get("size") or 0),
        info.get("type") == "directory",
        int(seconds * 1000) if isinstance(seconds, int | float) else None,
    )


def _rename_free(old: str, new: str) -> None:
    """rename(2) that fails when `new` is there: plain rename replaces an empty directory without a word.

    An empty numbered directory is what a full refresh makes first; putting a seed over it would keep
    positions for a table that was just emptied.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2"):
        done = libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), RENAME_NOREPLACE)
        if done == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise OSError(code, os.strerror(code), new)
    if os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, "is there already", new)
    Path(old).rename(new)
