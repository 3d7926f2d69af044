"""A step that waits for an update holds no worker; its row says when somebody looks next, and survives every loss."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts.results import UpdateResult
from recovery.errors import OutcomeUnknown, Refused, Unreachable
from recovery.models import Recovery, Step
from recovery.pipelines.errors import ApiError
from recovery.workflow import engine, tasks, watches
from recovery.workflow.steps.base import StepWait
from recovery.workflow.watches import read_watch
from tests.unit.workflow.rows import plan, recovery

pytestmark = pytest.mark.django_db
Looks = Iterator[str | Exception | None]


class Bell:
    """What would have been sent to the broker, in order: (task, fence)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rung: list[tuple[str, int]] = []
        for name in ("run_step", "probe_step", "go_on_with_step", "look_at_step"):
            task = getattr(tasks, name)
            monkeypatch.setattr(task, "delay", self._ring(name))
            monkeypatch.setattr(
                task, "apply_async", lambda args, countdown, name=name: self.rung.append((name, args[1]))
            )

    def _ring(self, name: str) -> Callable[[int, int], None]:
        return lambda pk, fence: self.rung.append((name, fence))


@pytest.fixture
def bell(monkeypatch: pytest.MonkeyPatch) -> Bell:
    return Bell(monkeypatch)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, bell: Bell, committing: Any) -> Callable[[Looks], Step]:
    """A rerun that has begun and waits; each look gives the next of what is handed over."""

    def make(looks: Looks) -> Step:
        def find_end(context: Any) -> str | None:
            seen = next(looks)
            if isinstance(seen, Exception):
                raise seen
            return seen

        kind = SimpleNamespace(
            SECONDS=600,
            run=lambda context: StepWait(),
            find_end=find_end,
            go_on=lambda context, end: UpdateResult(state=end),
        )
        for kinds in ("KINDS", "WAITING_KINDS"):
            monkeypatch.setattr(engine, kinds, {**getattr(engine, kinds), "rerun": kind})
        row = recovery(state="running")
        plan(row, "rerun", "verify")
        step = row.steps.get(kind="rerun")
        with committing(execute=True):
            engine.run_step(step.pk, step.fence)
        step.refresh_from_db()
        return step

    return make


@pytest.fixture
def committing(django_capture_on_commit_callbacks: Any) -> Any:
    return django_capture_on_commit_callbacks


def make_due(step: Step, *, ago: timedelta = timedelta()) -> None:
    Step.objects.filter(pk=step.pk).update(look_at=timezone.now() - ago)


def look(step: Step, committing: Any) -> Step:
    make_due(step)
    with committing(execute=True):
        engine.look_at_step(step.pk, step.fence)
    step.refresh_from_db()
    return step


def test_a_step_that_waits_gives_its_worker_back_and_is_looked_at_soon(waiting: Any, bell: Bell) -> None:
    step = waiting(iter([]))
    assert step.state == "running"
    assert step.look_at - timezone.now() < timedelta(seconds=1)
    assert bell.rung == [("look_at_step", step.fence)]


def test_looks_go_on_until_it_has_ended_and_a_worker_then_reads_back(
    waiting: Any, bell: Bell, committing: Any
) -> None:
    step = waiting(iter([None, None, "COMPLETED"]))
    for _ in range(3):
        look(step, committing)
    fence = step.fence
    assert [name for name, _ in bell.rung] == ["look_at_step"] * 3 + ["go_on_with_step"]
    with committing(execute=True):
        engine.go_on_with_step(step.pk, fence)
    step.refresh_from_db()
    assert (step.state, step.result["state"], step.fence, step.look_at) == (
        "done",
        "COMPLETED",
        fence + 1,
        None,
    )
    assert bell.rung[-1][0] == "run_step", "the verification is woken"


def test_of_two_looks_at_once_one_asks_and_the_other_does_nothing(waiting: Any, committing: Any) -> None:
    step = waiting(iter([None]))  # a second question would raise StopIteration
    make_due(step)
    assert watches.lease(step.pk, step.fence) is not None
    engine.look_at_step(step.pk, step.fence)
    assert watches.lease(step.pk, step.fence) is None


def test_of_two_workers_that_would_go_on_one_does(waiting: Any, committing: Any) -> None:
    step = look(waiting(iter(["COMPLETED"])), committing)
    for _ in range(2):
        engine.go_on_with_step(step.pk, step.fence)
    step.refresh_from_db()
    assert (step.state, step.fence) == ("done", 2)


def test_a_message_to_go_on_that_was_lost_is_given_again_and_nothing_is_asked_twice(
    waiting: Any, bell: Bell, committing: Any
) -> None:
    step = look(waiting(iter(["COMPLETED"])), committing)
    look(step, committing)
    assert bell.rung[-2:] == [("go_on_with_step", 1), ("go_on_with_step", 1)]


def test_a_look_that_was_lost_is_woken_by_beat(waiting: Any, bell: Bell) -> None:
    step = waiting(iter([]))
    tasks.sweep_looks()
    assert len(bell.rung) == 1, "what is not late is not woken twice"
    make_due(step, ago=timedelta(seconds=4))
    tasks.sweep_looks()
    assert bell.rung[1:] == [("look_at_step", step.fence)]


def test_a_waiting_step_is_not_silent_for_having_no_worker(waiting: Any, bell: Bell) -> None:
    step = waiting(iter([]))
    Step.objects.filter(pk=step.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
    tasks.reap()
    step.refresh_from_db()
    assert step.state == "running"


def test_a_waiting_step_has_a_deadline(waiting: Any, bell: Bell) -> None:
    step = waiting(iter([]))
    Step.objects.filter(pk=step.pk).update(deadline=timezone.now() - timedelta(seconds=1))
    tasks.reap()
    step.refresh_from_db()
    assert (step.state, step.look_at) == ("unknown", None)
    assert "deadline" in step.problem


@pytest.mark.parametrize(
    "silence", [Unreachable("No answer."), OutcomeUnknown("Sent."), ApiError("Busy.", status=503)]
)
def test_an_api_that_does_not_answer_is_asked_again_and_nothing_is_failed(
    waiting: Any, bell: Bell, committing: Any, silence: Exception
) -> None:
    step = look(waiting(iter([silence, silence, None])), committing)
    since = read_watch(step).silent_since
    look(step, committing)
    assert (step.state, read_watch(step).silent_since == since != "") == ("running", True)
    assert len(step.log) == 1, "said once, not at every look"
    assert read_watch(look(step, committing)).silent_since == ""


def test_after_a_long_silence_the_step_is_unknown_and_probed_and_never_failed(
    waiting: Any, bell: Bell, committing: Any
) -> None:
    step = look(waiting(iter([Unreachable("No answer.")] * 2)), committing)
    long_ago = (timezone.now() - watches.GIVEN_UP - timedelta(seconds=1)).isoformat()
    kept = {**step.result, "watched": {**step.result["watched"], "silent_since": long_ago}}
    Step.objects.filter(pk=step.pk).update(result=kept)
    look(step, committing)
    assert step.state == "unknown"
    assert bell.rung[-1][0] == "probe_step"


def test_an_answer_that_says_no_fails_the_step(waiting: Any, bell: Bell, committing: Any) -> None:
    step = look(waiting(iter([Refused("There is no such update.")])), committing)
    assert (step.state, Recovery.objects.get().state) == ("failed", "needs_attention")


def test_a_step_that_was_taken_away_is_not_looked_at(waiting: Any, bell: Bell, committing: Any) -> None:
    step = waiting(iter([]))
    Step.objects.filter(pk=step.pk).update(state="unknown")
    make_due(step)
    engine.look_at_step(step.pk, step.fence)
    assert watches.take(step.pk, step.fence, worker="w", deadline=timezone.now()) is None


@pytest.mark.parametrize(("minutes", "seconds"), [(0, 0.5), (1, 2), (10, 10), (300, 10)])
def test_looks_are_frequent_at_first_and_rarer_later(
    waiting: Any, bell: Bell, committing: Any, minutes: int, seconds: float
) -> None:
    step = waiting(iter([None]))
    began = (timezone.now() - timedelta(minutes=minutes)).isoformat()
    Step.objects.filter(pk=step.pk).update(result={"watched": {"began": began}})
    look(step, committing)
    assert step.look_at is not None
    assert abs((step.look_at - timezone.now()).total_seconds() - seconds) < 0.4
