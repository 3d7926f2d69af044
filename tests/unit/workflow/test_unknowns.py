"""A step of which nobody saw the end: what is asked, when it is asked again, and what a person can do meanwhile."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.probes import EvidenceLine, ProbeQuestion
from recovery.errors import Denied, Unreachable
from recovery.models import AuditEntry, Recovery, ReviewItem, Step
from recovery.people.roles import Actor, Role
from recovery.workflow import broker, engine, probe_questions, probing, starting, tasks, unknowns
from recovery.workflow.steps.base import ProbeOutcome, saw
from tests import factories
from tests.refusals import refused

pytestmark = pytest.mark.django_db
RESPONDER = Actor("responder", Role.RESPONDER, via="page")


def away(*_: Any, **__: Any) -> Any:
    raise Unreachable("It does not answer.")


class Api:
    """A pipeline with one active update, which ends when it is stopped."""

    def __init__(self, active: str | None) -> None:
        self.active, self.stopped = active, 0

    def get_pipeline(self, _: str) -> dict[str, Any]:
        state = "RUNNING" if self.active else "CANCELED"
        return {"latest_updates": [{"update_id": self.active or "7c1f02d4", "state": state}]}

    def stop(self, _: str) -> None:
        self.active, self.stopped = None, self.stopped + 1


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(broker, "check", lambda: None)
    for name in ("run_step", "probe_step", "stop_and_prove"):
        monkeypatch.setattr(getattr(tasks, name), "delay", lambda *a, name=name: found.append((name, a[0])))
    return found


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Step:
    """An unknown rerun whose update is known; nothing answers."""
    monkeypatch.setattr(unknowns, "client_for", away)
    for name in ("client_for", "inspect_checkpoint", "read_table", "questions_service"):
        monkeypatch.setattr(probe_questions, name, away)
    step = factories.unknown().steps.get(kind="rerun")
    Step.objects.filter(pk=step.pk).update(result={"update_id": "7c1f02d4"})
    step.refresh_from_db()
    return step


def probed(monkeypatch: pytest.MonkeyPatch, step: Step, outcome: str, *evidence: EvidenceLine) -> Step:
    found = ProbeOutcome(outcome, list(evidence))
    monkeypatch.setitem(engine.KINDS, "rerun", SimpleNamespace(probe=lambda _: found))  # type: ignore[arg-type]
    engine.probe_step(step.pk, step.fence)
    step.refresh_from_db()
    return step


def test_every_question_is_asked_and_what_does_not_answer_is_not_known(
    monkeypatch: pytest.MonkeyPatch, stuck: Step
) -> None:
    step = probed(monkeypatch, stuck, "unclear", saw(None, "Not read."))

    probe = step.notes.probe
    assert probe is not None
    assert {r.asked: r.proven for r in probe.readings} == dict.fromkeys(ProbeQuestion) | {
        ProbeQuestion.WORKER: True, ProbeQuestion.LOCK: True,
    }  # fmt: skip
    assert probe.number == 1
    assert probe.following
    assert step.state == "unknown"


def test_a_probe_that_could_not_ask_is_no_end_of_asking(monkeypatch: pytest.MonkeyPatch, stuck: Step) -> None:
    monkeypatch.setitem(engine.KINDS, "rerun", SimpleNamespace(probe=away))  # type: ignore[arg-type]
    engine.probe_step(stuck.pk, stuck.fence)
    stuck.refresh_from_db()
    assert stuck.evidence[0]["proven"] is None
    assert stuck.notes.probe.following  # type: ignore[union-attr]


def test_it_reads_again_when_it_is_due_and_not_before(
    monkeypatch: pytest.MonkeyPatch, stuck: Step, sent: list[Any]
) -> None:
    step = probed(monkeypatch, stuck, "unclear", saw(None, "Not read."))
    tasks.reap()
    assert ("probe_step", step.pk) not in sent
    later = timezone.now() + probing.AGAIN + timedelta(seconds=1)
    monkeypatch.setattr(probing.timezone, "now", lambda: later)
    tasks.reap()
    assert ("probe_step", step.pk) in sent
    assert probed(monkeypatch, step, "unclear", saw(None, "Not read.")).notes.probe.number == 2  # type: ignore[union-attr]
    # what did not change is one row of the audit log, however often it is read
    assert AuditEntry.objects.filter(action="step.probe").count() == 1


def test_where_everything_answered_nothing_is_read_again(
    monkeypatch: pytest.MonkeyPatch, stuck: Step
) -> None:
    gone = probe_questions.ProbeRead(
        ProbeQuestion.WORKER, probe_questions.ProbedService.CONSOLE, lambda _: saw(True, "gone")
    )
    monkeypatch.setattr(probe_questions, "QUESTIONS", (gone,))
    step = probed(monkeypatch, stuck, "not_done", saw(True, "No update was started."))
    assert step.notes.probe.following == ""  # type: ignore[union-attr]


def test_its_update_is_stopped_and_then_it_is_read_what_it_did(
    monkeypatch: pytest.MonkeyPatch, stuck: Step, sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    api = Api("7c1f02d4")
    monkeypatch.setattr(unknowns, "client_for", lambda workspace: api)
    found = ProbeOutcome("not_done", [saw(True, "Update 7c1f02d4 is CANCELED.")])
    monkeypatch.setitem(engine.KINDS, "rerun", SimpleNamespace(probe=lambda _: found))  # type: ignore[arg-type]

    with django_capture_on_commit_callbacks(execute=True):
        unknowns.stop_and_prove(recovery_id=stuck.recovery_id, by=RESPONDER)
    assert sent[-1] == ("stop_and_prove", stuck.pk)
    unknowns.carry_out(stuck.pk, stuck.fence)

    stuck.refresh_from_db()
    assert api.stopped == 1
    assert stuck.evidence == [codec.to_json(line) for line in found.evidence]
    assert "stopping" not in stuck.result
    entry = AuditEntry.objects.get(action="step.stop")
    assert (entry.actor, entry.outcome) == ("responder", "done")


@pytest.mark.parametrize(
    ("kind", "result", "found"),
    [
        ("rerun", {"update_id": "u-1"}, "u-1"),
        ("refresh", {"update_id": "u-1"}, "u-1"),
        ("verify", {"further": "u-1"}, "u-1"),
        ("verify", {"further": None}, ""),
        ("seed", {"update_id": "u-1"}, ""),
    ],
)
def test_the_update_of_every_step_that_starts_one_can_be_stopped(
    stuck: Step, kind: str, result: dict[str, Any], found: str
) -> None:
    stuck.kind, stuck.result = kind, result
    assert unknowns.find_unknown_update(stuck) == found


def test_the_wish_to_stop_ends_with_what_came_of_it_whatever_that_was(stuck: Step) -> None:
    """Its step is no longer unknown, or another worker has taken it over."""
    wish = {"by": "ada", "at": "2026-11-23T04:00:00+00:00"}
    for changed in ({"state": "pending"}, {"state": "unknown", "fence": stuck.fence + 1}):
        Step.objects.filter(pk=stuck.pk).update(result={"update_id": "u-1", "stopping": wish}, **changed)
        unknowns.carry_out(stuck.pk, stuck.fence)
        stuck_now = Step.objects.get(pk=stuck.pk)
        assert stuck_now.result == {"update_id": "u-1"}


def test_an_update_of_somebody_else_is_not_stopped(monkeypatch: pytest.MonkeyPatch, stuck: Step) -> None:
    api = Api("another")
    monkeypatch.setattr(unknowns, "client_for", lambda workspace: api)
    monkeypatch.setattr(engine, "probe_step", lambda *_: None)
    unknowns.carry_out(stuck.pk, stuck.fence)
    assert (api.stopped, api.active) == (0, "another")
    Step.objects.filter(pk=stuck.pk).update(result={})
    monkeypatch.setattr(broker, "check", lambda: None)
    with refused("no_update"):
        unknowns.stop_and_prove(recovery_id=stuck.recovery_id, by=RESPONDER)


def test_a_statement_is_kept_with_its_name_through_every_further_probe(
    monkeypatch: pytest.MonkeyPatch, stuck: Step
) -> None:
    unknowns.say_known(recovery_id=stuck.recovery_id, says=" Powered  off. ", by=RESPONDER)
    step = probed(monkeypatch, stuck, "unclear", saw(None, "Not read."))

    (said,) = step.notes.statements
    assert (said.by, said.says) == ("responder", "Powered off.")
    assert step.state == "unknown"
    entry = AuditEntry.objects.get(action="step.statement")
    assert (entry.outcome, entry.after["says"]) == ("done", said.says)


def test_a_word_lets_a_person_go_on_where_the_probe_has_not_answered(stuck: Step) -> None:
    Step.objects.filter(pk=stuck.pk).update(evidence=[])
    row = Recovery.objects.get(pk=stuck.recovery_id)
    with refused("probe_open"):
        starting.may_go_on(row, starting.stuck(row), then="resume")
    unknowns.say_known(recovery_id=row.pk, says="It is off.", by=RESPONDER)
    starting.may_go_on(row, starting.stuck(row), then="resume")


@pytest.mark.parametrize(
    ("changed", "answered", "leaves_open"),
    [
        ({"evidence": []}, False, True),
        ({"evidence": [{"proven": None, "says": "Not read."}]}, True, True),
        ({"evidence": [{"proven": True, "says": "It ended."}]}, True, False),
        (
            {"evidence": [], "result": {"statements": [{"by": "ada", "at": "", "says": "It is off."}]}},
            True,
            True,
        ),
        ({"evidence": [], "state": "failed"}, True, True),
    ],
)
def test_who_may_go_on_and_what_is_open_is_one_rule_of_the_step(
    stuck: Step, changed: dict[str, Any], answered: bool, leaves_open: bool
) -> None:
    for name, value in changed.items():
        setattr(stuck, name, value)
    assert (probing.is_answered(stuck), probing.leaves_open(stuck)) == (answered, leaves_open)


def test_in_production_a_word_is_reviewed() -> None:
    flow = factories.failed_flow(factories.pipeline(environment="production"))
    unknowns.say_known(recovery_id=factories.unknown(flow).pk, says="It is off.", by=RESPONDER)
    entry = AuditEntry.objects.get(action="step.statement")
    assert ReviewItem.objects.filter(seq=entry.seq).exists()


def test_what_is_known_is_not_said_and_words_are_needed(stuck: Step) -> None:
    with refused("no_reason"):
        unknowns.say_known(recovery_id=stuck.recovery_id, says=" ", by=RESPONDER)
    with refused("not_unknown"):
        unknowns.say_known(
            recovery_id=factories.failed_step(factories.failed_flow()).pk, says="x", by=RESPONDER
        )
    with pytest.raises(Denied):
        unknowns.say_known(recovery_id=stuck.recovery_id, says="x", by=Actor("vic", Role.VIEWER))
