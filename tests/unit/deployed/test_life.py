"""A worker lives while its main loop turns, beat while it ticks; the question whether they do has an exit code."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from celery.beat import PersistentScheduler
from django.utils import timezone

from console import life
from console.celery import app
from recovery.health import DEAD_SECONDS, EVERY_SECONDS, heartbeats
from recovery.models import Heartbeat


class Timer:
    """Celery's timer, turned by hand."""

    def __init__(self) -> None:
        self.turn: Callable[[], None] = lambda: None
        self.cancelled = False

    def call_repeatedly(self, seconds: float, act: Callable[[], None], **_: Any) -> "Timer":
        assert seconds == EVERY_SECONDS
        self.turn = act
        return self

    def cancel(self) -> None:
        self.cancelled = True


class Worker:
    def __init__(self, hostname: str = "worker@host") -> None:
        self.timer = Timer()
        self.hostname = hostname


class Rounds:
    """Stands for the event that ends the thread: lets it go round a few times, without waiting."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def wait(self, seconds: float) -> bool:
        self.left -= 1
        return self.left <= 0

    def set(self) -> None:
        self.left = 0


@pytest.fixture
def beaten(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    written: list[str] = []
    monkeypatch.setattr(heartbeats, "write_heartbeat", lambda part, process: written.append(part))
    return written


def test_the_worker_has_the_pulse() -> None:
    assert life.Pulse in app.steps["worker"]
    assert app.conf.beat_scheduler == "console.life:Scheduler"


@pytest.mark.parametrize(
    ("hostname", "part"),
    [
        ("worker@host", "worker"),
        ("control@host", "control"),
        ("probes@host", "probes"),
        ("celery@host", "worker"),
    ],
)
def test_a_worker_whose_loop_turns_says_so_under_its_own_name(
    beaten: list[str], hostname: str, part: str
) -> None:
    pulse = life.Pulse(Worker(hostname))
    pulse.over = Rounds(3)  # type: ignore[assignment]
    pulse.write()

    assert beaten == [part] * 3


class NoThread:
    """A thread that is never run: the test itself does what it would do."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        pass


def test_a_worker_whose_loop_hangs_is_silent_until_it_turns_again(
    beaten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    pulse = life.Pulse(worker)
    with monkeypatch.context() as patched:
        patched.setattr(life.threading, "Thread", NoThread)
        pulse.start(worker)

    pulse.turned = time.monotonic() - life.FRESH_SECONDS - 1
    pulse.over = Rounds(2)  # type: ignore[assignment]
    pulse.write()
    assert beaten == []

    worker.timer.turn()
    pulse.over = Rounds(1)  # type: ignore[assignment]
    pulse.write()
    assert beaten == ["worker"]
    pulse.stop(worker)
    assert worker.timer.cancelled


def test_beat_says_at_most_every_few_seconds_that_it_ticks(
    beaten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PersistentScheduler, "tick", lambda self: 60.0)
    scheduler = life.Scheduler.__new__(life.Scheduler)

    waits = [scheduler.tick() for _ in range(3)]

    assert beaten == ["beat"]
    assert waits == [EVERY_SECONDS] * 3  # else it would be silent for as long as nothing is due


@pytest.mark.django_db
def test_the_question_has_an_exit_code_and_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert life.main("worker") == 1
    assert "No worker has ever" in capsys.readouterr().err

    heartbeats.write_heartbeat("worker", heartbeats.this_process())
    assert life.main("worker") == 0
    assert life.main("beat") == 1

    Heartbeat.objects.update(at=timezone.now() - timezone.timedelta(seconds=DEAD_SECONDS + 5))
    assert life.main("worker") == 1
