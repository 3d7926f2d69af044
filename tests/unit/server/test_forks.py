"""The process that forks runners, with real processes: what lives on, what ends with what, and who knows how."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.server import forks, jail, reports
from recovery.server.children import Children, started_at
from recovery.server.confinement import Confinement
from recovery.server.forks import Fork, NoRunner, ParentEnded, Runners, WarmParent
from recovery.server.jail import (
    Protection,
    children_of,
    innermost_pid,
    machine_confinement,
    measure_protection,
)
from recovery.server.runner import GONE
from recovery.server.runner_parent import RunnerParent
from recovery.server.runners import MOST_WAITING, Runner
from tests.contract.lab import until

# The same parent without its imports, which are the same for each test and take seconds.
WITHOUT_IMPORTS = """
from recovery.server import runner, runner_parent
runner.import_ahead = lambda: None
del runner_parent.TRADES["question"]
runner_parent.main()
"""
# A parent that sends, when it shall retire, what a test wants.
ODD_PARENT = """
from recovery.server import runner, runner_parent
runner.import_ahead = lambda: None
del runner_parent.TRADES["question"]
def odd(self):
    self.server.send({message!r})
    return True
def fork(self, *arguments):
    forked(self, *arguments)
    runner_parent.RunnerParent.hear = odd
forked = runner_parent.RunnerParent.fork
runner_parent.RunnerParent.fork = fork
runner_parent.main()
"""
# A server that has two runners, says which processes those are, and waits to be killed.
SERVER = """
import sys, time
from pathlib import Path
from recovery.server import forks
from recovery.server.children import Children
from recovery.server.confinement import Confinement
from recovery.server.forks import Runners
forks.COMMAND = (sys.executable, "-c", sys.argv[2])
home = Path(sys.argv[1])
runners = Runners(home / "runners.log", Children(home / "pids"), confinement=Confinement())
pids = [runners.fork().pid, runners.fork().pid]
print(runners.parents[0].process.pid, *pids, flush=True)
time.sleep(600)
"""


def jailed(folder: Path) -> Runners:
    """Runners in a jail that shows all of the machine's files."""
    children = Children(folder / "pids")
    return Runners(folder / "runners.log", children, confinement=Confinement())


@pytest.fixture
def runners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runners]:
    monkeypatch.setattr(forks, "COMMAND", (sys.executable, "-c", WITHOUT_IMPORTS))
    runners = jailed(tmp_path)
    runners.start()
    yield runners
    runners.end()


def alive(pid: int) -> bool:
    return started_at(pid) is not None


def ended(fork: Fork) -> int | None:
    """How a fork ended, after its end."""
    assert list(fork.lines()) == []
    fork.close_control()
    return fork.bury()


def pipes(pid: int) -> set[str]:
    """The pipes and sockets that a process holds."""
    targets = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    return {target for target in targets if target.startswith(("pipe:", "socket:"))}


def worker(pid: int) -> int:
    """The process below the one that is known as a fork: it does the work."""
    (child,) = children_of(pid)
    return child


def recorded(path: Path) -> set[int]:
    return {int(pid) for pid in json.loads(path.read_text())["children"]}


def test_the_imports_start_no_thread_and_a_runner_has_them(tmp_path: Path) -> None:
    runners = jailed(tmp_path)
    fork = runners.fork()
    (parent,) = runners.parents
    assert "/pyarrow/" in Path(f"/proc/{fork.pid}/maps").read_text()
    threads = [
        entry.read_text() for entry in Path(f"/proc/{innermost_pid(parent.process.pid)}/task").glob("*/comm")
    ]
    assert len(threads) == 1, threads
    runners.end()


@pytest.mark.parametrize("has", ["namespaces", "landlock"])
def test_a_runner_starts_and_ends_where_data_roots_are_all_that_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has: str
) -> None:
    measured = measure_protection()
    if has == "landlock":
        monkeypatch.setattr(jail, "measure_protection", lambda: Protection(None, measured.landlock))
    monkeypatch.setattr(forks, "COMMAND", (sys.executable, "-c", WITHOUT_IMPORTS))
    (tmp_path / "home").mkdir()
    (tmp_path / "data").mkdir()
    confinement = machine_confinement(home=tmp_path / "home", data_roots=[tmp_path / "data"])
    runners = Runners(tmp_path / "runners.log", Children(tmp_path / "pids"), confinement=confinement)
    fork = runners.fork()
    fork.kill()
    assert ended(fork) == -signal.SIGKILL
    runners.end()


def test_runners_at_once_share_nothing(runners: Runners) -> None:
    first, second = runners.fork(), runners.fork()
    (parent,) = runners.parents
    for fork in (first, second):  # each closes what it inherited in its first moments
        until(lambda pid=fork.pid: os.getsid(pid) == pid, "a session of its own")
        until(lambda pid=fork.pid: children_of(pid), "the process that does its work")
        until(lambda pid=fork.pid: len(pipes(worker(pid))) == 2, "nothing but its own two pipes")
        until(lambda pid=fork.pid: os.getsid(worker(pid)) == worker(pid), "a session of the work's own")
    assert not (pipes(worker(first.pid)) | pipes(innermost_pid(parent.process.pid))) & pipes(
        worker(second.pid)
    )

    first.kill()
    assert ended(first) == -signal.SIGKILL
    assert alive(second.pid)
    second.close_control()
    assert ended(second) == GONE


def test_a_runner_ends_with_what_it_had_started_and_its_exit_code_is_known(
    runners: Runners, tmp_path: Path
) -> None:
    messages: list[dict[str, object]] = []
    runner = Runner(runners, tmp_path, {}, messages.append, token="secret")
    runner.reader.join()  # its arguments name no folder to work in
    assert messages == [{"kind": "ended", "code": 1}]
    assert "KeyError: 'root'" in runner.last_words()
    runner.kill()  # long after its end: another process may have its id now
    runner.end()
    parent = innermost_pid(runners.parents[0].process.pid)
    assert b"secret" not in Path(f"/proc/{parent}/environ").read_bytes()


@pytest.mark.parametrize("of", ["jail", "parent"])
def test_a_killed_parent_takes_its_runner_with_it_and_is_replaced(
    runners: Runners, tmp_path: Path, of: str
) -> None:
    fork = runners.fork()
    (parent,) = runners.parents
    os.kill(parent.process.pid if of == "jail" else innermost_pid(parent.process.pid), signal.SIGKILL)
    until(parent.ended.is_set, "the end of the parent")
    assert ended(fork) is None
    other = runners.fork()
    assert recorded(tmp_path / "pids") == {fork.pid, other.pid, runners.parents[0].process.pid}
    other.kill()
    assert ended(other) == -signal.SIGKILL


def test_a_parent_that_lived_is_replaced_before_anybody_asks(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "LIVED_SECONDS", 0.0)
    (parent,) = runners.parents
    assert parent.ready.wait(120)
    os.kill(parent.process.pid, signal.SIGKILL)
    until(lambda: runners.parents and runners.parents != [parent], "another parent")


def test_a_worn_parent_hands_over_and_ends_after_its_last_runner(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "MOST_FORKS", 1)
    first = runners.fork()
    old, new = runners.parents
    assert new.ready.wait(120)
    second = runners.fork()
    assert (old.retired, new.retired) == (True, False)
    assert alive(old.process.pid)
    first.kill()
    assert ended(first) == -signal.SIGKILL
    until(lambda: old not in runners.parents, "the end of the retired parent")
    assert old.process.returncode == 0
    assert alive(second.pid)
    second.kill()
    assert ended(second) == -signal.SIGKILL


def test_a_parent_that_is_stuck_is_ended_and_another_asked(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    (parent,) = runners.parents
    assert parent.ready.wait(120)
    os.kill(innermost_pid(parent.process.pid), signal.SIGSTOP)
    monkeypatch.setattr(forks, "ANSWER_SECONDS", 1.0)
    with pytest.raises(ParentEnded):
        parent.fork("update")
    assert parent.process.wait(10) == -signal.SIGKILL


def test_a_parent_that_cannot_start_is_one_sentence(
    runners: Runners, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runners.end()
    monkeypatch.setattr(forks, "COMMAND", (sys.executable, "-c", "import not_installed"))
    with pytest.raises(NoRunner, match="'not_installed'"):
        jailed(tmp_path).fork()


def test_the_end_of_the_server_ends_parent_and_runners(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path), WITHOUT_IMPORTS],
        stdout=subprocess.PIPE,
        text=True,
        cwd=forks.PROJECT,
    )
    assert server.stdout is not None
    with server, server.stdout:
        pids = [int(pid) for pid in server.stdout.readline().split()]
        assert recorded(tmp_path / "pids") == set(pids)
        assert all(alive(pid) for pid in pids)
        server.kill()
    until(lambda: not any(alive(pid) for pid in pids), "the end of parent and runners")


def test_the_end_in_order_ends_parent_and_runners_and_none_comes_after(
    runners: Runners, tmp_path: Path
) -> None:
    fork = runners.fork()
    runners.end()
    assert ended(fork) is None
    with pytest.raises(NoRunner):
        runners.fork()
    assert recorded(tmp_path / "pids") == {fork.pid}  # the update that had it removes it


def reset_by_its_peer(*messages: bytes) -> socket.socket:
    """A socket whose other end sent these messages and ended without reading what it had been sent itself."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(b"never read")
    for message in messages:
        theirs.send(message)
    theirs.close()
    return ours


def test_a_server_that_ended_without_reading_is_gone_and_its_runners_end() -> None:
    with reset_by_its_peer() as server, subprocess.Popen(["sleep", "20"], start_new_session=True) as runner:
        parent = RunnerParent(server)
        parent.runners[-1] = runner.pid
        assert parent.hear() is False
        assert runner.wait(10) == -signal.SIGTERM  # the process above a runner ends all below it then


def test_what_a_parent_said_before_it_ended_without_reading_is_heard() -> None:
    said = {"kind": "ended", "pid": 7, "code": 0}
    with reset_by_its_peer(json.dumps(said).encode()) as theirs:
        warm = WarmParent.__new__(WarmParent)  # no process: what it is told comes from this socket
        warm.socket = theirs
        assert warm.receive() == (said, [])
        assert warm.receive() is None


@pytest.mark.parametrize(
    "message",
    [
        b"no JSON",
        b"[" * 4000,
        b"[]",
        b"{}",
        b'{"kind": "of its own"}',
        b'{"kind": ["ended"]}',
        b'{"kind": "ended"}',
        b'{"kind": "ended", "pid": 7, "code": "0"}',
        b'{"kind": "ended", "pid": 7, "code": 0}',
        b'{"kind": "ready", "resident": null}',
        b'{"kind": "forked", "pid": 7, "resident": 1}',
        b'{"kind": "refused", "why": {}}',
    ],
)
def test_a_parent_that_sends_no_message_is_ended_with_its_runners_and_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, message: bytes
) -> None:
    monkeypatch.setattr(forks, "COMMAND", (sys.executable, "-c", ODD_PARENT.format(message=message)))
    runners = jailed(tmp_path)
    fork = runners.fork()
    (parent,) = runners.parents
    parent.socket.send(b"retire")
    until(parent.ended.is_set, "the end of the parent")
    assert ended(fork) is None
    other = runners.fork()
    other.kill()
    assert ended(other) == -signal.SIGKILL
    runners.end()


# A runner whose pipe gets what a test writes.
ODD_RUNNER = """
from recovery.server import runner, runner_parent
runner.import_ahead = lambda: None
del runner_parent.TRADES["question"]
def live(report, control):
    import os
    {code}
    os._exit(0)
runner.live = live
runner_parent.main()
"""


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        ("os.write(report, b'no JSON\\n')", "unreadable"),
        ("os.write(report, b'[' * 60_000 + b'\\n')", "unreadable"),
        ('os.write(report, b\'{"kind": "stop"}\\n\')', "unreadable"),
        ('os.write(report, b\'{"kind": "ended", "code": 0}\\n\')', "unreadable"),
        ('os.write(report, b\'{"kind": "connected", "graph_id": 7}\\n\')', "unreadable"),
        ("while True: os.write(report, b'x' * 60_000)", "too_long"),
        ('os.write(report, b\'{"kind": "graph"}\\n\' * 2)', "again"),
        (
            'while True: os.write(report, b\'{"kind": "event", "time_ms": 1, "message": ""}\\n\' * 9)',
            "too_many",
        ),
    ],
)
def test_a_runner_that_sends_no_report_is_ended_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, bad: str
) -> None:
    monkeypatch.setattr(forks, "LONGEST_LINE", 200_000)
    monkeypatch.setattr(reports, "MOST_REPORTS", 20)
    monkeypatch.setattr(forks, "COMMAND", (sys.executable, "-c", ODD_RUNNER.replace("{code}", code)))
    runners = jailed(tmp_path)
    messages: list[dict[str, object]] = []
    runner = Runner(runners, tmp_path, {}, messages.append, token="secret")
    runner.reader.join(60)
    kinds = [message["kind"] for message in messages]
    taken = {"again": ["graph"], "too_many": ["event"] * 20}.get(bad, [])
    assert kinds == [*taken, "bad_report", "ended"]
    assert messages[-2]["code"] == bad
    assert len(runners.list_usable()) == 1
    runner.end()
    runners.end()


def test_reports_wait_in_the_pipe_where_nobody_handles_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = '{"kind": "event", "time_ms": 1, "message": ""}'
    flood = f"while True: os.write(report, b'{said}\\n' * 1000)"
    monkeypatch.setattr(forks, "COMMAND", (sys.executable, "-c", ODD_RUNNER.replace("{code}", flood)))
    runners = jailed(tmp_path)
    messages: list[dict[str, object]] = []
    runner = Runner(runners, tmp_path, {}, messages.append, token="secret", waiting=lambda: len(messages))
    until(lambda: len(messages) > MOST_WAITING, "as many as may wait")
    runner.end()
    assert len(messages) < 2 * MOST_WAITING
    runners.end()
