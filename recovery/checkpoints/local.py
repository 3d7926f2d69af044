"""What a local file system needs beyond fsspec: listings, opens, writes, syncs, renames.

Pipelines' code may put a link in the place of any folder, at any moment. So the folder of what is written, renamed or
removed is opened first and judged by where it really is, and then the act names the open folder.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from recovery.checkpoints import access

RENAME_NOREPLACE = 1
SYNCERS = 16
FAR = ("nfs", "cifs", "smb", "fuse", "ceph", "gluster", "lustre", "9p", "afs", "gpfs", "beegfs")
"""How types of file systems begin whose files another machine keeps: they may not answer."""


def mount_of(path: str) -> str:
    """The mount point of another machine's files that this path is on; "" for files of this machine. Touches none.

    Source: proc(5), mountinfo.
    """
    best, kind = "", ""
    try:
        with Path("/proc/self/mountinfo").open() as mounts:
            for line in mounts:
                before, _, after = line.partition(" - ")
                point = before.split(" ")[4].replace("\\040", " ")
                if len(point) >= len(best) and (path == point or path.startswith(f"{point.rstrip('/')}/")):
                    best, kind = point, after.split(" ")[0]
    except (OSError, IndexError):
        return ""
    return best if kind.startswith(FAR) else ""


def scan_directory(where: str, start: str, limit: int) -> tuple[dict[str, int], set[str]]:
    """As `Store._inside`, without an object for each name: a checkpoint has thousands of state files."""
    sizes: dict[str, int] = {}
    folders: set[str] = set()
    with list_directory(where) as entries:
        for entry in islice(entries, limit):
            try:
                if entry.is_dir():
                    folders.add(start + entry.name)
                else:
                    sizes[start + entry.name] = entry.stat().st_size
            except OSError:  # a dangling link, or gone since it was listed: a name without content
                sizes[start + entry.name] = 0
    return sizes, folders


@contextmanager
def list_directory(where: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What a directory holds. Raises Refused where a link brought it to a place that may not be read."""
    handle = _require_allowed(os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    try:
        with os.scandir(handle) as scan:
            yield scan
    finally:
        os.close(handle)


def open_regular(path: str) -> int:
    """Opens a file, and nothing that would wait for ever or is no file: IsADirectoryError. Refused (`storage_hidden`,
    `storage_root`) where a link leads to a place that may not be read: judged is what was opened."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link to itself, a socket
            raise IsADirectoryError(errno.EISDIR, "is not a file", path) from error
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return _require_allowed(handle)
    os.close(handle)
    raise IsADirectoryError(errno.EISDIR, "is not a file", path)


def _require_allowed(handle: int) -> int:
    """What was opened, where it may be; else it is closed. Raises Refused."""
    rules = access.current_access().rules
    if rules.limits_files:
        try:
            rules.check_file(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115  # a Path costs more than the call
        except BaseException:
            os.close(handle)
            raise
    return handle


def _require_changeable(handle: int) -> int:
    """As `_require_allowed`, for a folder below which something is about to change. Raises Refused."""
    _require_allowed(handle)
    rules = access.current_access().rules
    if rules.own_code:
        try:
            rules.check_change(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115  # as in `_require_allowed`
        except BaseException:
            os.close(handle)
            raise
    return handle


@contextmanager
def folder_of(path: str) -> Iterator[tuple[int, str]]:
    """(the open folder in which a path is about to change, the path's last part). Raises Refused."""
    above, _, name = path.rstrip("/").rpartition("/")
    handle = _require_changeable(os.open(above or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    try:
        yield handle, name
    finally:
        os.close(handle)


def new_file(path: str, *, replacing: bool = False) -> int:
    """A file, open for writing: a new one (FileExistsError), or with `replacing` also one that is emptied for it.

    Raises Refused; OSError ELOOP where a link has its name.
    """
    mode = os.O_TRUNC | os.O_NONBLOCK if replacing else os.O_EXCL
    with folder_of(path) as (folder, name):
        return os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | mode, 0o666, dir_fd=folder
        )


def make_folders(path: str) -> None:
    """A folder, and those above it that are missing. Raises Refused where what is there may not be opened."""
    missing: list[str] = []
    at = path.rstrip("/") or "/"
    while True:
        try:
            handle = os.open(at, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            break
        except FileNotFoundError:
            at, _, name = at.rpartition("/")
            at = at or "/"
            missing.append(name)
    handle = _require_changeable(handle)
    try:
        for name in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=handle)
            below = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            os.close(handle)
            handle = below
    finally:
        os.close(handle)


def replace_file(old: str, new: str) -> None:
    """Rename a file over another one. Raises Refused."""
    with folder_of(old) as (from_folder, name), folder_of(new) as (to_folder, new_name):
        os.replace(name, new_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)


def remove_path(path: str) -> None:
    """Remove a file, a link or a whole directory; what is gone already is fine. Raises Refused."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), folder_of(path) as (folder, name):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def sync_tree(root: str) -> None:
    """Put a directory and all below it on disk: the bytes of files first, then all names."""
    above = [(where, files) for where, _, files in os.walk(root)]
    files = [f"{where}/{file}" for where, files in above for file in files]
    with ThreadPoolExecutor(SYNCERS) as pool:
        list(pool.map(partial(_sync_each, os.fdatasync, flags=os.O_NOFOLLOW), _split_names(files)))
        list(pool.map(partial(_sync_each, os.fsync), _split_names([where for where, _ in above])))


def sync_path(path: str) -> None:
    _sync_each(os.fsync, [path])


def _sync_each(how: Callable[[int], None], paths: list[str], *, flags: int = 0) -> None:
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket: nothing of ours
                continue
            raise
        try:
            if stat.S_IFMT(os.fstat(handle).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
                how(handle)
        finally:
            os.close(handle)


def _split_names(names: list[str]) -> list[list[str]]:
    """As many as there are threads at most: one task for each file would cost more than a file that is on disk."""
    return [share for n in range(SYNCERS) if (share := names[n::SYNCERS])]


def rename_free(old: str, new: str) -> None:
    """rename(2) that fails when `new` is there: plain rename replaces an empty directory without a word.

    An empty numbered directory is what a full refresh makes first; putting a seed over it would keep
    positions for a table that was just emptied. Raises Refused.
    """
    with folder_of(old) as (from_folder, name), folder_of(new) as (to_folder, new_name):
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "renameat2"):
            names = os.fsencode(name), os.fsencode(new_name)
            done = libc.renameat2(from_folder, names[0], to_folder, names[1], RENAME_NOREPLACE)
            if done == 0:
                return
            code = ctypes.get_errno()
            if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
                raise OSError(code, os.strerror(code), new)
        with contextlib.suppress(FileNotFoundError):
            os.stat(new_name, dir_fd=to_folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, "is there already", new)
        os.rename(name, new_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)
