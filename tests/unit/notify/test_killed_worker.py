"""A worker that is really killed, at the one moment that matters: the receiver has it, the outbox does not know yet."""

import signal
import threading
from http.server import BaseHTTPRequestHandler

from tests.instances import Instances
from tests.unit.notify.conftest import SECRET
from tests.unit.notify.receivers import Receiver


def code_of(receiver: Receiver, act: str) -> str:
    return f"from tests.unit.notify import worker; worker.run({receiver.url!r}, {SECRET!r}, {act!r})"


def test_a_worker_killed_after_sending_is_followed_by_one_that_sends_the_same_id_again(
    instances: Instances, receiver: Receiver
) -> None:
    here = instances.migrated()
    assert here.python(code_of(receiver, "announce")) == ["pending:0"]
    begun = threading.Event()

    def kill(handler: BaseHTTPRequestHandler) -> None:
        assert begun.wait(60)
        worker.kill()
        handler.close_connection = True

    receiver.answers = [kill]
    worker = here.begin(code_of(receiver, "deliver"))
    begun.set()
    assert worker.wait(60).returncode == -signal.SIGKILL
    assert here.python(code_of(receiver, "deliver")) == ["delivered:2"]

    assert len({r.headers["webhook-id"] for r in receiver.got}) == 1
    assert len({r.body for r in receiver.got}) == 1
    assert len(receiver.got) == 2
