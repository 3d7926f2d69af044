"""The Spark room when Spark is away, slow or wrong: a sentence in time, no process left, no secret shown."""

import dataclasses
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.errors import Refused, Unreachable, WrongUse
from recovery.spark import process
from recovery.spark.api import prepare, study
from recovery.spark.process import redact
from tests.contract.lab import alive
from tests.integration.spark_room import SIMPLE, TOKEN, Room
from tests.stack import wait_for

pytestmark = pytest.mark.spark


def test_nobody_at_the_address_is_said_within_seconds(room: Room) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    request = dataclasses.replace(room.request(SIMPLE), remote=f"sc://localhost:{port}/;token={TOKEN}")
    with pytest.raises(Unreachable, match="check that the Spark driver runs") as caught:
        study(request)
    assert TOKEN not in caught.value.sentence


def test_a_server_that_says_nothing_is_said_within_the_time(room: Room) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        remote = f"sc://localhost:{mute.getsockname()[1]}/;token={TOKEN}"
        with pytest.raises(Unreachable, match="did not answer within 10 s") as caught:
            study(dataclasses.replace(room.request(SIMPLE), remote=remote))
    assert TOKEN not in caught.value.sentence


@pytest.mark.parametrize("token", ["a-wrong-token", ""])
def test_a_wrong_token_is_refused_and_never_shown(room: Room, token: str) -> None:
    remote = re.sub(r"token=[^;]+", f"token={token}", room.remote) if token else room.remote.split("/;")[0]
    with pytest.raises(Unreachable, match="refused the token") as caught:
        study(dataclasses.replace(room.request(SIMPLE), remote=remote))
    assert not token or token not in caught.value.sentence


def test_a_timeout_ends_the_child_and_says_so(room: Room) -> None:
    prepare()
    (child,) = process._spare
    request = room.request("import time\ntime.sleep(600)\n")
    with pytest.raises(Unreachable, match="did not finish the answer within 4 s"):
        study(request, timeout=4)
    assert child.process.poll() is not None
    assert process._spare == []


def test_a_child_ends_with_its_parent(room: Room) -> None:
    started = room.folder / "pid"
    code = f"import os, time\nopen('{started}', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    request = dataclasses.asdict(room.request("")) | {"files": {"/Users/ann/p/flow.py": code}}
    script = f"from recovery.spark.api import *\nstudy(StudyRequest(**{request!r}))"
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    fork = int(wait_for(lambda: started.exists() and started.read_text(), "the code's start", 90))
    child = int(Path(f"/proc/{fork}/stat").read_text().rpartition(")")[2].split()[1])
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(fork) and not alive(child), "the end of both", 10)


def test_a_child_serves_one_question_after_the_other_and_ends_with_the_process(room: Room) -> None:
    prepare()
    (spare,) = process._spare
    prepare()
    assert process._spare == [spare]
    for _ in range(2):
        assert room.study(SIMPLE).operators == ()
        assert process._spare == [spare]
    assert sorted(p.name for p in Path(spare.folder).iterdir()) == [process.LOG]
    process._end_spare()
    assert not alive(spare.process.pid)
    assert not Path(spare.folder).exists()


def test_no_question_sees_what_the_code_of_another_did(room: Room) -> None:
    mark = "import builtins, os\nassert not hasattr(builtins, 'mark'), 'seen'\nbuiltins.mark = 1\n"
    for _ in range(2):
        assert room.study(mark + "os.environ['MARK'] = 'x'\n" + SIMPLE).problem is None


def test_what_the_code_leaves_running_is_ended_with_its_question(room: Room) -> None:
    started = room.folder / "pid"
    left = "import subprocess\np = subprocess.Popen(['sleep', '600'])\n"
    assert room.study(f"{left}open('{started}', 'w').write(str(p.pid))\n" + SIMPLE).problem is None
    wait_for(lambda: not alive(int(started.read_text())), "the end of what was left running", 10)


def test_code_that_ends_its_process_is_told_and_the_next_question_is_answered(room: Room) -> None:
    with pytest.raises(Refused, match="the code may end its process"):
        room.study("import os\nos._exit(7)\n")
    assert room.study(SIMPLE).problem is None


def test_the_pipelines_code_sees_no_secret_of_the_console(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_SECRET_KEY", "very-secret")
    found = room.study("import os\nraise ValueError(sorted(k for k in os.environ if 'REPRISE' in k))\n")
    assert (found.problem or "").endswith("ValueError: []")


def test_an_address_of_another_kind_is_wrong_use(room: Room) -> None:
    with pytest.raises(WrongUse, match="must begin with sc://"):
        study(dataclasses.replace(room.request(SIMPLE), remote="http://localhost:1"))


def test_tokens_are_taken_out_of_any_text() -> None:
    remote = "sc://localhost:1/;token=abc;user_id=x"
    assert (
        redact("failed at sc://h/;token=other;x and abc", remote) == "failed at sc://h/;token=***;x and ***"
    )
