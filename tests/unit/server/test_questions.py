"""A question is answered by a fork of its own: what that says is bounded, and its end is certain."""

import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from recovery.server import forks, questions
from recovery.server.children import Children
from recovery.server.confinement import Confinement
from recovery.server.forks import Runners
from recovery.server.jail import children_of, question_confinement
from recovery.server.questions import Answering, AskedQuestion, Questions, TooManyQuestions
from tests.contract.lab import alive, until

# The parent without its imports; in place of what answers questions, the code of a test.
PARENT = """
from recovery.server import runner_parent
runner_parent.TRADES = {"question": "tests.unit.server.odd_answers"}
runner_parent.main()
"""
REMOTE = "sc://localhost:1/;token=a-secret"
GOOD = b'{"answer": {"rows": 3}}\n'
IDLE = "import time; time.sleep(600)"


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Questions]:
    monkeypatch.setattr(forks, "COMMAND", (sys.executable, "-c", PARENT))
    monkeypatch.setattr(questions, "GRACE_SECONDS", 0.2)
    runners = Runners(tmp_path / "runners.log", Children(tmp_path / "pids"), confinement=Confinement())
    made = Questions(
        tmp_path / "questions",
        runners,
        confine=lambda folder: question_confinement(home=tmp_path, folder=folder, others=()),
    )
    made.clear()
    yield made
    runners.end()


def command_line(place: Path) -> str:
    """What a process was started with; "" when it has ended."""
    with suppress(OSError):
        return place.read_text(errors="replace")
    return ""


def begun(asking: Questions, code: str, *, seconds: float = 60, gone: bool = False) -> Answering:
    return asking.ask(AskedQuestion("study", {"code": code}, seconds, REMOTE), gone=lambda: gone)


def said(asking: Questions, code: str, *, seconds: float = 60) -> bytes:
    with closing(begun(asking, code, seconds=seconds)) as body:
        return b"".join(body).lstrip()


def test_what_the_fork_answers_is_what_comes_and_nothing_of_it_is_left(asking: Questions) -> None:
    body = begun(asking, f"answer({GOOD!r})")
    assert b"".join(body) == GOOD
    body.close()
    body.close()
    assert not alive(body.fork.pid)
    assert list(asking.folder.iterdir()) == []
    assert body.fork.pid not in asking.runners.children.known


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("", "ended"),
        ("import os; os._exit(7)", "ended"),
        ("import os; os.close(report); import time; time.sleep(600)", "ended"),
        ("answer(b'so many words\\n')", "unreadable"),
        ("answer(b'[1]\\n')", "unreadable"),
        ("answer(b'{\"answer\": 3}\\n')", "unreadable"),
        ('answer(b\'{"answer": {}, "error": "late"}\\n\')', "unreadable"),
        ('answer(b\'{"error": "of its own"}\\n\')', "unreadable"),
        ("answer(b'[' * 100_000 + b'\\n')", "unreadable"),
        ('answer(b\'{"error": "refused", "sentence": "No."}\\n\')', "refused"),
        ("answer(b'x' * 300_000 + b'\\n')", "too_large"),
        ("while True: answer(b'x' * 60_000)", "too_large"),
    ],
)
def test_what_is_no_answer_is_an_error_of_its_own_kind(
    asking: Questions, monkeypatch: pytest.MonkeyPatch, code: str, error: str
) -> None:
    monkeypatch.setattr(questions, "MOST_ANSWER", 250_000)
    assert json.loads(said(asking, code))["error"] == error


@pytest.mark.parametrize("code", [IDLE, f"answer(b'half of'); {IDLE}"])
def test_what_takes_too_long_is_late_and_ended(asking: Questions, code: str) -> None:
    body = begun(asking, code, seconds=0.5)
    assert json.loads(b"".join(body))["error"] == "late"
    body.close()
    assert not alive(body.fork.pid)


def test_who_hangs_up_ends_the_fork(asking: Questions) -> None:
    with closing(begun(asking, IDLE, gone=True)) as body:
        assert list(body) == []
    assert not alive(body.fork.pid)


def test_blanks_come_while_it_works(asking: Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(questions, "LOOK_SECONDS", 0.01)
    pieces = []
    with closing(begun(asking, f"import time; time.sleep(0.5); answer({GOOD!r})")) as body:
        pieces = list(body)
    assert pieces[0] == b"\n"
    assert json.loads(b"".join(pieces)) == {"answer": {"rows": 3}}


def test_no_sentence_holds_the_token_of_spark(asking: Questions) -> None:
    line = b'{"error": "refused", "sentence": "a-secret and sc://h/;token=other;x"}\n'
    assert json.loads(said(asking, f"answer({line!r})"))["sentence"] == "*** and sc://h/;token=***;x"


def test_a_log_that_is_a_link_by_now_is_not_read(asking: Questions, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("very-secret")
    code = f"import os; os.symlink({str(tmp_path / 'secret')!r}, order['log'])"
    with closing(begun(asking, code)) as body:
        assert json.loads(b"".join(body))["error"] == "ended"
        assert body.log.is_symlink()
        assert questions.last_words(body.log) == ""


def test_the_code_gets_nothing_of_the_server_but_a_folder(asking: Questions, tmp_path: Path) -> None:
    code = "import json; answer(json.dumps({'answer': order}).encode() + b'\\n')"
    order = json.loads(said(asking, code))["answer"]
    assert set(order) == {"question", "folder", "log", "remote", "memory", "grants"}
    assert {Path(order[name]).is_relative_to(asking.folder) for name in ("question", "folder", "log")} == {
        True
    }


def test_no_more_are_answered_at_once_than_there_are_turns(asking: Questions) -> None:
    asking.turns = questions.threading.BoundedSemaphore(1)
    first = begun(asking, IDLE)
    with pytest.raises(TooManyQuestions):
        begun(asking, IDLE)
    first.close()
    assert json.loads(said(asking, f"answer({GOOD!r})")) == {"answer": {"rows": 3}}


# Twice a fork and a session of its own between them: what is left has neither its parent nor its process group.
IMPLANT = """
import os, time
if os.fork() == 0:
    os.setsid()
    for _ in range(3):
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", {seconds!r}])
    os._exit(0)
os.wait()
def running():
    for place in os.listdir("/proc"):
        try:
            said = [open(f"/proc/{{place}}/{{name}}").read() for name in ("cmdline", "comm")]
            yield {seconds!r} in said[0] and "sleep" in said[1]
        except OSError:
            pass
while sum(running()) < 3:
    pass
"""


def some_seconds() -> str:
    """They name a process on the whole machine: its id is that of the jail."""
    return f"{600 + secrets.randbelow(10**6) / 10**6:.6f}"


def is_running(seconds: str) -> bool:
    return any(seconds in line for line in map(command_line, Path("/proc").glob("[0-9]*/cmdline")))


@pytest.mark.parametrize("end", [f"answer({GOOD!r})", "os._exit(3)", "os.kill(os.getpid(), 11)", IDLE])
def test_what_the_code_started_ends_with_its_question(asking: Questions, end: str) -> None:
    seconds = some_seconds()
    with closing(begun(asking, IMPLANT.format(seconds=seconds) + end, seconds=5)) as body:
        b"".join(body)
        assert "Error" not in questions.last_words(body.log)
    assert not is_running(seconds)


def test_what_a_question_started_ends_also_where_the_process_above_it_is_killed(asking: Questions) -> None:
    seconds = some_seconds()
    with closing(begun(asking, IMPLANT.format(seconds=seconds) + IDLE)) as body:
        until(lambda: is_running(seconds), "what the code starts", 10)
        os.kill(body.fork.pid, signal.SIGKILL)
        assert json.loads(b"".join(body))["error"] == "ended"
    until(lambda: not is_running(seconds), "the end of what was left running", 10)


# As its process ids are: those of the place that all forks live in.
ENDS_OTHERS = """
import json, os, signal
from pathlib import Path
reached = []
for place in Path("/proc").glob("[0-9]*"):
    pid = int(place.name)
    if pid == os.getpid():
        continue
    for name in ("environ", "maps", "fd/0"):
        try:
            with open(place / name, "rb") as file:
                file.read(1)
            reached.append(name)
        except OSError:
            pass
    try:
        os.kill(pid, signal.SIGKILL)
        reached.append("kill")
    except OSError:
        pass
answer(json.dumps({"answer": {"reached": reached}}).encode() + b"\\n")
"""


def test_a_question_ends_and_reads_no_other_process_of_its_place(asking: Questions) -> None:
    begin = "open(order['folder'] + '/begun', 'x').close();"
    with closing(begun(asking, begin + IDLE)) as other:
        until(lambda: (other.folder / "home" / "begun").exists(), "the other question")
        (worker,) = children_of(other.fork.pid)
        assert json.loads(said(asking, ENDS_OTHERS)) == {"answer": {"reached": []}}
        assert alive(other.fork.pid)
        assert alive(worker)
        assert len(asking.runners.parents) == 1


def test_a_question_reads_and_writes_nothing_of_another(asking: Questions) -> None:
    with closing(begun(asking, IDLE)) as other:
        code = """
import json, pathlib
reached = []
for act, path in [("r", {0!r}), ("a", {0!r}), ("a", {1!r})]:
    try:
        open(path, act).close()
        reached.append(act)
    except OSError:
        pass
answer(json.dumps({{"answer": {{"reached": reached}}}}).encode() + b"\\n")
""".format(str(other.folder / ".question"), str(other.folder / "home" / "planted"))
        assert json.loads(said(asking, code)) == {"answer": {"reached": []}}


def test_what_a_former_server_left_behind_is_removed(asking: Questions) -> None:
    (asking.folder / "q-left").mkdir()
    asking.clear()
    assert list(asking.folder.iterdir()) == []
