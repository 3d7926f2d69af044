"""Calls into the JVM of Spark's driver: a request, a plain answer, and nothing more.

Functions of pipelines run there with the JVM's rights, so what it says is other people's data. PySpark's session is not
used: it unpickles rows and accumulators that the JVM sends, and puts a folder that the JVM names on `sys.path`; each of
these would run their code in this process. An answer of py4j holds texts, numbers and references, and has a bound here
and a time by which it must be whole; a call from there to here has no place in it.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from py4j import protocol
from py4j.clientserver import (
    SHUTDOWN_FINALIZER_WORKER,
    ClientServer,
    ClientServerConnection,
    JavaClient,
    JavaParameters,
    PythonParameters,
)

MOST_ANSWER: Final = 64 * 1024 * 1024  # bytes
PIECE: Final = 1 << 16
CALL_SECONDS: Final = 300.0  # a graph over large tables is analysed in one call
OPEN_SECONDS: Final = 600.0  # a cluster may be slow to give Spark its first executors
CONNECT_SECONDS: Final = 10.0
OF_PYTHON: Final = {
    "spark.serializer.objectStreamReset": "100",
    "spark.rdd.compress": "true",
}  # as PySpark sets them


@dataclass(frozen=True)
class _Deadline:
    """By `until` (of `time.monotonic`) a call is answered; `seconds` were given for that."""

    until: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> "_Deadline":
        return cls(time.monotonic() + seconds, seconds)

    def left(self) -> float:
        """Seconds until then. Raises JvmSilent where it is past: a socket takes 0 for "do not wait"."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise JvmSilent(self.seconds)
        return left


_deadline: ContextVar[_Deadline | None] = ContextVar("jvm_deadline", default=None)


class JvmSilent(protocol.Py4JNetworkError):  # type: ignore[misc]
    """The JVM runs, as far as is known, and has not answered in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"Spark's JVM gave no answer within {seconds:.0f} s.", when=protocol.ERROR_ON_RECEIVE
        )


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """All calls in here must be answered by then, instead of each in CALL_SECONDS; never later than one around it."""
    own, outer = _Deadline.after(seconds), _deadline.get()
    token = _deadline.set(own if outer is None or own.until < outer.until else outer)
    try:
        yield
    finally:
        _deadline.reset(token)


@dataclass(frozen=True)
class Session:
    """A classic session of Spark in the JVM: py4j's view of the JVM, its SparkContext, its SparkSession."""

    gateway: Any
    jvm: Any
    context: Any
    spark: Any

    def stop(self) -> None:
        """End Spark; its JVM stays."""
        self.spark.stop()

    def disconnect(self) -> None:
        """Close the connections that no call uses, and end the thread that tells the JVM what is forgotten here."""
        disconnect_gateway(self.gateway)


def open_session(port: int, secret: str) -> Session:
    """Start Spark in a JVM that waits for it, with the settings of its configuration folder. Raises Py4JError."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection otherwise
    gateway = connect_gateway(port, secret)
    try:
        with answer_within(OPEN_SECONDS):
            return _begin_session(gateway)
    except BaseException:
        disconnect_gateway(gateway)
        raise


def disconnect_gateway(gateway: Any) -> None:
    """Let go of a gateway: its thread ends, and so do connections that no call uses."""
    gateway._gateway_client.finalizer_deque.append(SHUTDOWN_FINALIZER_WORKER)
    gateway._gateway_client.is_connected = False  # what is forgotten later is not reported
    gateway._gateway_client.close()


def _begin_session(gateway: Any) -> Session:
    jvm = gateway.jvm
    conf = jvm.org.apache.spark.SparkConf()
    for name, value in OF_PYTHON.items():
        conf.setIfMissing(name, value)
    context = jvm.org.apache.spark.api.java.JavaSparkContext(conf).sc()
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    spark = sessions(context, jvm.java.util.HashMap())
    sessions.setDefaultSession(spark)
    sessions.setActiveSession(spark)
    return Session(gateway, jvm, context, spark)


def connect_gateway(port: int, secret: str) -> Any:
    """py4j's gateway to the JVM that listens there; each thread has a connection of its own."""
    return _Gateway(
        java_parameters=JavaParameters(
            port=port, auth_token=secret, auto_convert=True, read_timeout=CONNECT_SECONDS
        ),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )


class _Gateway(ClientServer):  # type: ignore[misc]
    def _create_gateway_client(self) -> "_Client":
        return _Client(
            self.java_parameters, self.python_parameters, finalizer_deque=self._create_finalizer_worker()
        )


class _Client(JavaClient):  # type: ignore[misc]
    def _create_new_connection(self) -> "_Connection":
        connection = _Connection(self.java_parameters, self.python_parameters, self.gateway_property, self)
        try:
            connection.connect_to_java_server()
        except TimeoutError as error:
            raise JvmSilent(CONNECT_SECONDS) from error
        self.set_thread_connection(connection)
        return connection

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> str:
        """The answer to a command. Raises Py4JNetworkError, JvmSilent among them; py4j's own would hide which.

        Asked once more where the line was dead from the start. Nothing here takes a raw line (`binary`).
        """
        connection = self._get_connection()
        try:
            answer: str = connection.send_command(command)
        except protocol.Py4JNetworkError as error:
            connection.close(True)  # reset: what comes late on it is no one's answer
            if retry and error.when in (protocol.ERROR_ON_SEND, protocol.EMPTY_RESPONSE):
                return self.send_command(command, retry=False, binary=binary)
            raise
        if protocol.is_fatal_error(answer):
            connection.close(False)
        else:
            self._give_back_connection(connection)
        return answer


class _Connection(ClientServerConnection):  # type: ignore[misc]
    def send_command(self, command: str) -> str:
        """The answer to a command. Raises Py4JNetworkError."""
        deadline = _deadline.get() or _Deadline.after(CALL_SECONDS)
        try:
            self._send_command(command, deadline)
            line = self._read_line(deadline)
            if line.strip():
                return check_answer(line)
        except TimeoutError as error:
            raise JvmSilent(deadline.seconds) from error
        except protocol.Py4JNetworkError:
            raise
        except Exception as error:
            raise protocol.Py4JNetworkError("Error on receiving", error, protocol.ERROR_ON_RECEIVE) from error
        raise protocol.Py4JNetworkError("The JVM gives no answer", when=protocol.EMPTY_RESPONSE)

    def _send_command(self, command: str, deadline: _Deadline) -> None:
        try:
            self.socket.settimeout(deadline.left())
            self.socket.sendall(command.encode())
        except (TimeoutError, JvmSilent):
            raise
        except Exception as error:
            raise protocol.Py4JNetworkError("Error while sending", error, protocol.ERROR_ON_SEND) from error

    def _read_line(self, deadline: _Deadline) -> bytes:
        """One line, whole by then: each piece of it could come in time, and its end never.

        The JVM says one line for each command, so none is cut here. Raises TimeoutError, JvmSilent, OSError.
        """
        line = bytearray()
        while not line.endswith(b"\n") and len(line) <= MOST_ANSWER:
            self.socket.settimeout(deadline.left())
            piece = self.socket.recv(PIECE)
            if not piece:
                break
            line += piece
        return bytes(line[: MOST_ANSWER + 1])


def check_answer(line: bytes) -> str:
    """What one line of the JVM answers. Raises ValueError where it is no answer, or none that has an end in bounds."""
    if not line.endswith(b"\n"):
        raise ValueError(f"The JVM's answer is cut off, or longer than {MOST_ANSWER} bytes.")
    if line.count(b"\n") > 1:
        raise ValueError("The JVM gives more than one answer to a command.")
    text = line[:-1].decode()
    if not text.startswith(protocol.RETURN_MESSAGE):
        raise ValueError(f"The JVM says {text[:100]!r}, which is no answer.")
    return text[1:]
