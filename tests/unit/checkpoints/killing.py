"""Kills a writer at its nth write: a forked process, so that a death is a death and costs no start."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

from recovery.checkpoints.storage import Store

WRITES = ("make_dirs", "write", "copy", "link", "settle", "sync", "rename", "replace", "remove")


def killed(act: Callable[[], object], nth: int, when: str) -> bool:
    """Was `act` killed at its nth write? False: it ended before that; an error in it fails the test."""
    child = os.fork()
    if child == 0:
        try:
            _arm(nth, when)
            act()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, f"it failed by itself before write {nth}"
    return False


def deaths(make: Callable[[], Callable[[], object]]) -> Iterator[str]:
    """`make` arranges a place and gives the act; yields after each death: after every write, and in the middle
    of every one that puts bytes into a file."""
    names = _writes_of(make())
    assert len(names) > 5, "an act of so few writes was not the one meant"
    for nth, name in enumerate(names, start=1):
        for when in ("half", "after") if name == "write" else ("after",):
            assert killed(make(), nth, when)
            yield f"{when} write {nth}, {name}"


def _writes_of(act: Callable[[], object]) -> list[str]:
    names: list[str] = []
    real = {name: getattr(Store, name) for name in WRITES}
    for name in WRITES:

        def wrapped(self: Store, *args: Any, _name: str = name, **words: Any) -> Any:
            names.append(_name)
            return real[_name](self, *args, **words)

        setattr(Store, name, wrapped)
    try:
        act()
    finally:
        for name in WRITES:
            setattr(Store, name, real[name])
    return names


def _arm(nth: int, when: str) -> None:
    count = 0
    for name in WRITES:
        real = getattr(Store, name)

        def wrapped(self: Store, *args: Any, _name: str = name, _real: Any = real, **words: Any) -> Any:
            nonlocal count
            count += 1
            if count == nth and when == "half" and _name == "write":
                _real(self, args[0], args[1][: len(args[1]) // 2])
            if count == nth and when != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = _real(self, *args, **words)
            if count == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(Store, name, wrapped)
