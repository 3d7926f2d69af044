"""The Spark room when Spark is away, slow or wrong: a sentence in time, no process left, no secret shown."""

import contextlib
import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.errors import Refused, Unreachable, WrongUse
from recovery.server.questions import redact_tokens
from recovery.spark.api import study
from tests.answering import Beside
from tests.contract.lab import alive
from tests.integration.spark_room import SIMPLE, TOKEN, Room
from tests.stack import wait_for

pytestmark = pytest.mark.spark


def test_nobody_at_the_address_is_said_within_seconds(room: Room) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    request = dataclasses.replace(
        room.request(SIMPLE), answers=Beside(f"sc://localhost:{port}/;token={TOKEN}")
    )
    with pytest.raises(Unreachable, match="check that the Spark driver runs") as caught:
        study(request)
    assert TOKEN not in caught.value.sentence


def test_a_server_that_says_nothing_is_said_within_the_time(room: Room) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        remote = f"sc://localhost:{mute.getsockname()[1]}/;token={TOKEN}"
        with pytest.raises(Unreachable, match="did not answer within 10 s") as caught:
            study(dataclasses.replace(room.request(SIMPLE), answers=Beside(remote)))
    assert TOKEN not in caught.value.sentence


@pytest.mark.parametrize("token", ["a-wrong-token", ""])
def test_a_wrong_token_is_refused_and_never_shown(room: Room, token: str) -> None:
    remote = re.sub(r"token=[^;]+", f"token={token}", room.remote) if token else room.remote.split("/;")[0]
    with pytest.raises(Unreachable, match="refused the token") as caught:
        study(dataclasses.replace(room.request(SIMPLE), answers=Beside(remote)))
    assert not token or token not in caught.value.sentence


def waiting(room: Room) -> tuple[Path, str]:
    """Where the code says its pid, and the code that waits."""
    started = room.folder / "pid"
    return started, f"import os, time\nopen('{started}', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"


def within_the_jail(pid: str) -> int:
    """The process that calls itself so, as the machine calls it."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = status.read_text().splitlines()
            code = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
        if numbers and numbers[-1] == pid and b"runner_parent" in code:
            return int(numbers[0])
    raise AssertionError(f"no process calls itself {pid}")


def test_a_timeout_ends_the_code_and_says_so(room: Room) -> None:
    started, code = waiting(room)
    with pytest.raises(Unreachable) as caught:
        study(room.request(code), timeout=6)
    assert caught.value.code == "answer_late"
    pid = started.read_text()
    wait_for(lambda: not is_there(pid), "the end of the code", 20)


def is_there(pid: str) -> bool:
    try:
        return alive(within_the_jail(pid))
    except AssertionError:
        return False


def test_the_code_ends_with_its_asker(room: Room) -> None:
    started, code = waiting(room)
    request = room.request("")
    script = (
        "from recovery.spark.api import *\nfrom recovery.spark.asking import Service\n"
        f"request = StudyRequest(Service({request.answers.url!r}, {request.answers.token!r}), "  # type: ignore[attr-defined]
        f"{{'/Users/ann/p/flow.py': {code!r}}}, *{(request.root, request.libraries, {}, request.catalog)!r}, "
        f"{request.schema!r}, {request.flow!r})\nstudy(request)"
    )
    asker = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    pid = str(wait_for(lambda: started.exists() and started.read_text(), "the code's start", 90))
    assert is_there(pid)
    os.kill(asker.pid, signal.SIGKILL)
    asker.wait()
    wait_for(lambda: not is_there(pid), "the end of the code", 20)


def test_no_question_sees_what_the_code_of_another_did(room: Room) -> None:
    mark = "import builtins, os\nassert not hasattr(builtins, 'mark'), 'seen'\nbuiltins.mark = 1\n"
    for _ in range(2):
        assert room.study(mark + "os.environ['MARK'] = 'x'\n" + SIMPLE).problem is None


def test_what_the_code_leaves_running_is_ended_with_its_question(room: Room) -> None:
    mark = f"86{abs(hash(room.folder)) % 10**6}"  # seconds that nobody else sleeps
    left = f"import subprocess\nsubprocess.Popen(['sleep', '{mark}'])\n"
    assert room.study(left + SIMPLE).problem is None
    wait_for(lambda: not sleepers(mark), "the end of what was left running", 10)


def sleepers(mark: str) -> list[Path]:
    """Processes that sleep for so long."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if command.read_bytes().split(b"\0")[:2] == [b"sleep", mark.encode()]:
                found.append(command)
    return found


def test_code_that_ends_its_process_is_told_and_the_next_question_is_answered(room: Room) -> None:
    with pytest.raises(Refused, match="the code may end its process"):
        room.study("import os\nos._exit(7)\n")
    assert room.study(SIMPLE).problem is None


def test_an_address_of_another_kind_is_wrong_use(room: Room) -> None:
    with pytest.raises(WrongUse, match="must begin with sc://"):
        study(dataclasses.replace(room.request(SIMPLE), answers=Beside("http://localhost:1")))


def test_tokens_are_taken_out_of_any_text() -> None:
    remote = "sc://localhost:1/;token=abc;user_id=x"
    assert (
        redact_tokens("failed at sc://h/;token=other;x and abc", remote)
        == "failed at sc://h/;token=***;x and ***"
    )
