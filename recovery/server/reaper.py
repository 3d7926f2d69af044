"""The process above each fork: once its fork ends, or the server asks for it, it ends all that came of that fork.

A process group does not do: code gives what it starts a session of its own, and lets the process between them end. Here
every orphan comes back to this process (it is their *subreaper*). Where Landlock holds signals (ABI 6), one signal ends
all of them at the same moment, and nothing else: they inherit this process's domain, and a signal does not leave it.

It runs nothing of a pipeline, and its fork, which is confined further, cannot signal it. SIGTERM means: end now. It
ends as its fork did, with the same exit code or by the same signal.
"""

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from recovery.server.landlock import hold_signals, landlock_abi

HEARD: Final = frozenset({signal.SIGTERM, signal.SIGCHLD})
PR_SET_PDEATHSIG: Final = 1  # <sys/prctl.h>
PR_SET_DUMPABLE: Final = 4
PR_SET_CHILD_SUBREAPER: Final = 36
SIGNALS_ABI: Final = 6


def oversee_fork(live: Callable[[], NoReturn], *, pipes: tuple[int, ...]) -> NoReturn:
    """Fork, let the fork `live`, and end with it and after it. `pipes` are the fork's alone.

    Call it with `HEARD` blocked, in a process with one thread that leads its session.
    """
    become_subreaper()
    held = keep_signals_inside()
    ask_for_signal_at_parents_end(signal.SIGTERM)
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        ask_for_signal_at_parents_end(signal.SIGKILL)
        if os.getppid() == own:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
            live()
        os._exit(1)
    for pipe in pipes:
        os.close(pipe)
    _call_prctl(
        PR_SET_DUMPABLE, 0
    )  # the fork has the same user: without Landlock it could trace this process
    ends = wait_for(pid, held=held)
    end_like(ends)


def become_subreaper() -> None:
    """Processes below this one whose parent ends become its children, whatever session they have."""
    _call_prctl(PR_SET_CHILD_SUBREAPER, 1)


def ask_for_signal_at_parents_end(number: signal.Signals) -> None:
    """The kernel sends it to this process when its parent ends."""
    _call_prctl(PR_SET_PDEATHSIG, number)


def keep_signals_inside() -> bool:
    """Let no signal of this process, and of what it starts, reach another; whether that holds, tried on its parent."""
    parent = os.getppid()
    if landlock_abi() < SIGNALS_ABI or not may_signal(parent):
        return False
    hold_signals()
    return not may_signal(parent) and os.getppid() == parent


def may_signal(pid: int) -> bool:
    """Whether this process may signal another; a process that is gone counts as one that it may."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        return True
    return True


def wait_for(pid: int, *, held: bool) -> int:
    """The status with which a child ended, after the end of everything that it left behind.

    `held`: as `keep_signals_inside` answered.
    """
    ends: dict[int, int] = {}
    while pid not in ends:
        if signal.sigwait(HEARD) == signal.SIGTERM:
            end_all(ends, held=held)
        collect_children(ends, os.WNOHANG)
    end_all(ends, held=held)
    return ends[pid]


def end_all(ends: dict[int, int], *, held: bool) -> None:
    """End every process below this one; how each ended goes into `ends`."""
    while True:
        if held:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(
                    -1, signal.SIGKILL
                )  # all that this process may signal: its own domain, and not itself
        for child in list_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if not collect_children(ends, 0):
            return


def collect_children(ends: dict[int, int], options: int) -> bool:
    """Take how children ended; without WNOHANG, wait for one. False where this process has no child."""
    while True:
        try:
            pid, status = os.waitpid(-1, options)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        ends[pid] = status
        options = os.WNOHANG


def list_children() -> list[int]:
    """The children of this process."""
    own = os.getpid()
    return [int(child) for child in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def end_like(status: int) -> NoReturn:
    """End as a process with this status did."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # of SIGKILL nothing can be set
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _call_prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
