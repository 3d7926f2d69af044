"""One warm process for all of an instance's processes that ask Spark: it has imported pyspark, and forks.

Each worker process would pay the imports (1 to 3 s) again for a child of its own. The warm one listens on a socket in
the instance's folder; who asks hands over the two ends of its pipes and gets a child forked in milliseconds, which is
then the asker's own (`child.serve`). The warm process runs no pipeline's code, has no thread and no channel, and ends
with the process that started it, or when it was not asked for a while.
"""

import contextlib
import fcntl
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

IDLE_SECONDS: Final = 600.0
FORK_SECONDS: Final = 60.0  # for a fork, behind imports that may have just begun on a busy machine
LONGEST_PATH: Final = 100  # bytes: a Unix socket's address holds 108
NAME: Final = "spark.sock"
LISTENS: Final = b"listens\n"


class Forked:
    """A child that another process has forked for this one; as much of `subprocess.Popen` as is asked of a child."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Raises OSError where the process has ended already."""
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._handle = os.pidfd_open(pid)  # a pid may be another's by the time it is asked about

    def poll(self) -> int | None:
        """0 once it has ended; what with, its parent alone knows."""
        return 0 if self._ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired("spark child", timeout or 0)
        return 0

    def kill(self) -> None:
        """Its forks die with it (PR_SET_PDEATHSIG)."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        os.close(self._handle)

    def _ended(self, timeout: float | None) -> bool:
        return bool(select.select([self._handle], [], [], timeout)[0])


def address() -> Path | None:
    """Where the instance's warm process listens; None: this process belongs to no instance."""
    home = os.environ.get("REPRISE_HOME", "")
    place = Path(home).resolve() / NAME
    return place if home and len(os.fsencode(place)) <= LONGEST_PATH else None


def fork(folder: str) -> Forked | None:
    """A child of the instance's warm process with `folder` as its home; None where none answers."""
    place = address()
    if place is None:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(FORK_SECONDS)
            peer.connect(str(place))
            return _handed(peer, folder)
    except OSError:
        return None


def _handed(peer: socket.socket, folder: str) -> Forked:
    """Raises OSError."""
    with contextlib.ExitStack() as on_failure:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        stdin = on_failure.enter_context(os.fdopen(ours_in, "wb", buffering=0))
        stdout = on_failure.enter_context(os.fdopen(ours_out, "rb", buffering=0))
        try:
            socket.send_fds(peer, [folder.encode()], [theirs_in, theirs_out])
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        pid = int(peer.recv(32) or b"0")
        if not pid:
            raise ConnectionError("the warm process ended before it forked")
        child = Forked(pid, stdin, stdout)
        on_failure.pop_all()
        return child


def keep(environment: Mapping[str, str]) -> "subprocess.Popen[bytes] | None":
    """Start the instance's warm process unless one listens; it ends with this one. None: nothing was started.

    It listens when this returns, and imports meanwhile.
    """
    place = address()
    if place is None or _listens(place):
        return None
    process = subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-m", "recovery.spark.warm", str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tempfile.gettempdir(),
        env=dict(environment),
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as said:
        if said.read(len(LISTENS)) == LISTENS:
            return process
    process.stdin.close()
    process.wait()  # another process was faster, or the folder takes no socket
    return None


def _listens(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        return peer.connect_ex(str(place)) == 0


def main(place: Path) -> int:
    """Fork for whoever connects, until stdin closes or nobody comes. Exit code 1: another one listens already."""
    from recovery.spark import child

    with place.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 1
        place.unlink(missing_ok=True)  # of one that was killed: who holds the lock is the only one
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
            place.chmod(0o600)
            listener.listen(16)  # who comes while this one imports waits, as for a child of its own
            os.write(1, LISTENS)
            os.dup2(2, 1)
            child.import_slow()
            try:
                _fork_for_all(listener, lock)
            finally:
                place.unlink(missing_ok=True)
    return 0


def _fork_for_all(listener: socket.socket, lock: IO[str]) -> None:
    watched: list[socket.socket | int] = [listener, 0]
    until = time.monotonic() + IDLE_SECONDS
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select(watched, [], [], min(left, 1.0))
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if 0 in ready:
            return  # who started this one has gone
        if listener in ready:
            with contextlib.suppress(OSError), listener.accept()[0] as peer:
                _fork_for(peer, (listener, lock))
            until = time.monotonic() + IDLE_SECONDS


def _fork_for(peer: socket.socket, own: tuple[socket.socket | IO[str], ...]) -> None:
    """Fork for one asker. Raises OSError where it has gone.

    `own`: what no child may hold, as the lock that says which process is the warm one.
    """
    peer.settimeout(1.0)
    folder, pipes, _, _ = socket.recv_fds(peer, 4096, 2)
    try:
        if len(pipes) == 2:
            pid = os.fork()
            if pid == 0:
                _be_a_child(folder.decode(), pipes, (*own, peer))
            peer.sendall(str(pid).encode())
    finally:
        for pipe in pipes:
            os.close(pipe)


def _be_a_child(folder: str, pipes: list[int], inherited: tuple[socket.socket | IO[str], ...]) -> None:
    """Serve and end, whatever happens: the loop that forked must not go on in here."""
    code = 1
    try:
        os.setsid()
        random.seed()  # else every child would draw what the warm process would have drawn next
        os.environ["HOME"] = folder
        os.chdir(folder)
        from recovery.spark.child import serve

        said = os.open(Path(folder) / ".said", os.O_WRONLY | os.O_CREAT, 0o600)
        for theirs, mine in ((pipes[0], 0), (pipes[1], 1), (said, 2)):
            os.dup2(theirs, mine)
            os.close(theirs)
        for one in inherited:
            one.close()
        serve()
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    os._exit(code)
