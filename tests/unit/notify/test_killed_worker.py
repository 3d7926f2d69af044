"""A worker that is really killed, at the one moment that matters: the receiver has it, the outbox does not know yet."""

import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.unit.notify.conftest import SECRET
from tests.unit.notify.receivers import Receiver

ROOT = Path(__file__).resolve().parents[3]


def start(home: Path, address: str, act: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "REPRISE_HOME": str(home), "REPRISE_NOTIFY_SECRET": SECRET}
    env |= {"REPRISE_OUTBOUND_ALLOW": "localhost", "DJANGO_SETTINGS_MODULE": "console.settings"}
    command = [sys.executable, "-m", "tests.unit.notify.worker", address, act]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)


def test_a_worker_killed_after_sending_is_followed_by_one_that_sends_the_same_id_again(
    home: Path, receiver: Receiver
) -> None:
    first = start(home, receiver.url, "announce")
    first.communicate(timeout=60)
    assert first.returncode == 0
    killed = []

    def kill(handler: BaseHTTPRequestHandler) -> None:
        worker.send_signal(signal.SIGKILL)
        killed.append(worker.wait(20))
        handler.close_connection = True

    receiver.answers = [kill]
    worker = start(home, receiver.url, "deliver")
    worker.communicate(timeout=60)
    second = start(home, receiver.url, "deliver")
    said, _ = second.communicate(timeout=60)

    assert killed == [-signal.SIGKILL]
    assert said == "delivered:2"
    assert len({r.headers["webhook-id"] for r in receiver.got}) == 1
    assert len({r.body for r in receiver.got}) == 1
    assert len(receiver.got) == 2
