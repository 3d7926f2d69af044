"""A question's Spark session ends within bounds, whatever Spark and gRPC do."""

import atexit
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import grpc
import pytest
from pyspark.sql.connect.client.core import SparkConnectClient

from recovery.spark import session

RELEASE = "/spark.connect.SparkConnectService/ReleaseSession"


class Releasing(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """A Spark Connect server that hears that a session is given back, and answers when a test lets it."""

    def __init__(self) -> None:
        self.heard, self.let = Event(), Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.heard.set()
            self.let.wait(60)
            return b""

        return grpc.unary_unary_rpc_method_handler(answer) if handler_call_details.method == RELEASE else None


@pytest.fixture
def spark() -> Iterator[tuple[SimpleNamespace, Releasing]]:
    handler, pool = Releasing(), ThreadPoolExecutor(2)
    server = grpc.server(pool, handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    client = SparkConnectClient(f"sc://127.0.0.1:{port}")
    atexit.unregister(client._on_exit)  # it would ask the server of a test that is over, for ten minutes
    client.set_retry_policies([])
    yield SimpleNamespace(client=client), handler
    handler.let.set()
    server.stop(None).wait(10)
    pool.shutdown()


def test_a_session_that_spark_takes_back_is_released_and_its_channel_stays_open(
    spark: tuple[SimpleNamespace, Releasing],
) -> None:
    made, handler = spark
    handler.let.set()
    session.release_session(made)
    assert handler.heard.is_set()
    assert not made.client.is_closed


def test_a_spark_that_does_not_take_its_session_back_holds_up_no_answer(
    spark: tuple[SimpleNamespace, Releasing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RELEASE_SECONDS", 0.2)
    made, handler = spark
    began = time.monotonic()
    session.release_session(made)
    assert time.monotonic() - began < 20
    assert not handler.let.is_set()
