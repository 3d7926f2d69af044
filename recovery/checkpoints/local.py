"""What a local file system needs beyond fsspec: listings, opens, syncs, renames."""

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

from recovery.checkpoints import access

RENAME_NOREPLACE = 1
AT_FDCWD = -100
SYNCERS = 16
FAR = ("nfs", "cifs", "smb", "fuse", "ceph", "gluster", "lustre", "9p", "afs", "gpfs", "beegfs")
"""How types of file systems begin whose files another machine keeps: they may not answer."""


def mount_of(path: str) -> str:
    """The mount point of another machine's files that this path lies on; "" for files of this machine. Touches none.

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


def scanned(where: str, start: str, limit: int) -> tuple[dict[str, int], set[str]]:
    """As `Store._inside`, without an object for each name: a checkpoint has thousands of state files."""
    check(where)
    sizes: dict[str, int] = {}
    folders: set[str] = set()
    with os.scandir(where) as found:
        for entry in islice(found, limit):
            try:
                if entry.is_dir():
                    folders.add(start + entry.name)
                else:
                    sizes[start + entry.name] = entry.stat().st_size
            except OSError:  # a dangling link, or gone since it was listed: a name without content
                sizes[start + entry.name] = 0
    return sizes, folders


def check(where: str) -> None:
    """Raise Refused for a directory that a link brought to a place that may not be read."""
    rules = access.current().rules
    if rules.limits_files:
        rules.check_file(os.path.realpath(where))


def regular(path: str) -> int:
    """Opens a file, and nothing that would wait for ever or is no file: IsADirectoryError. Refused (`storage_hidden`,
    `storage_root`) where a link leads to a place that may not be read: judged is what was opened."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link to itself, a socket
            raise IsADirectoryError(errno.EISDIR, "is not a file", path) from error
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        rules = access.current().rules
        if rules.limits_files:
            try:
                rules.check_file(str(Path(f"/proc/self/fd/{handle}").readlink()))
            except BaseException:
                os.close(handle)
                raise
        return handle
    os.close(handle)
    raise IsADirectoryError(errno.EISDIR, "is not a file", path)


def settle(root: str) -> None:
    """Put a directory and all below it on disk: the bytes of files first, then all names."""
    above = [(where, files) for where, _, files in os.walk(root)]
    files = [f"{where}/{file}" for where, files in above for file in files]
    with ThreadPoolExecutor(SYNCERS) as pool:
        list(pool.map(partial(_sync_each, os.fdatasync), _shares(files)))
        list(pool.map(partial(_sync_each, os.fsync), _shares([where for where, _ in above])))


def sync(path: str) -> None:
    _sync_each(os.fsync, [path])


def _sync_each(how: Callable[[int], None], paths: list[str]) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            how(handle)
        finally:
            os.close(handle)


def _shares(names: list[str]) -> list[list[str]]:
    """As many as there are threads at most: one task for each file would cost more than a file that is on disk."""
    return [share for n in range(SYNCERS) if (share := names[n::SYNCERS])]


def rename_free(old: str, new: str) -> None:
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
