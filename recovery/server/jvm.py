"""Calls into the JVM of Spark's driver: a request, a plain answer, and nothing more.

Functions of pipelines run there with the JVM's rights, so what it says is other people's data. PySpark's session is not
used: it unpickles rows and accumulators that the JVM sends, and puts a folder that the JVM names on `sys.path`; each of
these would run their code in this process. An answer of py4j holds texts, numbers and references, and has a bound here;
a call from there to here has no place in it.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from py4j import protocol
from py4j.clientserver import (
    ClientServer,
    ClientServerConnection,
    JavaClient,
    JavaParameters,
    PythonParameters,
)

MOST_ANSWER: Final = 64 * 1024 * 1024  # bytes
OF_PYTHON: Final = {
    "spark.serializer.objectStreamReset": "100",
    "spark.rdd.compress": "true",
}  # as PySpark sets them


@dataclass(frozen=True)
class Session:
    """A classic session of Spark in the JVM: py4j's view of the JVM, its SparkContext, its SparkSession."""

    jvm: Any
    context: Any
    spark: Any

    def stop(self) -> None:
        """End Spark; its JVM stays."""
        self.spark.stop()


def open_session(port: int, secret: str) -> Session:
    """Start Spark in a JVM that waits for it, with the settings of its configuration folder. Raises Py4JError."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection otherwise
    jvm = connect(port, secret).jvm
    conf = jvm.org.apache.spark.SparkConf()
    for name, value in OF_PYTHON.items():
        conf.setIfMissing(name, value)
    context = jvm.org.apache.spark.api.java.JavaSparkContext(conf).sc()
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    spark = sessions(context, jvm.java.util.HashMap())
    sessions.setDefaultSession(spark)
    sessions.setActiveSession(spark)
    return Session(jvm, context, spark)


def connect(port: int, secret: str) -> Any:
    """py4j's gateway to the JVM that listens there; each thread has a connection of its own."""
    return _Gateway(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
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
        connection.connect_to_java_server()
        self.set_thread_connection(connection)
        return connection


class _Connection(ClientServerConnection):  # type: ignore[misc]
    def send_command(self, command: str) -> str:
        """The answer to a command. Raises Py4JNetworkError."""
        try:
            self.socket.sendall(command.encode())
        except Exception as error:
            raise protocol.Py4JNetworkError("Error while sending", error, protocol.ERROR_ON_SEND) from error
        try:
            line = self.stream.readline(MOST_ANSWER + 1)
            if line.strip():
                return checked(line)
        except Exception as error:
            raise protocol.Py4JNetworkError("Error on receiving", error, protocol.ERROR_ON_RECEIVE) from error
        raise protocol.Py4JNetworkError("The JVM gives no answer", when=protocol.EMPTY_RESPONSE)


def checked(line: bytes) -> str:
    """What one line of the JVM answers. Raises ValueError where it is no answer, or none that has an end in bounds."""
    if not line.endswith(b"\n"):
        raise ValueError(f"The JVM's answer is cut off, or longer than {MOST_ANSWER} bytes.")
    text = line[:-1].decode()
    if not text.startswith(protocol.RETURN_MESSAGE):
        raise ValueError(f"The JVM says {text[:100]!r}, which is no answer.")
    return text[1:]
