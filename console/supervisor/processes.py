"""Which processes are ours, read from /proc alone: a bare machine has neither ps nor pgrep.

Every process that the supervisor starts carries `CHILD_OF_REPRISE=<instance>:<name>` in its environment,
and so does everything that it starts in turn (Spark's driver, runners, pool workers), whatever session
or parent it ends up with. Nothing without that mark is ever ended.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

MARK = "CHILD_OF_REPRISE"  # not REPRISE_…: the API server keeps those from its own children
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Children of a child that died come to us, so that they can be reaped and leave no zombies."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_children(known: set[int]) -> None:
    """Take the exit status of every ended process that came to us and is none of `known`.

    `known` are those that someone else waits for: taking their status would lose it.
    """
    for pid in _list_children():
        if pid not in known:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:  # reaped in between
                continue


def _list_children() -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    """Whether `pid` runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def list_marked(prefix: str) -> list[int]:
    """Running processes whose mark begins with `prefix`, ourselves left out."""
    wanted = f"\0{MARK}={prefix}".encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = b"\0" + (entry / "environ").read_bytes()
        except OSError:  # ended, or someone else's
            continue
        if wanted in environment and is_alive(int(entry.name)):
            pids.append(int(entry.name))
    return pids


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def end_marked(prefix: str, grace: float, pause: Callable[[], None] = lambda: time.sleep(0.05)) -> int:
    """End everything that carries the mark: asked first, forced after `grace` seconds.

    Returns how many were found. Read again before the second signal, since a process may have started
    another one meanwhile.
    """
    pids = list_marked(prefix)
    send_signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (left := list_marked(prefix)) and time.monotonic() < deadline:
        pause()
    while left:
        send_signal(left, signal.SIGKILL)
        pause()
        left = list_marked(prefix)
    return len(pids)
