"""Keeps a program that is studied from changing the machine and other servers by itself (child process only).

Folders and files that it makes outside of the question's folder are not made, what it removes stays and is named, and
it goes on. What cannot be passed over is refused: other changes of files, other processes, and connections but those
by which HTTP asks for something. A library in C that opens a connection of its own is not seen here.
"""

import builtins
import http.client
import io
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recovery.spark.definitions import BadCode

ASKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CHANGES: Final = {
    "os.rename": "renames",
    "os.truncate": "cuts",
    "os.chmod": "changes the rights of",
    "os.chown": "changes the owner of",
    "os.link": "links",
    "os.symlink": "links",
    "os.mkdir": "makes",
    "os.remove": "removes",
    "os.rmdir": "removes",
    "shutil.rmtree": "removes",
    "os.utime": "changes the times of",
    "os.setxattr": "changes the attributes of",
    "os.removexattr": "changes the attributes of",
    "sqlite3.connect": "opens the database",
}
_PROCESSES: Final = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}
)
_OF_FIRST: Final = frozenset({"os.utime", "os.setxattr", "os.removexattr"})
"""Changes whose other texts are no places."""
_SIGNALS: Final = frozenset({"os.kill", "os.killpg"})
_JUDGED: Final = _PROCESSES | _SIGNALS | {"open", "socket.connect"}
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
JOIN_SECONDS: Final = 5.0
_OWN_THREADS: Final = ("grpc", "pyspark", "multiprocessing", "concurrent", "recovery")
_PASSED: Final = ("/dev/", "/proc/self/")
_hooked: list[bool] = []
_armed: list["MachineGuard"] = []


@dataclass
class Acts:
    """What a program would have done to the machine: places that it would have removed, as it named them."""

    removed: list[str] = field(default_factory=list)


@contextmanager
def hands_off(folder: str, acts: Acts) -> Iterator["MachineGuard"]:
    """Meanwhile, and while a thread of its own goes on, code changes nothing outside of `folder`. Raises `BadCode`
    where it cannot go on without."""
    if not _hooked:
        sys.addaudithook(_judge)
        _hooked.append(True)
    guard, running = MachineGuard(os.path.realpath(folder), acts), set(threading.enumerate())
    guard.arm()
    try:
        yield guard
    finally:
        if not any(map(_is_of_program, set(threading.enumerate()) - running)):
            guard.disarm()


def join_threads(running: Collection[threading.Thread]) -> None:
    """Wait for what a program started beside those that ran, as Python does at its end; not for ever."""
    for thread in set(threading.enumerate()) - set(running):
        if not thread.daemon:
            thread.join(JOIN_SECONDS)


def _is_of_program(thread: threading.Thread) -> bool:
    does = getattr(thread, "_target", None) or type(thread).run
    return not str(getattr(does, "__module__", "")).startswith(_OWN_THREADS)


def refusal(act: str) -> BadCode:
    """`act`: a verb and what it is done to."""
    return BadCode(f"The program {act} before it starts its stream; that was not done here.")


class MachineGuard:
    """What stands in for the ways to change a file, for one run. `_aside`: place -> file that has what was written."""

    def __init__(self, folder: str, acts: Acts) -> None:
        self._folder, self._acts = folder, acts
        self._aside: dict[str, str] = {}
        self._shelf, self._temporary = f"{folder}/aside", f"{folder}/temporary"
        self._kept: list[tuple[Any, str, Any]] = []

    def arm(self) -> None:
        for place in (self._shelf, self._temporary):
            Path(place).mkdir(parents=True, exist_ok=True)
        patches = self.stand_ins()
        self._kept = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
        for owner, name, stand_in in patches:
            setattr(owner, name, stand_in)
        _armed.append(self)

    def disarm(self) -> None:
        _armed.remove(self)
        for owner, name, own in self._kept:
            setattr(owner, name, own)

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        """Owner, name and stand-in of each."""
        opened, made, asked_over_http = builtins.open, os.mkdir, http.client.HTTPConnection.putrequest

        def open_aside(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            return opened(self._file(file, mode), mode, *args, **kwargs)

        def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            if dir_fd is not None or self.is_own(path):
                made(path, mode, dir_fd=dir_fd)
            elif os.path.lexists(path):
                raise FileExistsError(17, os.strerror(17), path)

        def putrequest(connection: Any, method: str, url: str, *args: Any, **kwargs: Any) -> None:
            if method.upper() not in ASKING:
                raise refusal(f"sends {method.upper()} to {connection.host}")
            asked_over_http(connection, method, url, *args, **kwargs)

        return [
            (builtins, "open", open_aside),
            (io, "open", open_aside),
            (os, "mkdir", mkdir),
            (os, "remove", self._removing(os.remove)),
            (os, "unlink", self._removing(os.unlink)),
            (os, "rmdir", self._removing(os.rmdir)),
            (shutil, "rmtree", self._removing(shutil.rmtree)),
            (http.client.HTTPConnection, "putrequest", putrequest),
            (tempfile, "tempdir", self._temporary),
        ]

    def _removing(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def remove(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None:
                return own(path, *args, **kwargs)
            self._acts.removed.append(os.fsdecode(path))
            return own(path, *args, **kwargs) if self.is_own(path) else None

        return remove

    def _file(self, file: Any, mode: str) -> Any:
        """The file that is opened in place of the one that is named."""
        if isinstance(file, int) or self.is_own(file):
            return file
        place = os.path.realpath(os.fsdecode(file))
        if "x" in mode and Path(place).exists():
            raise FileExistsError(17, os.strerror(17), place)
        if set(mode) & set("wax+") and place not in self._aside:
            aside = f"{self._shelf}/{len(self._aside)}"
            if "r" in mode or ("a" in mode and Path(place).exists()):
                shutil.copyfile(place, aside)
            self._aside[place] = aside
        return self._aside.get(place, file)

    def is_own(self, path: Any, dir_fd: int = -1) -> bool:
        """Is it in the question's folder, or nothing that is kept?"""
        place = Path(os.fsdecode(path))
        if dir_fd is not None and dir_fd >= 0 and not place.is_absolute():
            place = Path(f"/proc/self/fd/{dir_fd}").readlink() / place
        if str(place).startswith(_PASSED):
            return True
        return (place.parent.resolve() / place.name).is_relative_to(self._folder)

    def judge(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises `BadCode`."""
        if event in _PROCESSES:
            raise refusal(f"starts another process ({str(arguments[0])[:60]})")
        if event in _SIGNALS and arguments[0] != os.getpid():
            raise refusal(f"sends a signal to another process ({arguments[0]})")
        if event == "socket.connect":
            _check_connection(*arguments)
        elif event == "open":
            path, _, flags = arguments
            if not isinstance(path, int) and path is not None and flags & _WRITES and not self.is_own(path):
                raise refusal(f"writes {os.fsdecode(path)}")
        elif event in _CHANGES:
            self._check_change(event, arguments)

    def _check_change(self, event: str, arguments: tuple[Any, ...]) -> None:
        judged = arguments[:1] if event in _OF_FIRST else arguments
        named = [place for place in judged if isinstance(place, (str, bytes, os.PathLike))]
        fd = next(
            (argument for argument in reversed(arguments) if isinstance(argument, int) and argument >= 0), -1
        )
        at = fd if event in ("os.remove", "os.rmdir", "os.mkdir") and arguments[-1] == fd else -1
        if event == "sqlite3.connect" and named[:1] == [":memory:"]:
            return
        for path in named:
            if not self.is_own(path, at):
                raise refusal(f"{_CHANGES[event]} {os.fsdecode(path)}")


def _check_connection(connected: Any, address: Any) -> None:
    """HTTP may connect: what it sends is judged by itself. Raises `BadCode`."""
    if connected.type != socket.SOCK_STREAM:
        return  # one word to whoever listens, as of a log
    if connected.family == socket.AF_UNIX:  # a database of this machine, or what runs its containers
        raise refusal(f"connects to {os.fsdecode(address)}")
    frame = sys._getframe(1)
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), http.client.HTTPConnection):
            return
        frame = frame.f_back  # type: ignore[assignment]
    raise refusal(f"connects to {':'.join(map(str, address[:2]))}")


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if _armed and (event in _CHANGES or event in _JUDGED):
        _armed[-1].judge(event, arguments)
