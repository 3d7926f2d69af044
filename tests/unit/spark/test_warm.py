"""One warm process forks a child for each process that asks Spark; each child is then its asker's own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.spark import process, warm
from tests.stack import wait_for

ANSWER = b'{"error": "unreachable"'


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("w")
    monkeypatch.setenv("REPRISE_HOME", str(folder))
    return folder


@pytest.fixture
def kept(home: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """The warm process of an instance, listening."""
    started = warm.keep(process._environment(str(home)))
    assert started is not None
    assert warm._listens(home / warm.NAME)
    yield started
    assert started.stdin is not None
    started.stdin.close()
    started.wait(30)


def forked(home: Path, name: str) -> warm.Forked:
    folder = home / name
    folder.mkdir()
    child = warm.fork(str(folder))
    assert child is not None
    return child


def end(child: warm.Forked) -> None:
    child.kill()
    child.wait(30)
    child.stdin.close()
    child.stdout.close()
    child.close()


@pytest.mark.usefixtures("kept")
def test_each_asker_gets_a_child_of_its_own(home: Path) -> None:
    one, other = forked(home, "one"), forked(home, "other")
    assert one.pid != other.pid
    assert one.poll() is None
    end(one)
    assert one.pid != other.pid
    assert other.poll() is None
    end(other)


@pytest.mark.usefixtures("kept")
def test_a_child_answers_a_question(home: Path) -> None:
    child = forked(home, "one")
    folder = home / "question"
    folder.mkdir()
    child.stdin.write(
        b'{"question": "places", "remote": "sc://127.0.0.1:9", "folder": "%s", "log": "%s", '
        b'"request": {"tables": []}}\n' % (bytes(folder), bytes(folder / "log"))
    )
    assert child.stdout.readline().startswith(ANSWER)
    end(child)


@pytest.mark.usefixtures("kept")
def test_a_child_ends_when_its_asker_closes_the_pipe(home: Path) -> None:
    child = forked(home, "one")
    child.stdin.close()
    assert child.wait(30) == 0
    child.stdout.close()
    child.close()


def test_the_warm_process_ends_with_who_started_it(home: Path) -> None:
    script = "import os; from recovery.spark import process, warm; print(warm.keep(process._environment('/tmp')).pid)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "REPRISE_HOME": str(home)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    pid = int(done.stdout)
    wait_for(
        lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes(),
        "its end",
    )
    assert warm.fork(str(home)) is None


def test_one_is_kept_for_an_instance(kept: "subprocess.Popen[bytes]", home: Path) -> None:
    assert warm.keep(process._environment(str(home))) is None
    assert kept.poll() is None


def test_after_it_was_killed_another_can_be_kept(kept: "subprocess.Popen[bytes]", home: Path) -> None:
    old = forked(home, "old")  # goes on, and holds nothing that keeps the next one off
    kept.send_signal(signal.SIGKILL)
    kept.wait(30)
    assert old.poll() is None
    assert warm.fork(str(home)) is None
    again = warm.keep(process._environment(str(home)))
    assert again is not None
    end(forked(home, "one"))
    assert again.stdin is not None
    again.stdin.close()
    assert again.wait(30) == 0
    assert not (home / warm.NAME).exists()
    end(old)


def test_where_no_socket_can_lie_nothing_is_kept(home: Path) -> None:
    (home / warm.NAME).mkdir()
    assert warm.keep(process._environment(str(home))) is None


def test_a_worker_that_prepares_shares_one_import(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "shared", threading.Event())
    monkeypatch.setattr(process, "_spare", [])
    monkeypatch.setattr(process, "_kept", [])
    monkeypatch.setattr(process, "_begin", lambda folder: pytest.fail("a process of its own was begun"))
    process.share()
    process.prepare()
    assert (len(process._kept), process._spare) == (1, [])
    process.prepare()
    assert (len(process._kept), len(process._spare)) == (1, 1)
    process._end_spare()
    assert (process._kept, process._spare) == ([], [])


def test_without_an_instance_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPRISE_HOME", raising=False)
    assert warm.address() is None
    assert warm.keep({}) is None
    assert warm.fork("/nowhere") is None


def test_a_path_that_no_socket_can_have_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_HOME", "/" + "x" * 120)
    assert warm.address() is None
