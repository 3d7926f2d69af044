"""Addresses, secrets and commands of an instance; what another run left is used again where it can be."""

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from console.supervisor import browser, instance, jars
from console.supervisor.bootstrap import CannotStart
from console.supervisor.home import read_env
from console.workers import WORKERS
from tests.refusals import refused
from tests.unit.supervisor.conftest import asked


def test_the_secret_key_stays_and_the_address_follows_the_port(home: Path, listener: socket.socket) -> None:
    first = instance.configure_instance(asked(home), listener)
    with instance.listen_on(0) as other:
        second = instance.configure_instance(asked(home), other)
        address = second.url

    written = read_env(home / "instance.env")
    assert first.settings["REPRISE_SECRET_KEY"] == second.settings["REPRISE_SECRET_KEY"]
    assert written["REPRISE_PUBLIC_URL"] == address != first.url
    assert written["REPRISE_BROKER_URL"].startswith("redis+socket:///")
    assert first.mark != second.mark


def test_a_broker_that_is_named_is_used_and_none_is_started(
    home: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "url").write_text("redis://elsewhere:6379/0\n")
    monkeypatch.setenv("REPRISE_BROKER_URL_FILE", str(home / "url"))

    made = instance.configure_instance(asked(home), listener)

    assert made.settings["REPRISE_BROKER_URL"] == "redis://elsewhere:6379/0"
    assert [c.name for c in instance.list_children(made)] == ["pipelines", "web", *WORKERS, "beat"]


def test_a_database_that_is_named_is_the_one_of_every_command(
    home: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "url").write_text("postgresql://reprise:pw@db/pipelines\n")
    monkeypatch.setenv("REPRISE_DATABASE_URL", "postgresql://reprise:pw@db/reprise")
    monkeypatch.setenv("REPRISE_PIPELINES_DATABASE_URL_FILE", str(home / "url"))
    instance.configure_instance(asked(home), listener)
    written = read_env(home / "instance.env")

    assert written["REPRISE_DATABASE_URL"] == "postgresql://reprise:pw@db/reprise"
    assert written["REPRISE_PIPELINES_DATABASE_URL"] == "postgresql://reprise:pw@db/pipelines"
    assert (home / "instance.env").stat().st_mode & 0o777 == 0o600

    monkeypatch.delenv("REPRISE_DATABASE_URL")
    instance.configure_instance(asked(home), listener)
    assert "REPRISE_DATABASE_URL" not in read_env(home / "instance.env")


def test_children_start_in_the_order_in_which_they_need_each_other(
    home: Path, listener: socket.socket
) -> None:
    made = instance.configure_instance(asked(home), listener)
    children = instance.list_children(made)

    assert [c.name for c in children] == ["broker", "pipelines", "web", *WORKERS, "beat"]
    assert all(c.mark == f"{made.mark}:{c.name}" for c in children)
    assert all(c.environment["REPRISE_HOME"] == str(home) for c in children)
    assert all(os.path.isabs(c.environment["PYSPARK_PYTHON"]) for c in children)  # noqa: PTH117
    secret = made.settings["REPRISE_SECRET_KEY"]
    assert not any(secret in part for c in children for part in c.command)


def test_connectors_lie_where_they_are_fetched_to(
    home: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is fetched is checked in test_jars.py; its digests take seconds.
    monkeypatch.setattr(jars, "is_right", lambda _file, _jar: True)
    plain = instance.configure_instance(asked(home), listener)
    assert "REPRISE_SPARK_JARS" not in plain.settings

    more = instance.configure_instance(replace(asked(home), connectors=True), listener)

    folder = jars.ensure_jars("connectors", tell=lambda _: None)[0].parent
    assert more.settings["REPRISE_SPARK_JARS"] == str(folder)
    assert children_of(more)["pipelines"]["REPRISE_SPARK_JARS"] == str(folder)


def children_of(made: instance.Instance) -> dict[str, dict[str, str]]:
    return {child.name: child.environment for child in instance.list_children(made)}


@pytest.mark.parametrize("record", ["", "{}", '{"pipelines_port": "x"}'])
def test_without_a_port_of_last_time_any_is_taken(home: Path, record: str) -> None:
    (home / "supervisor.json").write_text(record)

    assert instance.pipelines_port(home) == 0


def test_the_port_of_last_time_is_taken_again_unless_somebody_has_it(home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        (home / "supervisor.json").write_text(json.dumps({"pipelines_port": port}))
        other.listen()
        assert instance.pipelines_port(home) == 0

    assert instance.pipelines_port(home) == port


def test_a_browser_that_is_named_wrongly_is_refused_and_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSOLE_TEST_BROWSER", str(tmp_path / "no-browser"))

    with refused("no_browser", CannotStart, names=("no-browser",)):
        browser.ensure_browser(tmp_path / "python", tmp_path / "cache", lambda _: None)
