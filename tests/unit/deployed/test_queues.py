"""How long tasks wait is counted from the rows and from the broker, and people are told of a queue that is late."""

import json
import socket
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from django.test import Client
from django.utils import timezone

from console.celery import send_request_id
from recovery.health import SENT_AT, queues, tasks
from recovery.models import Message, Step
from tests import factories as f
from tests.unit.workflow.rows import plan, recovery

pytestmark = pytest.mark.django_db


class Broker:
    """The lists of a broker: newest message first, as Celery puts them there."""

    def __init__(self, **ages: list[float]) -> None:
        self.lists = {
            name: [json.dumps({"headers": {SENT_AT: time.time() - age}}) for age in waits]
            for name, waits in ages.items()
        }

    def llen(self, name: str) -> int:
        return len(self.lists.get(name, []))

    def lindex(self, name: str, at: int) -> str | None:
        held = self.lists.get(name)
        return held[at] if held else None

    def __enter__(self) -> Any:
        return SimpleNamespace(
            default_channel=SimpleNamespace(client=self), ensure_connection=lambda **_: None
        )

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Any:
    def holds(**ages: list[float]) -> None:
        monkeypatch.setattr(current_app, "connection_for_read", lambda **_: Broker(**ages))

    return holds


def by_name() -> dict[str, queues.Queue]:
    return {queue.name: queue for queue in queues.measure_queues(timezone.now())}


def test_every_queue_is_measured_and_an_empty_one_is_nought(broker: Any) -> None:
    broker()
    assert {name: (q.oldest, q.length) for name, q in by_name().items()} == dict.fromkeys(
        ("control", "probes", "steps"), (0.0, 0)
    )


def test_the_oldest_message_counts_however_many_came_later(broker: Any) -> None:
    broker(probes=[1.0, 2.0, 90.0])
    found = by_name()["probes"]
    assert (round(found.oldest), found.length, found.is_late) == (90, 3, True)


def test_rows_that_wait_count_where_the_broker_has_lost_or_does_not_say_what_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(**_: Any) -> Any:
        raise OSError("no broker")

    monkeypatch.setattr(current_app, "connection_for_read", away)
    row = recovery(state="running")
    plan(row, "rerun", "verify")
    now = timezone.now()
    Step.objects.filter(kind="rerun").update(state="running", look_at=now - timedelta(seconds=70))
    Step.objects.filter(kind="verify").update(woken_at=now - timedelta(seconds=80))
    found = by_name()
    assert {n: (round(q.oldest), q.length) for n, q in found.items()} == {
        "control": (70, None), "steps": (80, None), "probes": (0, None),
    }  # fmt: skip
    assert [q.name for q in queues.late_queues(now)] == ["control", "steps"]


def test_a_broker_that_says_nothing_is_asked_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = socket.socket(socket.AF_UNIX)
    with silent:
        silent.bind(str(home / "s"))
        silent.listen()
        monkeypatch.setattr(queues, "PATIENCE", dict.fromkeys(queues.PATIENCE, 0.2))
        monkeypatch.setattr(current_app.conf, "broker_read_url", f"redis+socket://{home}/s")
        assert {queue.length for queue in queues.measure_queues(timezone.now())} == {None}
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_look_whose_time_has_not_come_does_not_wait() -> None:
    plan(recovery(state="running"), "rerun")
    Step.objects.update(state="running", look_at=timezone.now() + timedelta(seconds=9))
    assert queues.waiting_rows(timezone.now()) == {}


def test_a_late_queue_is_told_once_an_hour(broker: Any) -> None:
    broker(steps=[61.0], control=[5.0])
    for _ in range(2):
        tasks.watch_queues()
    message = Message.objects.get()
    assert (message.event, message.body["facts"]["queue"]) == ("queue.late", "steps")


def test_every_message_says_when_it_was_sent() -> None:
    headers: dict[str, Any] = {}
    send_request_id(headers)
    assert abs(headers[SENT_AT] - time.time()) < 5


def test_beat_looks_at_the_queues() -> None:
    assert settings.CELERY_BEAT_SCHEDULE["watch-queues"]["task"] == tasks.watch_queues.name


@pytest.mark.parametrize(("name", "sees"), [("admin", True), ("responder", False)])
def test_an_administrator_sees_a_late_queue_on_every_page(name: str, sees: bool) -> None:
    plan(recovery(state="running"), "rerun")
    Step.objects.update(woken_at=timezone.now() - timedelta(seconds=80))
    client = Client()
    client.force_login(f.person(name))
    assert ('data-queue="steps"' in client.get("/recoveries").content.decode()) is sees
