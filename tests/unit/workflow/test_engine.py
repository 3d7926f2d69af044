"""The life of a step: one worker, one effect, and three honest ends."""

import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from recovery.audit.tags import code_of_action
from recovery.contracts.measured import JudgedCriterion, Measured
from recovery.contracts.results import PatchResult, StepResult, VerifyResult
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import AuditEntry, Recovery, Step
from recovery.pipelines.tasks import look_at_flow, poll_workspace
from recovery.plans.values import Drift
from recovery.workflow import engine, tasks
from recovery.workflow.beat import FenceLost, Watch
from recovery.workflow.moves import claim, move
from recovery.workflow.steps.base import Context, PlanVoid, ProbeOutcome, saw
from tests.unit.workflow.rows import plan, recovery

pytestmark = pytest.mark.django_db

Runner = Callable[[Context], StepResult]


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What would have been sent to the broker; the database, not the broker, is under test here."""
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(tasks.run_step, "delay", lambda pk, fence: sent.append(("run", pk)))
    monkeypatch.setattr(tasks.probe_step, "delay", lambda pk, fence: sent.append(("probe", pk)))
    later = lambda args, countdown: sent.append(("later", args[0]))  # noqa: E731
    monkeypatch.setattr(tasks.run_step, "apply_async", later)
    return sent


def running(kinds: tuple[str, ...] = ("patch", "verify"), state: str = "running") -> tuple[Recovery, Step]:
    row = recovery(state=state)
    plan(row, *kinds)
    step = row.steps.first()
    assert step is not None
    return row, step


def use(monkeypatch: pytest.MonkeyPatch, kind: str, run: Runner, probed: ProbeOutcome | None = None) -> None:
    fake = SimpleNamespace(SECONDS=60, run=run, probe=lambda step: probed)
    monkeypatch.setattr(engine, "KINDS", {**engine.KINDS, kind: fake})


def good(context: Context) -> StepResult:
    context.log("acted")
    return PatchResult(files=())


def fails(error: Exception) -> Runner:
    def run(context: Context) -> StepResult:
        raise error

    return run


@pytest.fixture
def committing(django_capture_on_commit_callbacks: Any) -> Any:
    return django_capture_on_commit_callbacks


def test_a_done_step_wakes_the_next_one(monkeypatch: Any, woken: list[Any], committing: Any) -> None:
    row, step = running()
    use(monkeypatch, "patch", good)
    with committing(execute=True):
        engine.run_step(step.pk, step.fence)
    step.refresh_from_db()
    following = row.steps.get(kind="verify")
    assert (step.state, step.attempt, step.fence, step.result) == ("done", 1, 1, {"files": []})
    assert step.log[0][1] == "acted"
    assert woken == [("run", following.pk)]


def test_a_second_wake_up_of_the_same_step_does_nothing(monkeypatch: Any, woken: list[Any]) -> None:
    _, step = running()
    acts: list[int] = []

    def count(context: Context) -> StepResult:
        acts.append(1)
        return StepResult()

    use(monkeypatch, "patch", count)
    engine.run_step(step.pk, 0)
    engine.run_step(step.pk, 0)
    assert acts == [1]


def test_the_beginning_and_the_end_of_a_step_are_two_codes_of_the_audit_log(
    monkeypatch: Any, woken: list[Any]
) -> None:
    _, step = running()
    use(monkeypatch, "patch", good)
    engine.run_step(step.pk, 0)
    entries = AuditEntry.objects.filter(action__startswith="step.").order_by("seq")
    assert [code_of_action(entry.action, entry.outcome) for entry in entries] == [
        "step.begin.done", "step.run.done",
    ]  # fmt: skip


def test_an_expected_failure_asks_for_a_person_and_says_why(monkeypatch: Any, woken: list[Any]) -> None:
    row, step = running()
    why = "The file was edited."
    use(monkeypatch, "patch", fails(Refused(why)))
    engine.run_step(step.pk, 0)
    step.refresh_from_db()
    row.refresh_from_db()
    assert (step.state, step.problem) == ("failed", why)
    assert (row.state, row.active) == ("needs_attention", True)
    assert AuditEntry.objects.filter(action="step.run", outcome="failed").exists()


@pytest.mark.parametrize("error", [OutcomeUnknown("No answer came."), ZeroDivisionError("a bug")])
def test_an_unseen_end_and_a_bug_are_unknown_and_a_probe_is_woken(
    monkeypatch: Any, woken: list[Any], committing: Any, error: Exception
) -> None:
    row, step = running()
    use(monkeypatch, "patch", fails(error))
    with committing(execute=True):
        engine.run_step(step.pk, 0)
    step.refresh_from_db()
    row.refresh_from_db()
    assert (step.state, row.state) == ("unknown", "needs_attention")
    assert woken == [("probe", step.pk)]


def unknown(monkeypatch: Any, probed: ProbeOutcome) -> tuple[Recovery, Step]:
    row, step = running()
    use(monkeypatch, "patch", fails(OutcomeUnknown("No answer came.")), probed)
    engine.run_step(step.pk, 0)
    step.refresh_from_db()
    return row, step


def test_a_probe_that_proves_the_effect_goes_on_without_repeating_it(
    monkeypatch: Any, woken: list[Any], committing: Any
) -> None:
    row, step = unknown(monkeypatch, ProbeOutcome("done", [saw(True, "It is there.")], PatchResult(files=())))
    with committing(execute=True):
        engine.probe_step(step.pk, step.fence)
    step.refresh_from_db()
    row.refresh_from_db()
    assert (step.state, step.attempt, step.result) == ("done", 1, {"files": []})
    assert row.state == "running"
    assert woken[-1] == ("run", row.steps.get(kind="verify").pk)


def test_a_probe_that_proves_no_effect_leaves_the_choice_to_a_person(
    monkeypatch: Any, woken: list[Any]
) -> None:
    row, step = unknown(monkeypatch, ProbeOutcome("not_done", [saw(True, "Nothing happened.")]))
    engine.probe_step(step.pk, step.fence)
    step.refresh_from_db()
    row.refresh_from_db()
    assert (step.state, row.state) == ("unknown", "needs_attention")
    assert step.evidence == [{"proven": True, "says": "Nothing happened."}]


def test_only_a_step_that_is_safe_to_repeat_is_repeated_by_itself(
    monkeypatch: Any, woken: list[Any], committing: Any
) -> None:
    row, step = unknown(monkeypatch, ProbeOutcome("again", [saw(True, "It only reads.")]))
    with committing(execute=True):
        engine.probe_step(step.pk, step.fence)
    step.refresh_from_db()
    row.refresh_from_db()
    assert (step.state, row.state) == ("pending", "running")
    assert woken[-1] == ("later", step.pk)


def test_drift_voids_the_plan_for_good_and_frees_the_recovery_for_a_new_one(
    monkeypatch: Any, woken: list[Any]
) -> None:
    row, step = running()
    drift = [Drift("sink", "batch 2", "batch 3", "The table's log ends at batch 3 now.")]
    use(monkeypatch, "patch", fails(PlanVoid(drift)))
    engine.run_step(step.pk, 0)
    row.refresh_from_db()
    made = row.plans.get()
    assert row.state == "diagnosing"
    assert made.voided_at is not None
    assert made.drift[0]["now"] == "batch 3"
    assert row.steps.get(kind="verify").state == "skipped"
    assert AuditEntry.objects.filter(action="plan.void").exists()


@pytest.mark.parametrize(("verified", "state"), [(True, "succeeded"), (False, "needs_attention")])
def test_only_measured_proof_ends_a_recovery_as_succeeded(
    monkeypatch: Any, woken: list[Any], verified: bool, state: str
) -> None:
    row, step = running(("verify",))
    measured = Measured(verified=verified, criteria=(JudgedCriterion(code="EACH_FILE_ONCE", ok=verified),))
    use(monkeypatch, "verify", lambda context: VerifyResult(measured=measured))
    engine.run_step(step.pk, 0)
    row.refresh_from_db()
    assert row.state == state
    assert row.proof == measured


def test_a_worker_that_lost_its_step_is_stopped_by_the_fence() -> None:
    _, step = running()
    mine = claim(step.pk, 0, worker="a", deadline=timezone.now() + timedelta(seconds=60))
    assert mine is not None
    watch = Watch(mine)
    watch.guard()
    Step.objects.filter(pk=step.pk).update(state="unknown")
    with pytest.raises(FenceLost, match="taken over"):
        watch.guard()


def test_a_worker_past_its_deadline_changes_nothing_more() -> None:
    _, step = running()
    mine = claim(step.pk, 0, worker="a", deadline=timezone.now() - timedelta(seconds=1))
    assert mine is not None
    with pytest.raises(FenceLost, match="deadline"):
        Watch(mine).guard()


@pytest.mark.parametrize("away", [OperationalError, InterfaceError])
def test_a_step_lives_on_when_the_database_was_away_for_a_moment(
    monkeypatch: Any, settings: Any, away: type[Exception]
) -> None:
    """Else a server that was started again would make every running step unknown."""
    settings.REPRISE_HEARTBEAT_SECONDS = 0.01
    beaten = threading.Event()
    answers = iter([away("the server went away"), away("connection refused")])

    def update(**values: Any) -> None:
        if (problem := next(answers, None)) is not None:
            raise problem
        beaten.set()

    watch = Watch(Step(pk=1))
    monkeypatch.setattr(watch, "_mine", lambda: SimpleNamespace(update=update))
    with watch:
        assert beaten.wait(10)


def test_the_reaper_makes_a_silent_step_unknown_never_failed(woken: list[Any], committing: Any) -> None:
    _, step = running()
    claim(step.pk, 0, worker="a", deadline=timezone.now() + timedelta(hours=1))
    Step.objects.filter(pk=step.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    with committing(execute=True):
        tasks.reap()
    step.refresh_from_db()
    assert step.state == "unknown"
    assert "sign of life" in step.problem
    assert ("probe", step.pk) in woken


def test_a_lost_wake_up_is_given_again(woken: list[Any]) -> None:
    _, step = running()
    Step.objects.filter(pk=step.pk).update(woken_at=timezone.now() - timedelta(minutes=5))
    tasks.reap()
    assert woken == [("run", step.pk)]


def test_two_people_cannot_both_move_a_recovery() -> None:
    row = recovery(state="planned")
    plan(row, "stop")
    other = Recovery.objects.get(pk=row.pk)
    move(row, "running")
    with pytest.raises(Refused, match="Someone else"):
        move(other, "cancelled")


@pytest.mark.parametrize(("when", "word"), [("now", "stopped"), ("step", "paused")])
def test_a_stopped_or_paused_run_does_not_begin_its_next_step(
    monkeypatch: Any, woken: list[Any], when: str, word: str
) -> None:
    row, step = running()
    acts: list[int] = []
    use(monkeypatch, "patch", lambda context: acts.append(1) or {})
    Recovery.objects.filter(pk=row.pk).update(choices={"halt": {"by": "ada", "when": when}})
    engine.run_step(step.pk, step.fence)
    step.refresh_from_db()
    row.refresh_from_db()
    assert (acts, step.state, step.woken_at) == ([], "pending", None)
    assert row.state == "needs_attention"
    assert row.reason.split()[:2] == ["ada", word]
    assert "before step patch" in row.reason
    assert AuditEntry.objects.filter(action="recovery.halt", actor="reprise").count() == 1


def test_the_step_that_runs_when_a_run_is_paused_ends_and_its_result_counts(
    monkeypatch: Any, woken: list[Any], committing: Any
) -> None:
    row, step = running()

    def pausing(context: Context) -> StepResult:
        Recovery.objects.filter(pk=row.pk).update(choices={"halt": {"by": "ada", "when": "step"}})
        assert context.held_by == ""
        return PatchResult(files=())

    use(monkeypatch, "patch", pausing)
    with committing():
        engine.run_step(step.pk, step.fence)
    following = row.steps.get(kind="verify")
    engine.run_step(following.pk, following.fence)
    step.refresh_from_db()
    row.refresh_from_db()
    assert (step.state, step.result, row.state) == ("done", {"files": []}, "needs_attention")
    assert row.reason.split()[:2] == ["ada", "paused"]
    assert "before step verify" in row.reason


def test_a_stopped_run_can_still_be_rolled_back(monkeypatch: Any, woken: list[Any]) -> None:
    row, step = running(("rollback",), state="needs_attention")
    use(monkeypatch, "rollback", good)
    Recovery.objects.filter(pk=row.pk).update(choices={"halt": {"by": "ada"}})
    engine.run_step(step.pk, step.fence)
    row.refresh_from_db()
    assert row.state == "rolled_back"


@pytest.mark.parametrize("ends", ["succeeded", "rolled_back"])
def test_when_a_recovery_has_ended_inventory_and_unread_input_are_asked_for_at_once(
    monkeypatch: Any, woken: list[Any], committing: Any, ends: str
) -> None:
    asked: list[int] = []
    looked: list[int] = []
    monkeypatch.setattr(poll_workspace, "delay", asked.append)
    monkeypatch.setattr(look_at_flow, "delay", looked.append)
    kind = "verify" if ends == "succeeded" else "rollback"
    row, step = running((kind,), state="running" if kind == "verify" else "needs_attention")
    use(monkeypatch, kind, lambda context: VerifyResult(measured=Measured(verified=True)))
    with committing(execute=True):
        engine.run_step(step.pk, step.fence)
    row.refresh_from_db()
    assert row.state == ends
    assert (asked, looked) == ([row.flow.pipeline.workspace_id], [row.flow_id])
