"""What Spark's JVM answers is data: pipelines' code runs beside it, and may answer in its place."""

import ast
import contextlib
import gc
import pickle
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import FinalizerWorker
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from recovery.server import jvm

SERVER = Path(jvm.__file__).parent
IN_THE_JAIL = {"runner.py", "runner_parent.py", "probe.py"}


@pytest.fixture(autouse=True)
def _connections_end_here() -> Iterator[None]:
    """py4j closes a connection when the garbage collector finds it, and logs that. Within another test's `ast.parse`
    the traceback of that log is parsed too, which CPython 3.11 answers with a SystemError."""
    yield
    gc.collect()


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """The port of a JVM that takes any secret, and then answers each command with the next of these."""

    def serve() -> None:
        peer, _ = listener.accept()
        listener.close()  # else a client that tries once more would wait
        with peer, peer.makefile("rb") as lines:
            lines.readline()  # the word for a secret
            lines.readline()  # the secret
            peer.sendall(b"!yv\n")
            for answer in answers:
                while lines.readline() not in (b"e\n", b""):
                    pass
                peer.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        serving = threading.Thread(target=serve)
        serving.start()
        yield port
    serving.join(10)


def asked(port: int) -> Any:
    """The answer to one command."""
    gateway = jvm.connect_gateway(port, "secret")
    try:
        return gateway._gateway_client.send_command("c\no1\ntoString\ne\n")
    finally:
        jvm.disconnect_gateway(gateway)


def test_a_plain_answer_is_heard() -> None:
    with answering(b"!ystext\n") as port:
        assert asked(port) == "ystext"


@pytest.mark.parametrize(
    "said",
    [
        b"c\np0\ntoString\ne\n",  # a call from there to here
        b"yshalf an answer",
        b"ys no answer\n",
        b"!ys\xff\n",
        b"!ysone\n!ystwo\n",
        pickle.dumps({"a": 1}) + b"\n",
    ],
)
def test_what_is_no_answer_is_an_error(said: bytes) -> None:
    with answering(said) as port, pytest.raises(Py4JNetworkError) as refused:
        asked(port)
    assert not isinstance(refused.value, jvm.JvmSilent)


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "MOST_ANSWER", 1000)
    with answering(b"!ys" + b"x" * 2000 + b"\n") as port, pytest.raises(Py4JNetworkError):
        asked(port)


def test_a_jvm_that_is_gone_is_said() -> None:
    with answering() as port, pytest.raises((Py4JNetworkError, ConnectionError)):
        asked(port)


@contextmanager
def silent(*, says: bytes = b"", every: float = 0.01) -> Iterator[int]:
    """The port of a JVM that takes any secret, and then sends this again and again, but never the end of a line."""

    def serve(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.recv(1000)  # the word for a secret, and the secret
            peer.sendall(b"!yv\n")
            while not over.wait(every):
                peer.sendall(says)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                serving.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
                serving[-1].start()

    over, serving = threading.Event(), []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield listener.getsockname()[1]
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
    for thread in [accepting, *serving]:
        thread.join(10)


@pytest.mark.parametrize("says", [b"", b"x"])
def test_an_answer_without_end_is_waited_for_until_the_deadline_however_it_drips(says: bytes) -> None:
    began = time.monotonic()
    with silent(says=says) as port, pytest.raises(jvm.JvmSilent), jvm.answer_within(0.3):
        asked(port)
    assert 0.3 <= time.monotonic() - began < 3


def test_without_a_deadline_of_its_own_a_call_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "CALL_SECONDS", 0.2)
    with silent() as port, pytest.raises(jvm.JvmSilent):
        asked(port)


def test_a_deadline_within_another_one_ends_no_later() -> None:
    began = time.monotonic()
    with silent() as port, pytest.raises(jvm.JvmSilent), jvm.answer_within(0.2), jvm.answer_within(60):
        asked(port)
    assert time.monotonic() - began < 3


def test_a_jvm_that_takes_a_connection_and_no_secret_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(jvm.JvmSilent),
        jvm.answer_within(0.2),
    ):
        asked(listener.getsockname()[1])


def test_the_line_on_which_an_answer_may_still_come_is_closed() -> None:
    with silent() as port:
        gateway = jvm.connect_gateway(port, "secret")
        client = gateway._gateway_client
        connection = client._get_connection()
        client._give_back_connection(connection)
        with pytest.raises(jvm.JvmSilent), jvm.answer_within(0.05):
            client.send_command("c\no1\ntoString\ne\n")
        assert connection.socket is None
        jvm.disconnect_gateway(gateway)


def handles() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_silence_leaves_no_thread_and_no_handle() -> None:
    with silent() as port:
        handles_before, threads_before = handles(), threading.active_count()
        gateway = jvm.connect_gateway(port, "secret")
        for _ in range(20):
            with pytest.raises(jvm.JvmSilent), jvm.answer_within(0.01):
                gateway._gateway_client.send_command("c\no1\ntoString\ne\n")
        jvm.disconnect_gateway(gateway)
        ours = [t for t in threading.enumerate() if isinstance(t, FinalizerWorker)]
        for thread in ours:
            thread.join(5)
        assert not any(thread.is_alive() for thread in ours)
    assert handles() <= handles_before
    assert threading.active_count() <= threads_before


@pytest.fixture
def real() -> Iterator[Any]:
    """A gateway of py4j itself, in a JVM without Spark."""
    (archive,) = (Path(find_spec("pyspark").origin).parent / "jars").glob("py4j*.jar")  # type: ignore[union-attr, arg-type]
    command = [
        shutil.which("java") or "java",
        "-cp",
        str(archive),
        "py4j.GatewayServer",
        "--enable-auth",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port, secret = int(process.stdout.readline()), process.stdout.readline().strip()
        gateway = jvm.connect_gateway(port, secret)
        yield gateway.jvm
        jvm.disconnect_gateway(gateway)
        process.kill()


def test_a_jvm_of_py4j_is_heard_left_when_it_sleeps_and_heard_again(real: Any) -> None:
    long = real.java.lang.StringBuilder()
    for _ in range(5):
        long.append("x" * 1_000_000)
    assert len(long.toString()) == 5_000_000
    with pytest.raises(jvm.JvmSilent), jvm.answer_within(0.3):
        real.java.lang.Thread.sleep(60_000)
    assert real.java.lang.Math.max(1, 2) == 2
    with pytest.raises(Py4JJavaError):
        real.java.lang.Integer.parseInt("no number")


def imports_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_the_server_opens_no_session_of_pyspark_and_unpickles_nothing() -> None:
    taken = {
        (file.name, name)
        for file in SERVER.glob("*.py")
        if file.name not in IN_THE_JAIL
        for name in imports_of(file)
        if name.startswith(("pyspark", "pickle", "cloudpickle", "marshal", "shelve"))
    }

    assert taken == {
        ("gateway.py", "pyspark"),  # where its files lie
        ("updates.py", "pyspark"),  # its version
        ("updates.py", "pyspark.__version__"),
    }
