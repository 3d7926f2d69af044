"""Confines this process, for good, by Landlock: Linux checks every file that it opens, and whom it signals.

What Landlock holds (by the version of its interface, its ABI): files and folders (1), renames (2), truncation (3);
abstract Unix sockets and signals to processes outside (6). From the first version on, a confined process reads neither
the memory nor the environment of one that is outside, and mounts nothing. A Unix socket at a path can still be
connected to before ABI 9: hiding such a socket takes a mount namespace (`recovery.server.jail`).

A process confines itself with `confine_by_landlock`. To confine a program from its first instruction on:

    python -I -S -c "$(recovery.server.jail.LAUNCH)" CONFINEMENT PROGRAM ARGUMENT…
"""

import base64
import contextlib
import ctypes
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from landlockpy import AccessFS, AccessNet, Ruleset, Scope, abi_version

from recovery.server.confinement import Confinement, Grant, PathAccess

READ: Final = AccessFS.READ_FILE | AccessFS.READ_DIR | AccessFS.EXECUTE
WRITE: Final = (
    AccessFS.WRITE_FILE | AccessFS.REMOVE_DIR | AccessFS.REMOVE_FILE | AccessFS.MAKE_DIR | AccessFS.MAKE_REG
    | AccessFS.MAKE_SOCK | AccessFS.MAKE_FIFO | AccessFS.MAKE_SYM | AccessFS.REFER | AccessFS.TRUNCATE
    | AccessFS.IOCTL_DEV
)  # fmt: skip
OF_FILES: Final = (
    AccessFS.READ_FILE | AccessFS.EXECUTE | AccessFS.WRITE_FILE | AccessFS.TRUNCATE | AccessFS.IOCTL_DEV
)
PR_CAPBSET_DROP: Final = 24  # <sys/prctl.h>
LAST_CAPABILITY: Final = 63
RIGHTS: Final = {
    PathAccess.LISTED: AccessFS.READ_DIR,
    PathAccess.READABLE: READ,
    PathAccess.WRITABLE: READ | WRITE,
}


def landlock_abi() -> int:
    """The version of the kernel's Landlock; 0 where it has none, or does not let this process use it."""
    try:
        return abi_version()
    except OSError:
        return 0


def confine_by_landlock(confinement: Confinement) -> None:
    """Hold this thread, and every thread and process that it starts from now on, to what `confinement` shows.

    Call it before the process has a second thread: Landlock confines the thread that asks. Raises OSError where the
    kernel has no Landlock. Takes a millisecond, and some microseconds for each entry of a folder that holds something
    hidden.
    """
    restrict_to(confinement.grants())


def restrict_to(
    grants: Sequence[Grant], *, scoped: Scope = Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL
) -> None:
    """As `confine_by_landlock`, with the rights already listed: a confined process cannot list every folder itself.

    A path where a link is by now gives no right: it was listed as what it is, without links. `scoped`: whom the
    process cannot reach outside (ABI 6).
    """
    with Ruleset(handled_fs=READ | WRITE, handled_net=AccessNet.NONE, scoped=scoped) as ruleset:
        for path, sight in grants:
            with (
                contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError),
                open_path(path) as handle_name,
            ):
                if os.readlink(handle_name) == str(path):  # noqa: PTH115
                    is_folder = stat.S_ISDIR(os.stat(handle_name).st_mode)  # noqa: PTH116
                    ruleset.allow_path(handle_name, RIGHTS[sight] if is_folder else RIGHTS[sight] & OF_FILES)
        ruleset.restrict()


@contextmanager
def open_path(path: Path) -> Iterator[str]:
    """The name of an open handle to what a path leads to. Raises OSError: gone since, or not ours to open."""
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def hold_signals() -> None:
    """Let signals of this thread, and of all that it starts from now on, reach only what it starts (ABI 6)."""
    with Ruleset(handled_fs=AccessFS.NONE, handled_net=AccessNet.NONE, scoped=Scope.SIGNAL) as ruleset:
        ruleset.restrict()


def drop_capabilities() -> None:
    """Let the next program of this process have no capability, also where its user is root.

    With CAP_PERFMON, root would read the environment of every process past Landlock.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # an ordinary user may not, and has none


def main() -> NoReturn:
    """Confine this process, then become the program of the arguments."""
    drop_capabilities()
    restrict_to(Confinement.load(sys.argv[1]).grants(listing=True))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606


def main_of_command() -> NoReturn:
    """As `main`, for a person's command: confinement, a descriptor or "-", and its words (JSON in base64).

    It may signal processes outside, as one command starts a stream and another one stops it. A byte in the descriptor
    says that the place was made, so that the exit code is that of the program; 127 and 126: there is no such program.
    """
    drop_capabilities()
    if landlock_abi():
        grants = Confinement.load(sys.argv[1]).grants(listing=True)
        restrict_to(grants, scoped=Scope.ABSTRACT_UNIX_SOCKET)
    if sys.argv[2] != "-":
        os.write(int(sys.argv[2]), b".")
        os.close(int(sys.argv[2]))
    words = json.loads(base64.b64decode(sys.argv[3]))
    try:
        os.execvp(words[0], words)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{words[0]} cannot be run: {error.strerror}.\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
