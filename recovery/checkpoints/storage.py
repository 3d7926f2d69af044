"""Files of a checkpoint over fsspec: listed and read with bounds, written so that a crash leaves whole files.

All I/O of this room passes here, so that limits, sidecars and the order of writes are decided once.
"""

import errno
import io
import os
import pwd
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from recovery.checkpoints import access, local, read_cache, remote
from recovery.errors import RepriseError, Unreachable, WrongUse

MAX_FILES = 2_000_000
MAX_DEPTH = 7  # state/<operator>/<partition>/<store>/SSTs/<file> and one more; also ends symlink loops
READERS = 16
AHEAD_BYTES = 1 << 18  # a file up to this size is read ahead …
AHEAD_IN_ALL = 1 << 25  # … as long as all of them have no more
# No hard link here, for reasons that a copy does not share (ENOENT, ENOSPC and EIO are not among them).
NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


class TooLarge(Exception):
    """A file is larger than the reader's limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, limit {limit}")
        self.size, self.limit = size, limit


@dataclass(frozen=True)
class DirectoryEntry:
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
    read_ahead: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, location: str) -> "Store":
        """Path or URL -> Store.

        Raises Refused for what is no storage or may not be opened (`remote.connect_store`), WrongUse for what cannot be
        opened here, Unreachable.
        """
        if not isinstance(location, str) or not location or "\0" in location:
            raise WrongUse("No path was given. Name a directory or a URL.")
        try:
            fs, root = remote.connect_store(location)
        except (ValueError, ImportError) as error:
            if missing := remote.missing_client(location):
                raise WrongUse(missing, code="storage_client") from error
            raise WrongUse(
                f"{location} cannot be opened: {error}. Name a path or a supported URL."
            ) from error
        except RepriseError:
            raise
        except Exception as error:  # each client has errors of its own, and so has each way to set it up
            raise Unreachable(
                f"{location} cannot be opened ({type(error).__name__}). Check the address and the storage's settings."
            ) from error
        fs.invalidate_cache()
        return cls(fs, root.rstrip("/") or "/", location.rstrip("/") or "/")

    @property
    def local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    def child(self, name: str) -> "Store":
        return Store(self.fs, self.path(name), f"{self.location.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The directory's own name."""
        return self.root.rstrip("/").rsplit("/", 1)[-1]

    def parent(self) -> "Store":
        """The directory above. Raises WrongUse at the top of a store."""
        above, _, last = self.root.rstrip("/").rpartition("/")
        if not last or "/" not in self.location.rstrip("/"):
            raise WrongUse(f"{self.location} has no directory above it. Name a directory inside a store.")
        return Store(self.fs, above or "/", self.location.rstrip("/").rpartition("/")[0] or "/")

    def path(self, name: str = "") -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def exists(self, name: str = "") -> bool:
        return bool(self.fs.exists(self.path(name)))

    def is_dir(self, name: str = "") -> bool:
        return bool(self.fs.isdir(self.path(name)))

    def identity(self, name: str) -> tuple[int, int] | None:
        """What tells that two names are one directory, so that a link back is not followed (local)."""
        if not self.local:
            return None
        try:
            stat = os.stat(self.path(name))  # noqa: PTH116  # a Path of each costs more than the call
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def entries(self, name: str = "", limit: int | None = None) -> list[DirectoryEntry]:
        """What a directory holds, in the order in which the store lists it. Missing: FileNotFoundError.

        `limit`: no more than so many, where the store lists one by one.
        """
        where = self.path(name)
        if self.local:
            with local.list_directory(where) as listed:
                return [_local_entry(e) for e in islice(listed, limit)]
        infos = self.fs.ls(where, detail=True)
        return [
            e
            for e in (_entry_from_info(i) for i in infos if i["name"].rstrip("/") != where.rstrip("/"))
            if e.name
        ]

    def walk(self, limit: int = MAX_FILES) -> tuple[dict[str, int], set[str], bool]:
        """(files: relative name -> size, directories, whole): `whole` is False when `limit` ended the walk."""
        if not self.local and self.fs.objects:
            return self._list_all(limit)
        files: dict[str, int] = {}
        directories: set[str] = set()
        waiting, visited = [""], {self.identity("")}
        while waiting:
            above = waiting.pop()
            try:
                sizes, folders = self._list_inside(above, limit - len(files) - len(directories) + 1)
            except (FileNotFoundError, NotADirectoryError):
                if not above:
                    raise
                continue  # gone since it was listed: a running query deletes old files
            files.update(sizes)
            for name in folders - directories:
                place = self.identity(name)
                if name.count("/") < MAX_DEPTH - 1 and (place is None or place not in visited):
                    visited.add(place)
                    waiting.append(name)
            directories |= folders
            if len(files) + len(directories) > limit:
                return files, directories, False
        return files, directories, True

    def _list_inside(self, above: str, limit: int) -> tuple[dict[str, int], set[str]]:
        """(files: relative name -> size, directories) right in a directory, `limit` names at most where it can."""
        start = f"{above}/" if above else ""
        if self.local:
            return local.scan_directory(self.path(above), start, limit)
        inside = [e for e in self.entries(above, limit) if e.name not in (".", "..")]  # those would lead out
        sizes = {f"{start}{e.name}": e.size for e in inside if not e.is_dir}
        return sizes, {f"{start}{e.name}" for e in inside if e.is_dir}

    def _list_all(self, limit: int) -> tuple[dict[str, int], set[str], bool]:
        """The same on an object store: one listing of all names instead of one for each directory."""
        files: dict[str, int] = {}
        directories: set[str] = set()
        skip = len(self.root.rstrip("/")) + 1
        for key, size in self.fs.keys(self.root):
            name = key[skip:]
            if name.endswith(remote.LEGACY_MARKER):
                name = f"{name.removesuffix(remote.LEGACY_MARKER)}/"
            if {"", ".", ".."} & set(name.rstrip("/").split("/")):
                continue  # the directory itself; a key that a file system would take for another place
            if not name.endswith("/"):
                files[name] = size
            while (name := name.rpartition("/")[0]) and name not in directories:
                directories.add(name)
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
        with self.reading(name) as stream:
            while piece := stream.read(size):
                yield piece

    def inode(self, name: str) -> read_cache.Inode | None:
        """A local file's identity as an open of it tells; None for bytes in memory or far away.

        Raises FileNotFoundError, IsADirectoryError. An open, since a network file system answers a mere look from
        what it remembers.
        """
        if not self.local:
            return None
        handle = local.open_regular(self.path(name))
        try:
            return read_cache.Inode.of_status(os.fstat(handle))
        finally:
            os.close(handle)

    def owner(self, name: str = "") -> str:
        """The login name of who owns a local file, its number where it has no name; "" where the store does not tell,
        or the file is gone."""
        if not self.local:
            return ""
        try:
            number = os.stat(self.path(name), follow_symlinks=False).st_uid  # noqa: PTH116  # as in `identity`
        except OSError:
            return ""
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)

    def reading(self, name: str) -> Any:
        """A file, open for reading forward; the caller closes it."""
        return self._open(name)

    def prefetch_files(self, sizes: Mapping[str, int]) -> "Store":
        """The same place with the small ones of these files read, several at a time (local: as it is).

        One after the other, a store far away takes minutes. `sizes`: name -> bytes, as listed.
        """
        if self.local:
            return self
        room, wanted = AHEAD_IN_ALL, []
        for name, size in sizes.items():
            if size <= min(AHEAD_BYTES, room):
                room -= size
                wanted.append(name)
        with ThreadPoolExecutor(READERS) as pool:
            contents = dict(zip(wanted, pool.map(access.carry_access(self._read_small), wanted), strict=True))
        return replace(self, read_ahead={name: data for name, data in contents.items() if data is not None})

    def _read_small(self, name: str) -> bytes | None:
        """None: gone, or grown since it was listed; whoever reads it next will see."""
        try:
            return self.read(name, AHEAD_BYTES)
        except (FileNotFoundError, IsADirectoryError, TooLarge):
            return None

    def stream(self, name: str) -> Any:
        """A file, open for reading from any place in it; the caller closes it."""
        if self.local or name in self.read_ahead:
            return self._open(name)
        return self.fs.seekable(self.path(name))

    def _open(self, name: str) -> Any:
        if name in self.read_ahead:
            return io.BytesIO(self.read_ahead[name])
        where = self.path(name)
        return os.fdopen(local.open_regular(where), "rb") if self.local else self.fs.open(where, "rb")

    def make_dirs(self, name: str = "") -> None:
        if self.local:
            local.make_folders(self.path(name))
        else:
            self.fs.makedirs(self.path(name), exist_ok=True)

    def write(self, name: str, data: bytes, *, later: bool = False) -> None:
        """A new file, on disk when this returns (local), else as durable as the store's own upload.

        `later`: the caller will `settle` the directory before anything relies on it.
        """
        if not self.local:
            self.fs.pipe_file(self.path(name), data)
            return
        with os.fdopen(local.new_file(self.path(name)), "wb") as stream:
            stream.write(data)
            stream.flush()
            if not later:
                os.fsync(stream.fileno())

    def link(self, source: "Store", name: str, to: str) -> None:
        """A file of another place under a second name, else a copy of it; on disk after `settle`.

        For files that are written once and only ever removed, as Spark's logs are: both names then have the
        same bytes for good, and removing one leaves the other. A file system without hard links, a border
        between two of them, or a file of someone else gives a copy.
        """
        if not self.local:
            self.fs.cp_file(source.path(name), self.path(to))
            return
        handle = local.open_regular(source.path(name))
        try:
            before = os.fstat(handle)
            with local.folder_of(self.path(to)) as (folder, new):
                os.link(f"/proc/self/fd/{handle}", new, dst_dir_fd=folder, follow_symlinks=True)
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            self._copy_bytes(source, name, to)
        else:
            read_cache.carry_digest(before, os.fstat(handle))
        finally:
            os.close(handle)

    def copy(self, source: "Store", name: str, to: str) -> None:
        """One file from another place, of another file system too; on disk when this returns."""
        if source.fs is not self.fs:
            with source._open(name) as old, self._open_to_write(to) as new:
                shutil.copyfileobj(old, new, 1 << 20)
            return
        if not self.local:
            self.fs.cp_file(source.path(name), self.path(to))
            return
        self._copy_bytes(source, name, to)
        local.sync_path(self.path(to))

    def _copy_bytes(self, source: "Store", name: str, to: str) -> None:
        with source._open(name) as old, os.fdopen(local.new_file(self.path(to)), "wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)

    def _open_to_write(self, name: str) -> Any:
        where = self.path(name)
        if not self.local:
            return self.fs.open(where, "wb")
        return os.fdopen(local.new_file(where, replacing=True), "wb")

    def settle(self, name: str = "") -> None:
        """Put a directory and all below it on disk (local): the bytes of files first, then all names.

        Of files their bytes and what is needed to read them (fdatasync): a second name of a file that is on disk
        then costs nothing. Several at a time, so that a journal takes them in one commit instead of one each.
        """
        if not self.local:
            return
        local.sync_tree(self.path(name))

    def sync(self, name: str = "") -> None:
        """Put a directory's names on disk (local; other stores have no such thing)."""
        if self.local:
            local.sync_path(self.path(name))

    def rename(self, old: str, new: str) -> None:
        """Rename; never over something that is there (FileExistsError). Atomic on a local file system."""
        if self.local:
            local.rename_free(self.path(old), self.path(new))
            return
        if self.exists(new):
            raise FileExistsError(errno.EEXIST, "is there already", self.path(new))
        self.fs.mv(self.path(old), self.path(new), recursive=True)

    def replace(self, old: str, new: str) -> None:
        """Rename a file over another one."""
        if self.local:
            local.replace_file(self.path(old), self.path(new))
        else:
            self.fs.mv(self.path(old), self.path(new))

    def remove(self, name: str) -> None:
        """Remove a file or a whole directory; what is gone already is fine."""
        if self.local:
            local.remove_path(self.path(name))
        elif self.exists(name):
            self.fs.rm(self.path(name), recursive=True)


def _local_entry(entry: os.DirEntry[str]) -> DirectoryEntry:
    try:
        stat = entry.stat()
        return DirectoryEntry(entry.name, stat.st_size, entry.is_dir(), stat.st_mtime_ns // 1_000_000)
    except OSError:  # a dangling link, or gone since it was listed: a name without content
        return DirectoryEntry(entry.name, 0, False)


def _entry_from_info(info: dict[str, Any]) -> DirectoryEntry:
    name = info["name"].rstrip("/").rsplit("/", 1)[-1]
    stamp: Any = info.get("mtime") or info.get("LastModified") or info.get("created")
    seconds = stamp.timestamp() if hasattr(stamp, "timestamp") else stamp
    return DirectoryEntry(
        name,
        int(info.get("size") or 0),
        info.get("type") == "directory",
        int(seconds * 1000) if isinstance(seconds, int | float) else None,
    )
