"""Files in folders that other people's code may write, for processes that its jail does not hold.

Such code may leave anything there, at any moment: links to files of ours, a FIFO at which a reader waits for ever, a
folder in the place of a file. So each part of a name is opened from the folder above it and never through a link, and
what is opened is a regular file or nothing.
"""

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_NAMES: Final = 10_000
DEEPEST: Final = 64
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KEPT_OUT: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def split(path: Path, levels: int) -> tuple["ForeignFolder", str]:
    """A path whose last `levels` parts other people's code may have made, as a folder and a name in it."""
    return ForeignFolder(path.parents[levels - 1]), "/".join(path.parts[-levels:])


@dataclass(frozen=True)
class ForeignFolder:
    """A folder and all below it. `root` itself lies where such code can put nothing in its place.

    Names are relative, with `/` between parts. Every failure is an OSError: of the usual kinds, ELOOP or ENOTDIR for a
    link on the way, EINVAL for what is no regular file, EFBIG for what is longer than its bound.
    """

    root: Path

    def open(self, name: str) -> int:
        """A regular file, open for reading."""
        with self._above(name) as (folder, last):
            return _regular(os.open(last, os.O_RDONLY | _KEPT_OUT, dir_fd=folder))

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file. OSError EFBIG where it has more than `limit`."""
        with os.fdopen(self.open(name), "rb") as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
        return data

    def read_end(self, name: str, limit: int) -> bytes:
        """The last bytes of a file, no more than `limit`."""
        with os.fdopen(self.open(name), "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit))
            return stream.read(limit)

    def write(self, name: str, data: bytes, *, at_ns: int | None = None) -> None:
        """A file of mode 0600 with these bytes, whole or not at all, in place of whatever but a folder had its name.

        `at_ns`: the time of its last change, in ns since 1970.
        """
        with self._above(name) as (folder, last):
            draft = f".{uuid.uuid4().hex}"
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _KEPT_OUT, 0o600, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                    if at_ns is not None:
                        os.utime(stream.fileno(), ns=(at_ns, at_ns))
                os.replace(draft, last, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def make_folder(self, name: str) -> None:
        """A folder of mode 0700, and those above it, as far as they are missing."""
        with self._walked(_parts(name), make=True):
            pass

    def provide_folder(self, name: str) -> None:
        """The same for a name right in the root; what is there and is no folder goes."""
        with contextlib.suppress(FileNotFoundError), self._above(name) as (folder, last):
            if not stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(last, dir_fd=folder)
        self.make_folder(name)

    def facts(self, name: str) -> os.stat_result:
        """What the system says of whatever has this name; of a link, of the link itself."""
        with self._above(name) as (folder, last):
            return os.stat(last, dir_fd=folder, follow_symlinks=False)

    def names(self) -> list[str]:
        """What lies right in the root, sorted, whatever it is; no more than MOST_NAMES."""
        with self._walked([]) as folder, os.scandir(folder) as found:
            return sorted(entry.name for entry, _ in zip(found, range(MOST_NAMES), strict=False))

    def files(self, name: str, *, most: int = MOST_NAMES) -> list[str]:
        """Names of the regular files of a folder and of all below it, from the root, sorted.

        OSError EFBIG where it holds more than `most` of anything, or folders in folders deeper than DEEPEST.
        """
        found: list[str] = []
        waiting = [_parts(name)]
        seen = 0
        while waiting:
            above = waiting.pop()
            with self._walked(above) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > most or len(above) > DEEPEST:
                        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.root))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append([*above, entry.name])
                    elif entry.is_file(follow_symlinks=False):
                        found.append("/".join([*above, entry.name]))
        return sorted(found)

    def remove(self, name: str) -> None:
        """Remove whatever has this name, a folder with all that is in it; what is gone already is fine."""
        with contextlib.suppress(FileNotFoundError), self._above(name) as (folder, last):
            if stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                try:
                    shutil.rmtree(last, dir_fd=folder)
                except RecursionError as error:  # deeper than anybody makes folders in earnest
                    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), name) from error
            else:
                os.unlink(last, dir_fd=folder)

    @contextmanager
    def _above(self, name: str) -> Iterator[tuple[int, str]]:
        """(the open folder of a name, its last part)."""
        *above, last = _parts(name)
        with self._walked(above) as folder:
            yield folder, last

    @contextmanager
    def _walked(self, parts: list[str], *, make: bool = False) -> Iterator[int]:
        folder = os.open(self.root, _FOLDER)
        try:
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=folder)
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
    return parts


def _regular(handle: int) -> int:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "is not a regular file")
