"""The supervisor goes on watching when its own disk is full: nobody else would start the instance again."""

import errno
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.supervisor import home as homes
from console.supervisor import processes
from console.supervisor.children import Child
from console.supervisor.instance import Instance, listen_on
from console.supervisor.supervisor import StopRequested, Supervisor


@pytest.fixture
def supervisor(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """One that has announced an instance of one child, which has died since."""
    homes.write_private(home / "people.json", json.dumps({"admin": {"token": "t"}}))
    homes.write_private(home / "pipelines.token", "t")
    monkeypatch.setattr(processes, "reap_children", lambda known: None)
    with listen_on(0) as listener:
        watching = Supervisor(Instance(home, listener))
        watching.server = {"pid": 1, "url": "http://127.0.0.1:1", "spark_remote": "sc://"}
        command = [sys.executable, "-c", "pass", "--port", "0"]
        child = Child(
            "pipelines",
            command,
            {},
            home / "logs" / "pipelines.log",
            watching.instance.mark,
            lambda _: True,
            9,
        )
        watching.children = [child]
        child.start()
        watching.announce()
        assert child.process is not None
        child.process.wait()
        yield watching
        assert child.process is not None
        child.process.wait()


def full(times: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """`then`, after so many calls for which the disk was full."""
    calls = iter(range(times))

    def call(*given: Any, **named: Any) -> Any:
        if next(calls, None) is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return then(*given, **named)

    return call


def ticks(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Watch for so many looks, then be asked to end."""
    left = iter(range(times))

    def pause(seconds: float = 0) -> None:
        if next(left, None) is None:
            raise StopRequested

    monkeypatch.setattr(supervisor, "pause", pause)
    supervisor.watch()


def told(supervisor: Supervisor) -> int:
    """The child's process id in demo.json."""
    return int(homes.read_json(supervisor.instance.home / "demo.json")["pids"]["pipelines"])


@pytest.mark.parametrize("times", [1, 3])
def test_a_child_that_died_on_a_full_disk_is_started_and_told_when_there_is_room(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    before = told(supervisor)
    monkeypatch.setattr(homes, "write_private", full(times, homes.write_private))

    ticks(supervisor, monkeypatch, 2 + times)

    assert told(supervisor) == supervisor.children[0].pid != before


def test_a_line_that_the_full_disk_does_not_take_ends_nothing(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told(supervisor)
    monkeypatch.setattr("builtins.print", full(5, print))

    ticks(supervisor, monkeypatch, 3)

    assert told(supervisor) == supervisor.children[0].pid != before


def test_a_start_that_the_full_disk_refuses_is_tried_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told(supervisor)
    child = supervisor.children[0]
    monkeypatch.setattr(child, "start", full(2, child.start))
    monkeypatch.setattr(child, "wait_before_restart", lambda: 0.0)

    ticks(supervisor, monkeypatch, 8)

    assert told(supervisor) == child.pid != before
