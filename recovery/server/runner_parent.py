"""The process that forks runners: it has paid their imports (1 to 3 s, 15 s on a busy machine) once for all of them.

A fork becomes the runner of an update, or answers one question (`TRADES`), below a process that ends all that it starts
(`recovery.server.reaper`): that one is reported. Nothing of a pipeline is ever in this process: no gRPC channel, no
token, no definition; and no thread, since a fork has only the one that forked. The server asks over one socket: each
message `fork TRADE` brings the two pipes of a fork; `retire` means that no further one comes. It answers `ready`,
`forked` (with a handle of the process), `refused`, and `ended` with how a fork ended. A fork's life hangs on the server
(its control pipe), and on this process, with which the jail ends that all of them live in. When the server is
gone, this process ends its forks with all that they started.

Started as `python -m recovery.server.runner_parent SOCKET_FD`.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from recovery.server import reaper
from recovery.server.landlock import landlock_abi

TRADES = {"update": "recovery.server.runner", "question": "recovery.spark.child"}
"""The module that a fork lives by: `import_ahead()` in the parent, `live(report, control)` in the fork.

By name: the server imports no other room, and what answers questions is none of it (docs/adr/0016).
"""
# What keeps libraries from starting threads while they are imported; a runner's own code does not see it.
# OpenBLAS makes a pool, and the allocator in Arrow a thread that gives memory back.
NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


class RunnerParent:
    """Forks when the server asks for it and reports how each fork ended, in this one thread."""

    def __init__(self, server: socket.socket) -> None:
        self.server = server
        self.poll = select.poll()
        self.runners: dict[int, int] = {}  # pid by the handle (pidfd) that is readable once it has ended
        self.retired = False

    def serve(self) -> None:
        """Until the server is gone, or this parent is retired and its last runner has ended."""
        self.poll.register(self.server, select.POLLIN)
        self.report("ready", resident=resident_bytes())
        while self.runners or not self.retired:
            for number, _ in self.poll.poll():
                if number in self.runners:
                    self.bury(number)
                elif not self.hear():
                    return

    def hear(self) -> bool:
        """Do what the server asks for; False where it is gone, also with words of ours that it had not read."""
        order, pipes = b"", list[int]()
        with contextlib.suppress(ConnectionResetError):
            order, pipes, _, _ = socket.recv_fds(self.server, 64, 2, socket.MSG_CMSG_CLOEXEC)
        if order.startswith(b"fork "):
            self.fork(order.decode().removeprefix("fork "), *pipes)
        elif order == b"retire":
            self.retired = True
        else:
            for pid in self.runners.values():
                os.kill(pid, signal.SIGTERM)
            return False
        return True

    def fork(self, trade: str, report: int, control: int) -> None:
        """One runner. The two ends of its pipes are its own: the next one must not have them too."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, reaper.HEARD)
        try:
            pid = os.fork()
            if pid == 0:
                self.become_runner(trade, report, control)
        except OSError as error:
            self.report("refused", why=error.strerror)
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(report)
            os.close(control)
        handle = os.pidfd_open(pid)
        self.runners[handle] = pid
        self.poll.register(handle, select.POLLIN)
        self.report("forked", handle, pid=pid, resident=resident_bytes())

    def become_runner(self, trade: str, report: int, control: int) -> NoReturn:
        """In the fork: let go of what belongs to its parent, then live. The parent's loop must never go on in here."""
        try:
            os.setsid()
            self.server.close()
            for handle in self.runners:
                os.close(handle)
            del sys.argv[1:]
            reaper.oversee_fork(lambda: self.live(trade, report, control), pipes=(report, control))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def live(self, trade: str, report: int, control: int) -> NoReturn:
        """In the fork of the fork: what it is for."""
        try:
            os.setsid()
            reseed_numpy()
            importlib.import_module(TRADES[trade]).live(report, control)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def bury(self, handle: int) -> None:
        """A runner has ended, and what it had started with it; say how.

        Where someone killed the process above it, orphans are left: they are this process's children by now.
        """
        pid = self.runners.pop(handle)
        self.poll.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        while orphans := set(reaper.list_children()) - set(self.runners.values()):
            for orphan in orphans:
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)
        self.report("ended", pid=pid, code=os.waitstatus_to_exitcode(status))

    def report(self, kind: str, *handles: int, **content: Any) -> None:
        """Say something to the server. One that is gone is noticed where it is heard."""
        with contextlib.suppress(OSError):
            socket.send_fds(self.server, [json.dumps({"kind": kind, **content}).encode()], handles)


def reseed_numpy() -> None:
    """Numpy's own generator would give every fork the same numbers; Python's does this by itself."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def resident_bytes() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> NoReturn:
    """Entry point."""
    environment = dict(os.environ)
    os.environ.update(NO_THREADS)
    for module in TRADES.values():
        importlib.import_module(module).import_ahead()
    for name in NO_THREADS:
        del os.environ[name]
    os.environ.update(environment)
    landlock_abi()  # the first call in a process looks for the C library, by programs that it starts
    gc.collect()
    gc.freeze()  # a collection in a fork would otherwise write to, and so copy, every page of the imports
    reaper.become_subreaper()
    RunnerParent(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
