"""Spark with the connectors on its class path, in a process of its own: they must be there from the start.

One serves a whole test run: it answers Spark Connect, and runs Python beside its JVM for whoever opens its socket.
Each client has a session of its own; settings of its class path and its master are the JVM's.
"""

import contextlib
import json
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from console.supervisor import jars
from recovery.server.driver import connector_settings
from tests import shared
from tests.s3 import free_port
from tests.spark_child import QUICK, SparkChild

# Each line that a client sends holds settings of its session, or code that is run with `spark` (the client's session)
# and what the line's `words` name; `answer` goes back. The only line of stdin asks whether Spark is there.
CHILD = """
import json, socketserver, sys, threading
from pyspark.sql import SparkSession

conf, place = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
opening = threading.Lock()


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        with opening:
            session = spark.newSession()
        for line in self.rfile:
            asked = json.loads(line)
            for name, value in asked.get("settings", {}).items():
                session.conf.set(name, value)
            words = {"spark": session, "answer": None, **asked.get("words", {})}
            try:
                exec(asked.get("code", ""), words)
                reply = {"answer": words["answer"]}
            except Exception as problem:
                reply = {"problem": f"{type(problem).__name__}: {problem}"}
            self.wfile.write(json.dumps(reply, default=str).encode() + b"\\n")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


with Server(place, Client) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for _ in sys.stdin:
        print("ANSWER " + json.dumps(spark.range(1).count()), flush=True)
    server.shutdown()
spark.stop()
"""
# A session's defaults; those that are of the JVM come after. Few partitions: each is a task, of little data.
SESSION = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
SETTINGS = {
    **SESSION,
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
}


class ConnectedSpark:
    """A client of it. `run` executes Python beside the JVM; what it assigns to `answer` comes back."""

    def __init__(self, place: str, settings: Mapping[str, str] | None = None) -> None:
        self.line = socket.socket(socket.AF_UNIX)
        self.line.connect(place)
        self.lines = self.line.makefile("rwb")
        self.ask({"settings": dict(settings or {})})

    def ask(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """{"answer": …}, or {"problem": its text}. Raises AssertionError when Spark has ended."""
        self.lines.write(json.dumps(line).encode() + b"\n")
        self.lines.flush()
        reply = self.lines.readline()
        assert reply, "Spark has ended"
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def run(self, code: str, **words: Any) -> Any:
        """What the code answered. AssertionError with the text of its failure."""
        reply = self.attempt(code, **words)
        assert "problem" not in reply, reply["problem"]
        return reply["answer"]

    def attempt(self, code: str, **words: Any) -> dict[str, Any]:
        """{"answer": …}, or {"problem": its text}."""
        return self.ask({"code": code, "words": words})

    def close(self) -> None:
        """Leave it."""
        self.lines.close()
        self.line.close()


@contextlib.contextmanager
def spark_server(**more: str) -> Iterator[str]:
    """The socket of a Spark with connectors while this lasts; `more` are settings."""
    archives = jars.ensure_jars("connectors", tell=lambda _: None)[0].parent
    with tempfile.TemporaryDirectory(prefix="reprise-connected-", ignore_cleanup_errors=True) as folder:
        place = str(Path(folder, "spark.sock"))
        warehouse = {"spark.sql.warehouse.dir": str(Path(folder, "warehouse"))}
        child = SparkChild(
            Path(folder),
            CHILD,
            [{**SETTINGS, **connector_settings(str(archives)), **warehouse, **more}, place],
        )
        try:
            assert child.answer({}) == 1
            yield place
        finally:
            child.close()


@contextlib.contextmanager
def connected_spark(**more: str) -> Iterator[ConnectedSpark]:
    """A client of a Spark of its own while this lasts; `more` are settings."""
    with spark_server(**more) as place, contextlib.closing(ConnectedSpark(place)) as client:
        yield client


def answering_connect(port: int) -> dict[str, str]:
    """The settings with which a Spark answers Spark Connect there."""
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }


@contextlib.contextmanager
def kept() -> Iterator[dict[str, Any]]:
    """The one of a test run, for its keeper. It has the streams and tables of hundreds of tests."""
    port = free_port()
    with spark_server(**answering_connect(port), **{"spark.driver.memory": "2g"}) as place:
        yield {"place": place, "remote": f"sc://127.0.0.1:{port}"}


@pytest.fixture(scope="session")
def bare_remote(request: pytest.FixtureRequest) -> str:
    """Address of the run's Spark with the connectors and nothing around it."""
    return str(shared.reach(request.config, "spark")["remote"])


@pytest.fixture(scope="session")
def beside_spark(request: pytest.FixtureRequest) -> Iterator[ConnectedSpark]:
    """Python beside the JVM of the run's Spark, in a session of this worker's own."""
    place = shared.reach(request.config, "spark")["place"]
    with contextlib.closing(ConnectedSpark(place, {"spark.sql.shuffle.partitions": "2"})) as client:
        yield client
