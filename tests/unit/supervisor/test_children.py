"""One child: ready, not ready, dead, ended."""

import os
import secrets
import sys
import time
from pathlib import Path

from console.supervisor import processes
from console.supervisor.bootstrap import CannotStart
from console.supervisor.children import Child
from tests.refusals import refused

SLEEP = "import time; print('I am ready.', flush=True); time.sleep(60)"
FAMILY = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); {SLEEP}"


def child_of(folder: Path, code: str, **how: float) -> Child:
    mark = f"{secrets.token_hex(8)}:worker"
    return Child(
        "worker", [sys.executable, "-c", code], dict(os.environ), folder / "logs" / "worker.log", mark,
        lambda c: c.said(" ready."), **{"seconds": 10.0, **how},
    )  # fmt: skip


def until_ready(child: Child) -> None:
    while not child.check_ready():
        time.sleep(0.01)


def test_a_child_is_ready_when_it_says_so_and_ends_with_all_that_it_started(tmp_path: Path) -> None:
    child = child_of(tmp_path, FAMILY)
    child.start()
    until_ready(child)
    assert os.getsid(child.pid) == child.pid  # Ctrl-C in our terminal does not reach it

    child.stop(hurry=lambda: False)

    assert child.ended() == "signal 15"
    assert processes.list_marked(child.mark) == []


def test_what_an_earlier_start_said_does_not_count(tmp_path: Path) -> None:
    child = child_of(tmp_path, "import time; time.sleep(60)", seconds=0.3)
    child.log.parent.mkdir()
    child.log.write_text("I am ready.\n")
    child.start()

    with refused("child_not_ready", CannotStart, names=("Worker", "0 s", "worker.log")):
        until_ready(child)
    child.stop(hurry=lambda: True)
    assert child.ended() == "signal 9" or child.ended() == "signal 15"


def test_a_child_that_dies_while_starting_is_told_with_its_last_words(tmp_path: Path) -> None:
    child = child_of(tmp_path, "print('the address is wrong'); raise SystemExit(3)")
    child.start()

    with refused("child_ended", CannotStart, names=("Worker", "exit 3", "the address is wrong")):
        until_ready(child)


def test_the_first_death_is_answered_at_once_and_later_ones_more_and_more_slowly(tmp_path: Path) -> None:
    child = child_of(tmp_path, SLEEP)
    child.started = time.monotonic()

    assert [child.wait_before_restart() for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]

    child.started = time.monotonic() - 3600
    assert child.wait_before_restart() == 0


def test_a_long_log_begins_anew_and_the_old_one_is_kept(tmp_path: Path) -> None:
    child = child_of(tmp_path, "print('new')")
    child.log.parent.mkdir()
    child.log.write_bytes(b"x" * 10_000_001)

    child.start()
    assert child.process is not None
    child.process.wait()

    assert child.log.read_text() == "new\n"
    assert (tmp_path / "logs" / "worker.log.1").stat().st_size == 10_000_001


def test_a_log_is_turned_over_while_its_process_writes(tmp_path: Path) -> None:
    code = "import time; print('x' * 10_000_001 + ' ready.', flush=True)\n"
    code += "while True: time.sleep(0.05); print('on', flush=True)"
    child = child_of(tmp_path, code)
    child.start()
    until_ready(child)
    child.turn_log()
    until_said(child, "on")
    child.stop(lambda: True)
    assert child.log.stat().st_size < 10_000
    assert (tmp_path / "logs" / "worker.log.1").stat().st_size > 10_000_000


def until_said(child: Child, text: str) -> None:
    while not child.said(text):
        time.sleep(0.01)
