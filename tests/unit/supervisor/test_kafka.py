"""The Kafka broker as a child: only with connectors, at the port that stands in a pipeline's code."""

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from console.supervisor import instance, kafka
from console.supervisor.bootstrap import CannotStart
from console.workers import WORKERS
from recovery.errors import Unreachable
from tests.refusals import refused
from tests.unit.supervisor.conftest import asked


def test_kafka_is_started_only_with_connectors(home: Path, listener: socket.socket) -> None:
    plain = instance.configure_instance(asked(home), listener)
    more = instance.configure_instance(replace(asked(home), connectors=True), listener)

    assert "kafka" not in [c.name for c in instance.list_children(plain)]
    assert plain.kafka == ""
    children = {c.name: c for c in instance.list_children(more)}
    assert list(children) == ["broker", "kafka", "pipelines", "web", *WORKERS, "beat"]
    assert children["kafka"].command == kafka.broker_command(home / "kafka", more.kafka_port)
    assert more.kafka == f"127.0.0.1:{more.kafka_port}"


def test_a_redis_of_ones_own_leaves_kafka_where_it_is(
    home: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_BROKER_URL", "redis://elsewhere:6379/0")
    made = instance.configure_instance(replace(asked(home), connectors=True), listener)

    assert [c.name for c in instance.list_children(made)] == ["kafka", "pipelines", "web", *WORKERS, "beat"]


def test_the_port_of_last_time_is_taken_again_and_one_in_use_is_one_sentence(home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        (home / "supervisor.json").write_text(json.dumps({"kafka_port": port}))
        other.listen()
        with refused("port_taken", CannotStart, names=(port,)):
            instance.kafka_port(home)

    assert instance.kafka_port(home) == port


@pytest.mark.parametrize("record", ["", "{}", '{"kafka_port": "x"}'])
def test_without_a_port_of_last_time_a_free_one_is_taken(home: Path, record: str) -> None:
    (home / "supervisor.json").write_text(record)

    assert kafka.is_free(instance.kafka_port(home))


@pytest.mark.parametrize(
    ("said", "ready"),
    [
        (b"", False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (bytes.fromhex("00000020000000010000000000000000"), False),
        (bytes.fromhex("00000020000000010000000000000001"), True),
    ],
)
def test_an_open_port_alone_is_no_broker(said: bytes, ready: bool) -> None:
    """A broker is ready once its answer names one: size, number of the request, throttled for, brokers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=answer_once, args=(server, said))
        answering.start()
        assert kafka.is_serving(server.getsockname()[1]) is ready
        answering.join()


def answer_once(server: socket.socket, said: bytes) -> None:
    client, _ = server.accept()
    with client:
        client.recv(1024)
        client.sendall(said)


def test_where_nobody_listens_nobody_answers() -> None:
    assert kafka.is_serving(kafka.free_port()) is False


def test_a_machine_without_java_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "Spark needs Java 17 or 21 and none was found."

    def none(folder: Path) -> None:
        raise Unreachable(why)

    monkeypatch.setattr(kafka, "find_java", none)

    assert kafka.main(str(tmp_path / "kafka"), "9") == 1
    assert capsys.readouterr().err == f"{why}\n"


def test_archives_that_are_not_there_are_one_sentence(tmp_path: Path) -> None:
    with refused("no_broker_folder", CannotStart) as told:
        kafka.lay_out(tmp_path / "kafka", 9, tmp_path / "no-archives")

    assert len(str(told.value).splitlines()) == 1
