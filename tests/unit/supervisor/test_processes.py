"""Only what carries our mark is ever ended, wherever it hides."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from console.supervisor import processes

SLEEP = "import time; time.sleep(60)"
DETACH = (
    "import subprocess, sys; subprocess.Popen("
    f"[sys.executable, '-c', {SLEEP!r}], start_new_session=True, stdout=subprocess.DEVNULL)"
)
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"


@pytest.fixture
def mark() -> Iterator[str]:
    made = f"{secrets.token_hex(8)}:test"
    yield made
    processes.end_marked(made, grace=0)


def start(code: str, mark: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, processes.MARK: mark}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)


def wait_for(condition: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_in_a_session_of_its_own_is_found_and_ended(mark: str) -> None:
    start(DETACH, mark).communicate()
    wait_for(lambda: len(processes.list_marked(mark)) == 1)
    (orphan,) = processes.list_marked(mark)

    assert processes.end_marked(mark, grace=5) == 1
    assert not processes.is_alive(orphan)


def test_a_process_that_ignores_the_request_is_forced(mark: str) -> None:
    deaf = start(DEAF, mark)
    assert deaf.stdout is not None
    deaf.stdout.readline()

    processes.end_marked(mark, grace=0.1)

    assert deaf.communicate()[0] == b""
    assert deaf.returncode == -9


def test_a_process_without_our_mark_is_never_found(mark: str) -> None:
    stranger = start(SLEEP, "somebody-else:test")
    try:
        assert processes.list_marked(mark) == []
        assert processes.end_marked(mark, grace=0) == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()
