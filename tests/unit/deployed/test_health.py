"""What machines ask: is the process there, may people come, what are the numbers; and who may ask for those."""

import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from console.celery import app
from recovery.audit.actions import append_entry
from recovery.errors import Unreachable
from recovery.health import heartbeats, readiness
from recovery.models import Flow, Heartbeat, Recovery, Step, Workspace
from recovery.people.roles import SYSTEM
from tests import factories
from tests.refusals import refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A broker that answers, or not."""

    def answers(yes: bool) -> None:
        def check() -> None:
            if not yes:
                raise Unreachable("The broker does not answer.")

        monkeypatch.setattr(readiness.broker, "check", check)

    answers(True)
    return answers


def test_the_process_answers_without_database_session_or_host_name(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz", headers={"host": "10.1.2.3:8000"})

    assert (answer.status_code, answer.json()) == (200, {"ok": True})
    assert "Set-Cookie" not in answer


def test_it_is_ready_when_all_that_it_needs_is_there(client: Client, broker: Callable[[bool], None]) -> None:
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    assert set(answer.json()["checks"]) == {"database", "migrations", "broker"}
    assert all(one["ok"] and one["seconds"] >= 0 for one in answer.json()["checks"].values())


def broken_database(monkeypatch: pytest.MonkeyPatch, broker: Callable[[bool], None]) -> None:
    def cursor(*_: Any) -> None:
        raise OperationalError("connection to db at 10.0.0.1 with password x failed")

    monkeypatch.setattr(connection, "cursor", cursor)
    monkeypatch.setattr(connection, "close", lambda: None)


def one_migration_missing(monkeypatch: pytest.MonkeyPatch, broker: Callable[[bool], None]) -> None:
    newest = MigrationLoader(connection).graph.leaf_nodes("recovery")[0]
    MigrationRecorder(connection).record_unapplied(*newest)


def no_broker(monkeypatch: pytest.MonkeyPatch, broker: Callable[[bool], None]) -> None:
    broker(False)


@pytest.mark.parametrize(
    ("damage", "missing"),
    [
        (broken_database, {"database", "migrations"}),
        (one_migration_missing, {"migrations"}),
        (no_broker, {"broker"}),
    ],
)
def test_it_is_not_ready_and_names_what_is_missing(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    broker: Callable[[bool], None],
    damage: Callable[[pytest.MonkeyPatch, Callable[[bool], None]], None],
    missing: set[str],
) -> None:
    damage(monkeypatch, broker)
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert {name for name, one in answer.json()["checks"].items() if not one["ok"]} == missing
    assert all(one["ok"] or one["says"] for one in answer.json()["checks"].values())
    assert "password" not in answer.content.decode()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_https_is_not_asked_of_a_probe_and_nothing_can_be_sent(
    client: Client, settings: Settings, path: str
) -> None:
    settings.SECURE_SSL_REDIRECT = True

    assert client.get(path).status_code != 301
    assert client.get("/").status_code == 301
    assert client.post(path).status_code == 405


def numbers(client: Client) -> dict[tuple[str, ...], float]:
    """`(name, label values…)` -> value."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_the_numbers_are_those_of_the_database(client: Client) -> None:
    recovery = factories.verified()
    now = timezone.now()
    Step.objects.filter(recovery=recovery, kind="rerun").update(
        started_at=now - timedelta(seconds=9), ended_at=now
    )
    failing = factories.failed_flow()
    Step.objects.create(
        recovery=recovery, ordinal=99, kind="stop", idempotency_key="k", woken_at=now - timedelta(seconds=70)
    )
    Workspace.objects.update(polled_at=now - timedelta(seconds=30))
    Workspace.objects.create(name="never", url="http://x", token_ref="env:X", poll_error="away")
    heartbeats.write_heartbeat("worker", "host:1")
    entry = append_entry(action="step.run", outcome="done", by=SYSTEM, says="ran")

    found = numbers(client)

    assert found["reprise_recoveries", "succeeded"] == Recovery.objects.filter(state="succeeded").count() == 1
    assert found["reprise_recoveries", "needs_attention"] == 0
    assert found["reprise_steps", "rerun", "done"] == 1
    assert found["reprise_step_seconds_sum", "rerun", "done"] == pytest.approx(9)
    assert found["reprise_step_seconds_count", "rerun", "done"] == 1
    assert found["reprise_flows", "failed"] == Flow.objects.filter(state="failed").count() >= 1
    assert found[("reprise_steps_woken",)] == 1
    assert found[("reprise_oldest_woken_step_seconds",)] == pytest.approx(70, abs=20)
    assert found["reprise_poll_lag_seconds", failing.pipeline.workspace.name] == pytest.approx(30, abs=20)
    assert ("reprise_poll_lag_seconds", "never") not in found
    assert found["reprise_poll_failing", "never"] == 1
    assert found[("reprise_audit_chain_head",)] == entry.seq
    assert found["reprise_heartbeat_age_seconds", "worker", "host:1"] < 20


def test_the_numbers_of_an_empty_instance_are_there_and_nought(client: Client) -> None:
    found = numbers(client)

    assert found["reprise_recoveries", "needs_attention"] == 0
    assert found["reprise_flows", "failed"] == 0
    assert found[("reprise_oldest_woken_step_seconds",)] == 0
    assert found[("reprise_audit_chain_head",)] == 0


def test_what_is_removed_by_age_is_counted_with_the_space_that_is_left(client: Client) -> None:
    client.force_login(factories.person("viewer"))

    found = numbers(client)

    assert found["reprise_stored_rows", "sessions"] == 1
    assert found["reprise_stored_rows", "deliveries"] == 0
    assert found[("reprise_home_free_bytes",)] > 0


@pytest.mark.parametrize("many", [0, 3])
def test_the_numbers_cost_the_same_however_many_rows_there_are(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries, many: int
) -> None:
    for number in range(many):
        factories.verified()
        Recovery.objects.update(active=False)
        heartbeats.write_heartbeat("worker", f"host:{number}")

    with django_assert_num_queries(14):
        client.get("/metrics")


def test_without_a_token_the_numbers_stay_on_this_machine(client: Client) -> None:
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 403
    assert client.get("/metrics", headers={"x-forwarded-for": "192.0.2.7"}).status_code == 403
    assert client.get("/metrics", headers={"forwarded": "for=192.0.2.7"}).status_code == 403


def test_over_https_the_numbers_need_a_token(client: Client, settings: Settings) -> None:
    settings.REPRISE_SECURE = True

    assert client.get("/metrics").status_code == 403


@pytest.mark.parametrize(
    ("header", "status"),
    [("", 403), ("Bearer wrong", 403), ("right-token", 403), ("Bearer right-token", 200), ("Bearer ü", 403)],
)
def test_with_a_token_only_who_has_it_reads_the_numbers(
    client: Client, settings: Settings, header: str, status: int
) -> None:
    settings.REPRISE_METRICS_TOKEN = "right-token"
    answer = client.get("/metrics", REMOTE_ADDR="192.0.2.7", HTTP_AUTHORIZATION=header)

    assert answer.status_code == status


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_broker_that_takes_the_connection_and_says_nothing_is_not_waited_for(
    kind: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = socket.socket(socket.AF_UNIX) if kind == "unix" else socket.socket()
    with silent:
        silent.bind(str(home / "s") if kind == "unix" else ("127.0.0.1", 0))
        silent.listen()
        url = (
            f"redis+socket://{home}/s" if kind == "unix" else f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        )
        monkeypatch.setattr(app.conf, "broker_url", url)
        began = time.monotonic()
        with refused("broker_down", Unreachable):
            readiness.broker.check()

    assert time.monotonic() - began < 20


def test_a_part_is_well_while_it_speaks_and_each_host_speaks_for_itself() -> None:
    assert "ever given" in (heartbeats.find_problem("worker") or "")
    heartbeats.write_heartbeat("worker", "here:7")
    heartbeats.write_heartbeat("beat", "here:8")

    assert heartbeats.find_problem("worker") is None
    assert heartbeats.find_problem("worker", "here") is None
    assert "on there" in (heartbeats.find_problem("worker", "there") or "")

    Heartbeat.objects.filter(part="worker").update(at=timezone.now() - timedelta(seconds=90))
    silent = heartbeats.find_problem("worker") or ""
    assert ("worker" in silent, "90 s" in silent) == (True, True)
    assert heartbeats.find_problem("beat") is None


def test_the_dead_are_cleared_away_by_the_next_that_begins() -> None:
    heartbeats.write_heartbeat("worker", "old:1")
    Heartbeat.objects.update(at=timezone.now() - timedelta(days=2))
    heartbeats.write_heartbeat("worker", "new:1")

    assert list(Heartbeat.objects.values_list("process", flat=True)) == ["new:1"]


def test_a_database_that_is_away_does_not_end_who_wants_to_say_that_it_lives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(**_: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(Heartbeat.objects, "update_or_create", away)
    monkeypatch.setattr(connection, "close", lambda: None)
    heartbeats.write_heartbeat("beat", "here:1")

    assert "not be written" in caplog.text
