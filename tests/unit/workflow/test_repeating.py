"""After a kill, what can do no harm goes on by itself, so many times; what may have acted waits for a person."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts.choices import WorkerAnswer
from recovery.contracts.results import StepResult
from recovery.errors import InputMissing, Interrupted, OutcomeUnknown, Refused, Unreachable
from recovery.models import AuditEntry, Plan, Recovery, Step
from recovery.pipelines.errors import ApiError
from recovery.workflow import actions, engine, repeating, studies, tasks
from recovery.workflow.repeating import PAUSES, Repeat, RepeatReason
from recovery.workflow.steps.base import Context, ProbeOutcome, saw
from tests.unit.workflow.rows import RESPONDER, plan, recovery

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """(task, seconds until it runs) of every message."""
    rung: list[tuple[str, float]] = []
    for name in ("run_step", "probe_step"):
        task = getattr(tasks, name)
        monkeypatch.setattr(task, "delay", lambda *_, name=name: rung.append((name, 0.0)))
        monkeypatch.setattr(
            task, "apply_async", lambda args, countdown, name=name: rung.append((name, countdown))
        )
    return rung


def standing(kind: str, args: Mapping[str, Any] | None = None) -> Step:
    row = recovery(state="running")
    plan(row, kind)
    Step.objects.update(args=dict(args or {}))
    return Step.objects.get()


def attempt(
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
    error: Exception,
    probed: ProbeOutcome | None = None,
    acts: bool = True,
) -> tuple[str, str]:
    """Run it with this end, probe it where its end was not seen; states of step and recovery."""

    def run(context: Context) -> StepResult:
        if acts:
            context.watch.guard()
        raise error

    kind = SimpleNamespace(SECONDS=60, run=run, probe=lambda step: probed)
    monkeypatch.setattr(engine, "KINDS", {**engine.KINDS, step.kind: kind})
    engine.run_step(step.pk, step.fence)
    step.refresh_from_db()
    engine.probe_step(step.pk, step.fence)
    step.refresh_from_db()
    return step.state, Recovery.objects.get().state


NOT_DONE = ProbeOutcome("not_done", [saw(True, "Nothing happened.")])
REPEAT = ProbeOutcome("repeat", [saw(True, "No update was started.")])
AGAIN = ProbeOutcome("again", [saw(True, "It only reads.")])
SILENT = OutcomeUnknown("Its worker fell silent.")


@pytest.mark.parametrize(
    ("kind", "error", "probed", "acts", "ends"),
    [
        ("verify", SILENT, AGAIN, True, RepeatReason.SILENT),
        ("backup", SILENT, AGAIN, True, RepeatReason.SILENT),
        ("stop", SILENT, AGAIN, True, RepeatReason.SILENT),
        ("rerun", SILENT, REPEAT, True, RepeatReason.NOT_STARTED),
        ("refresh", SILENT, REPEAT, True, RepeatReason.NOT_STARTED),
        ("rerun", SILENT, ProbeOutcome("repeat", [], cut=True), True, RepeatReason.CUT),
        ("rerun", Interrupted("Spark ended."), None, True, RepeatReason.CUT),
        ("verify", Interrupted("Spark ended."), None, True, RepeatReason.CUT),
        ("verify", Unreachable("Spark starts."), None, True, RepeatReason.NO_ANSWER),
        ("verify", ApiError("Busy.", status=503), None, True, RepeatReason.NO_ANSWER),
        ("rerun", InputMissing("The input is not there."), None, True, None),
        ("seed", Unreachable("Spark starts."), None, False, RepeatReason.NO_ANSWER),
        ("patch", Unreachable("The server starts."), None, False, RepeatReason.NO_ANSWER),
        ("seed", Unreachable("Storage is away."), None, True, None),
        ("seed", SILENT, NOT_DONE, True, None),
        ("patch", SILENT, NOT_DONE, True, None),
        ("rollback", Unreachable("Storage is away."), None, False, None),
        ("rerun", SILENT, NOT_DONE, True, None),
        ("rerun", Refused("The code is wrong."), None, True, None),
        ("verify", Refused("Changed code."), None, True, None),
        ("verify", ApiError("No.", status=400), None, True, None),
    ],
)
def test_what_goes_on_by_itself_and_what_waits_for_a_person(
    monkeypatch: Any,
    sent: list[Any],
    kind: str,
    error: Exception,
    probed: Any,
    acts: bool,
    ends: RepeatReason | None,
) -> None:
    step = standing(kind)
    states = attempt(monkeypatch, step, error, probed, acts)
    assert [Repeat.of(one).why for one in step.repeats] == ([ends] if ends else [])
    if ends:
        assert states[0] == "pending"
        assert states[1] in ("running", "verifying"), "nobody is called"
    else:
        assert states[0] in ("failed", "unknown")
        assert states[1] == "needs_attention"


@pytest.mark.parametrize("args", [{"full_refresh": ["t"]}, {"reset": ["f"]}])
def test_an_update_that_throws_something_away_is_never_started_again_by_itself(
    monkeypatch: Any, sent: list[Any], args: dict[str, Any]
) -> None:
    step = standing("rerun", args)
    assert attempt(monkeypatch, step, Interrupted("Spark ended.")) == ("failed", "needs_attention")


def test_an_update_into_a_sink_that_takes_a_batch_twice_is_not_started_again_by_itself(
    monkeypatch: Any, sent: list[Any]
) -> None:
    step = standing("rerun")
    Plan.objects.update(body={**Plan.objects.get().body, "sink": {"declared": "kafka"}})
    step = Step.objects.select_related("plan").get(pk=step.pk)
    assert attempt(monkeypatch, step, Interrupted("Spark ended.")) == ("failed", "needs_attention")


def test_it_is_said_in_the_log_and_in_the_audit_log_and_begins_after_a_pause(
    monkeypatch: Any, sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    step = standing("verify")
    with django_capture_on_commit_callbacks(execute=True):
        attempt(monkeypatch, step, Unreachable("Spark starts."))
    entry = AuditEntry.objects.get(action="step.repeat")
    assert (entry.actor, entry.after["number"], entry.after["why"]) == ("reprise", 1, "no_answer")
    assert "(1 of 5)" in step.log[-1][1]
    assert sent == [("run_step", PAUSES[0].total_seconds())]
    assert step.look_at is not None
    assert step.woken_at is None, "the reaper does not wake it before its time"
    assert repeating.next_repeat(step) == Repeat.of(step.repeats[0])


def test_it_begins_again_so_many_times_each_later_and_then_a_person_is_called(
    monkeypatch: Any, sent: list[Any]
) -> None:
    step = standing("verify")
    for number in range(len(PAUSES)):
        assert attempt(monkeypatch, step, Unreachable("Spark starts.")) == ("pending", "verifying"), number
    assert attempt(monkeypatch, step, Unreachable("Spark starts.")) == ("failed", "needs_attention")
    assert [Repeat.of(one).number for one in step.repeats] == [1, 2, 3, 4, 5]
    assert list(PAUSES) == sorted(PAUSES)


def test_who_resumes_gives_it_all_its_beginnings_back(monkeypatch: Any, sent: list[Any]) -> None:
    step = standing("verify")
    Step.objects.update(repeats=[Repeat(n, RepeatReason.SILENT, "", "").as_dict() for n in range(1, 6)])
    step.refresh_from_db()
    attempt(monkeypatch, step, Unreachable("Spark starts."))
    engine.retry_step(step)
    step.refresh_from_db()
    assert (step.state, step.repeats, Recovery.objects.get().state) == ("pending", [], "running")


def test_a_beginning_whose_message_was_lost_is_woken_by_beat(monkeypatch: Any, sent: list[Any]) -> None:
    step = standing("verify")
    attempt(monkeypatch, step, Unreachable("Spark starts."))
    tasks.sweep_looks()
    assert sent == []
    Step.objects.update(look_at=timezone.now() - timedelta(seconds=4))
    tasks.sweep_looks()
    assert sent == [("run_step", 0.0)]


def test_who_stops_the_run_does_not_wait_for_the_next_beginning(monkeypatch: Any, sent: list[Any]) -> None:
    step = standing("backup")
    attempt(monkeypatch, step, Unreachable("Spark starts."))
    actions.stop_run(recovery_id=step.recovery_id, by=RESPONDER)
    step.refresh_from_db()
    assert step.look_at is not None
    assert step.look_at <= timezone.now()
    engine.run_step(step.pk, step.fence)
    assert Recovery.objects.get().state == "needs_attention"


@pytest.mark.parametrize("act", [actions.stop_run, actions.pause_run])
def test_a_beginning_that_was_halted_is_woken_by_who_resumes_and_by_no_sweep(
    monkeypatch: Any, sent: list[Any], django_capture_on_commit_callbacks: Any, act: Any
) -> None:
    step = standing("backup")
    attempt(monkeypatch, step, Unreachable("Spark starts."))
    act(recovery_id=step.recovery_id, by=RESPONDER)
    Step.objects.update(look_at=timezone.now() - timedelta(seconds=4))
    tasks.sweep_looks()
    assert sent == [("run_step", 0.0)]
    engine.run_step(step.pk, step.fence)
    Step.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    for _ in range(3):
        tasks.sweep_looks()
        tasks.reap()
    step.refresh_from_db()
    assert (sent, step.state, repeating.next_repeat(step)) == ([("run_step", 0.0)], "pending", None)
    monkeypatch.setattr("recovery.workflow.broker.check", lambda: None)
    with django_capture_on_commit_callbacks(execute=True):
        actions.execute(recovery_id=step.recovery_id, by=RESPONDER)
    assert sent == [("run_step", 0.0)] * 2


@pytest.mark.parametrize(("field", "task"), [("facts", "gather_facts"), (studies.LOOK, "look_positions")])
def test_a_look_whose_worker_died_is_begun_again_twice_and_then_says_so(
    monkeypatch: Any, django_capture_on_commit_callbacks: Any, field: str, task: str
) -> None:
    rung: list[str] = []
    monkeypatch.setattr(getattr(tasks, task), "delay", lambda pk, ticket: rung.append(ticket))
    row = recovery("diagnosing")
    ticket, states = studies.begin(row, field), []
    for _ in range(3):
        row.refresh_from_db()
        long_ago = (timezone.now() - timedelta(hours=1)).isoformat()
        studies.keep_answer(row, field, WorkerAnswer(started_at=long_ago))
        with django_capture_on_commit_callbacks(execute=True):
            studies.reap(older_than=timezone.now() - timedelta(seconds=20))
        row.refresh_from_db()
        states.append(studies.read_progress(row, field).status)
    assert (states, rung) == (["working", "working", "failed"], [ticket, ticket])
    assert AuditEntry.objects.filter(actor="reprise", recovery=row.label).count() == 2


@pytest.mark.parametrize("field", ["validation", "sealing"])
def test_what_writes_a_plan_or_starts_an_update_is_asked_for_again_by_a_person(field: str) -> None:
    row = recovery("diagnosing")
    studies.begin(row, field)
    long_ago = (timezone.now() - timedelta(hours=1)).isoformat()
    studies.keep_answer(row, field, WorkerAnswer(started_at=long_ago))
    studies.reap(older_than=timezone.now() - timedelta(seconds=20))
    row.refresh_from_db()
    assert studies.read_progress(row, field).status == "failed"
