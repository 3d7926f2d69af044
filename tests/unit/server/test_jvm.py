"""What Spark's JVM answers is data: pipelines' code runs beside it, and may answer in its place."""

import ast
import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from recovery.server import jvm

SERVER = Path(jvm.__file__).parent
IN_THE_JAIL = {"runner.py", "runner_parent.py", "probe.py"}


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
    client = jvm.connect(port, "secret")._gateway_client
    try:
        return client.send_command("c\no1\ntoString\ne\n")
    finally:
        client.close()


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
        pickle.dumps({"a": 1}) + b"\n",
    ],
)
def test_what_is_no_answer_is_an_error(said: bytes) -> None:
    with answering(said) as port:
        assert asked(port) == "x"  # py4j's word for an error


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "MOST_ANSWER", 1000)
    with answering(b"!ys" + b"x" * 2000 + b"\n") as port:
        assert asked(port) == "x"


def test_a_jvm_that_is_gone_is_said() -> None:
    with answering() as port, pytest.raises((Py4JNetworkError, ConnectionError)):
        asked(port)


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
