"""Files of a checkpoint over fsspec: listed and read with bounds, written so that a crash leaves whole files.

All I/O of this room passes here, so that limits, sidecars and the order of writes are decided once.
"""

import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from recovery.errors import RepriseError, Unreachable, WrongUse

MAX_FILES = 2_000_000
MAX_DEPTH = 7  # state/<operator>/<partition>/<store>/SSTs/<file> and one more; also ends symlink loops
RENAME_NOREPLACE = 1
AT_FDCWD = -100
SYNCERS = 16
# No hard link here, for reasons that a copy does not share (ENOENT, ENOSPC and EIO are not among them).
NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


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

    def _identity(self, name: str) -> tuple[int, int] | None:
        """What tells that two names are one directory, so that a link back is not followed (local)."""
        if not self.local:
            return None
        try:
            told = Path(self.path(name)).stat()
        except OSError:
            return None
        return told.st_dev, told.st_ino

    def entries(self, name: str = "", limit: int | None = None) -> list[Entry]:
        """What a directory holds, in the order in which the store lists it. Missing: FileNotFoundError.

        `limit`: no more than so many, where the store lists one by one.
        """
        where = self.path(name)
        if self.local:
            with os.scandir(where) as found:
                return [_local_entry(e) for e in islice(found, limit)]
        infos = self.fs.ls(where, detail=True)
        return [e for e in (_entry(i) for i in infos if i["name"].rstrip("/") != where.rstrip("/")) if e.name]

    def walk(self, limit: int = MAX_FILES) -> tuple[dict[str, int], set[str], bool]:
        """(files: relative name -> size, directories, whole): `whole` is False when `limit` ended the walk."""
        files: dict[str, int] = {}
        directories: set[str] = set()
        waiting, visited = [""], {self._identity("")}
        while waiting:
            above = waiting.pop()
            try:
                found = self.entries(above, limit + 1)
            except (FileNotFoundError, NotADirectoryError):
                if not above:
                    raise
                continue  # gone since it was listed: a running query deletes old files
            for entry in found:
                if entry.name in (".", ".."):
                    continue  # a store that lists these would lead out of the directory
                name = f"{above}/{entry.name}" if above else entry.name
                if not entry.is_dir:
                    files[name] = entry.size
                elif name not in directories:
                    directories.add(name)
                    place = self._identity(name)
                    if name.count("/") < MAX_DEPTH - 1 and (place is None or place not in visited):
                        visited.add(place)
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
        return os.fdopen(_regular(where), "rb") if self.local else self.fs.open(where, "rb")

    def make_dirs(self, name: str = "") -> None:
        self.fs.makedirs(self.path(name), exist_ok=True)

    def write(self, name: str, data: bytes, *, later: bool = False) -> None:
        """A new file, on disk when this returns (local), else as durable as the store's own upload.

        `later`: the caller will `settle` the directory before anything relies on it.
        """
        if not self.local:
            self.fs.pipe_file(self.path(name), data)
            return
        with Path(self.path(name)).open("xb") as stream:
            stream.write(data)
            stream.flush()
            if not later:
                os.fsync(stream.fileno())

    def link(self, source: "Store", name: str, to: str) -> None:
        """A file of another place under a second name, else a copy of it; on disk after `settle`.

        For files that are written once and only ever removed, as Spark's logs are: both names then have the
        same bytes for good, and removing one leaves the other. A file system without hard links, a border
        between two of them, or a file of somebody else gives a copy.
        """
        if not self.local:
            self.fs.cp_file(source.path(name), self.path(to))
            return
        try:
            os.link(source.path(name), self.path(to), follow_symlinks=True)
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            self._copied(source, name, to)

    def copy(self, source: "Store", name: str, to: str) -> None:
        """One file from another place of the same file system, on disk when this returns."""
        if not self.local:
            self.fs.cp_file(source.path(name), self.path(to))
            return
        self._copied(source, name, to)
        _sync(self.path(to))

    def _copied(self, source: "Store", name: str, to: str) -> None:
        with Path(source.path(name)).open("rb") as old, Path(self.path(to)).open("xb") as new:
            shutil.copyfileobj(old, new, 1 << 20)

    def settle(self, name: str = "") -> None:
        """Put a directory and all below it on disk (local): files first, several at a time, then names.

        Several at a time, because a journal then takes them in one commit instead of one each.
        """
        if not self.local:
            return
        above = [(where, files) for where, _, files in os.walk(self.path(name))]
        with ThreadPoolExecutor(SYNCERS) as pool:
            list(pool.map(_sync, [f"{where}/{file}" for where, files in above for file in files]))
            list(pool.map(_sync, [where for where, _ in above]))

    def sync(self, name: str = "") -> None:
        """Put a directory's names on disk (local; other stores have no such thing)."""
        if self.local:
            _sync(self.path(name))

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


def _regular(path: str) -> int:
    """Opens a file, and nothing that would wait for ever or is no file: IsADirectoryError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link to itself, a socket
            raise IsADirectoryError(errno.EISDIR, "is not a file", path) from error
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise IsADirectoryError(errno.EISDIR, "is not a file", path)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
