"""What is asked about a step whose end no one saw: what each answer proves, whom it asks, and when it stays open."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import pytest
from django.utils import timezone

from recovery import reach
from recovery.checkpoints.report import CheckpointReport
from recovery.contracts.probes import ProbeQuestion
from recovery.errors import NotFound, Refused, Unreachable
from recovery.models import Step
from recovery.sinks.base import SinkReport
from recovery.workflow import probe_questions, probing
from recovery.workflow.probe_questions import SECONDS, ProbedService
from tests import factories

pytestmark = pytest.mark.django_db
OWN: Final = "7c1f02d4"
OTHER: Final = "0b1d5e77"


class Api:
    """Updates with their states, newest first; events of the newest."""

    def __init__(self, updates: dict[str, str], event: dict[str, Any] | None = None) -> None:
        self.updates, self.event = updates, event

    def list_updates(self, _: str, limit: int) -> list[dict[str, Any]]:
        now = timezone.now().isoformat()
        listed = [{"update_id": u, "state": s, "creation_time": now} for u, s in self.updates.items()]
        return listed[:limit]

    def get_pipeline(self, _: str) -> dict[str, Any]:
        return {"latest_updates": self.list_updates("", 5)}

    def get_update(self, _: str, update_id: str) -> dict[str, Any]:
        return {"update_id": update_id, "state": self.updates[update_id]}

    def events(self, _: str, *, filter: str, limit: int) -> Iterator[dict[str, Any]]:
        assert (OWN in filter, limit) == (True, 1)
        return iter([self.event] if self.event else [])


def checkpoint(version: int) -> CheckpointReport:
    return CheckpointReport(
        f"/c/{version}", "structured-streaming", version, "q", last_committed=2, last_planned=3
    )


@pytest.fixture
def step() -> Step:
    """An unknown rerun of a plan that has put a new version into place."""
    made = factories.unknown().steps.get(kind="rerun")
    Step.objects.filter(pk=made.pk).update(
        result={"update_id": OWN, "newest_before": "before", "unnoted": False}, fence=7
    )
    return Step.objects.select_related("recovery__flow__pipeline__workspace", "plan").get(pk=made.pk)


@pytest.fixture(autouse=True)
def services(monkeypatch: pytest.MonkeyPatch, step: Step) -> SimpleNamespace:
    """Everything answers: the update runs, the new version is in use, the table has twelve rows."""
    assert step.plan is not None
    sealed = step.plan.contents.preconditions.checkpoint
    told = SimpleNamespace(
        api=Api({OWN: "RUNNING", "before": "COMPLETED"}),
        report=checkpoint(1),
        fingerprint=sealed.fingerprint,
        table=SinkReport("files", "/t", 2),
        rows=12,
        asked=[],
    )
    monkeypatch.setattr(probe_questions, "client_for", lambda workspace, timeout: told.api)
    monkeypatch.setattr(probe_questions, "checkpoint_of", lambda flow: "/c")
    monkeypatch.setattr(probe_questions, "inspect_checkpoint", lambda place: told.report)
    monkeypatch.setattr(
        probe_questions, "read_fingerprint", lambda place: told.asked.append(place) or told.fingerprint
    )
    monkeypatch.setattr(probe_questions, "read_table", lambda place, query_id: told.table)
    monkeypatch.setattr(probe_questions, "questions_service", lambda workspace, environment: "answers")
    monkeypatch.setattr(probe_questions, "whereabouts", lambda answers, tables, timeout: None)
    monkeypatch.setattr(probe_questions, "count", lambda answers, table, settings, timeout: told.rows)
    return told


def proven(step: Step) -> dict[ProbeQuestion, bool | None]:
    return {a.asked: a.proven for a in probe_questions.ask_all(step, timezone.now)}


def says(step: Step, asked: ProbeQuestion) -> str:
    return next(a.says for a in probe_questions.ask_all(step, timezone.now) if a.asked is asked)


def test_where_all_answer_only_a_query_that_may_run_is_open(step: Step) -> None:
    assert proven(step) == dict.fromkeys(set(ProbeQuestion) - {ProbeQuestion.EFFECT}, True) | {
        ProbeQuestion.QUERY: None
    }


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ("COMPLETED", True),
        ("FAILED", True),
        ("CANCELED", True),
        ("RUNNING", None),
        ("STOPPING", None),
        ("odd", None),
    ],
)
def test_a_query_is_known_to_have_ended_by_the_end_of_its_update_alone(
    step: Step, services: SimpleNamespace, state: str, answer: bool | None
) -> None:
    services.api.updates[OWN] = state
    assert proven(step)[ProbeQuestion.QUERY] is answer


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"newest_before": "before", "unnoted": True}, None),
        ({"newest_before": "before", "unnoted": False}, True),
        ({}, True),
    ],
    ids=["a start whose update is not noted", "a start that was refused", "no start"],
)
def test_without_an_update_of_its_own_its_query_is_open_where_a_start_may_have_been_accepted(
    step: Step, result: dict[str, Any], answer: bool | None
) -> None:
    step.result = result
    assert proven(step)[ProbeQuestion.QUERY] is answer
    assert ProbeQuestion.LAST_EVENT not in proven(step)


@pytest.mark.parametrize(
    ("updates", "result", "answer"),
    [
        ({OWN: "RUNNING", "before": "COMPLETED"}, {}, True),
        ({OTHER: "RUNNING", OWN: "RUNNING", "before": "COMPLETED"}, {}, False),
        ({OTHER: "RUNNING", "before": "COMPLETED"}, {"update_id": None, "unnoted": True}, None),
        (
            {OWN: "RUNNING", **{f"u{n}": "COMPLETED" for n in range(40)}},
            {"updates": [f"u{n}" for n in range(40)]},
            None,
        ),
    ],
    ids=["its own alone", "one of someone else", "one that may be its own", "more than are looked through"],
)
def test_who_else_started_it_is_read_from_the_updates_since(
    step: Step,
    services: SimpleNamespace,
    updates: dict[str, str],
    result: dict[str, Any],
    answer: bool | None,
) -> None:
    services.api.updates = updates
    step.result = {**step.result, **result}
    assert proven(step)[ProbeQuestion.OTHERS] is answer


def test_the_last_event_is_named_with_its_time(step: Step, services: SimpleNamespace) -> None:
    services.api.event = {
        "event_type": "flow_progress",
        "timestamp": "2026-11-23T03:24:02Z",
        "message": "Batch 3. More",
    }
    told = says(step, ProbeQuestion.LAST_EVENT)
    assert [part in told for part in ("flow_progress", "03:24:02", "Batch 3", "More")] == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(("fingerprint", "answer"), [("as sealed", True), ("another", False)])
def test_the_replaced_version_is_compared_with_the_sealed_one(
    step: Step, services: SimpleNamespace, fingerprint: str, answer: bool
) -> None:
    services.fingerprint = services.fingerprint if fingerprint == "as sealed" else fingerprint
    assert proven(step)[ProbeQuestion.OLD_VERSION] is answer
    assert services.asked == ["/c/0"]


def test_a_version_that_is_still_in_use_is_not_asked_to_be_untouched(
    step: Step, services: SimpleNamespace
) -> None:
    services.report = checkpoint(0)
    assert ProbeQuestion.OLD_VERSION not in proven(step)


@pytest.mark.parametrize(
    ("changed", "answer"), [({}, True), ({"fence": 8}, False)], ids=["this worker's", "another worker's"]
)
def test_the_lock_is_proven_by_the_fence_of_the_step(
    step: Step, changed: dict[str, int], answer: bool
) -> None:
    Step.objects.filter(pk=step.pk).update(**changed)
    assert proven(step)[ProbeQuestion.LOCK] is answer


def test_a_recovery_that_has_ended_holds_no_flow(step: Step) -> None:
    type(step.recovery).objects.filter(pk=step.recovery_id).update(active=False, state="cancelled")
    assert proven(step)[ProbeQuestion.LOCK] is False


def test_a_table_that_spark_does_not_know_has_no_number_of_rows(
    step: Step, services: SimpleNamespace
) -> None:
    services.rows = None
    assert proven(step)[ProbeQuestion.ROWS] is None


def test_a_service_that_gave_no_answer_is_not_asked_again_in_this_probe(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def away(*_: Any, **__: Any) -> Any:
        asked.append("api")
        raise Unreachable("It does not answer.")

    monkeypatch.setattr(probe_questions, "client_for", away)

    of_api = (ProbeQuestion.ACTIVE, ProbeQuestion.QUERY, ProbeQuestion.LAST_EVENT, ProbeQuestion.OTHERS)
    answers = proven(step)

    assert {a: answers[a] for a in of_api} == dict.fromkeys(of_api)
    assert answers[ProbeQuestion.CHECKPOINT] is True
    assert asked == ["api"]


@pytest.mark.parametrize(
    ("problem", "asked_on"),
    [
        (Unreachable("No table there."), True),
        (Refused("Outside of the roots."), True),
        (Unreachable("Silent.", code="store_silent"), False),
        (Unreachable("Late.", code="store_slow"), False),
    ],
    ids=["nothing there", "refused", "silent", "late"],
)
def test_storage_that_answered_with_a_no_is_asked_on(
    step: Step, monkeypatch: pytest.MonkeyPatch, problem: Exception, asked_on: bool
) -> None:
    def fails(place: str) -> Any:
        raise problem

    monkeypatch.setattr(probe_questions, "read_fingerprint", fails)
    assert proven(step)[ProbeQuestion.OLD_VERSION] is None
    assert (proven(step)[ProbeQuestion.TABLE] is True) is asked_on


def test_a_no_of_the_api_ends_no_further_question(step: Step, services: SimpleNamespace) -> None:
    def gone(*_: Any) -> Any:
        raise NotFound("No such update.")

    services.api.get_update = gone
    assert (proven(step)[ProbeQuestion.QUERY], proven(step)[ProbeQuestion.OTHERS]) == (None, True)


def test_every_question_has_a_time_and_storage_is_held_to_it(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    @contextmanager
    def within(_: Any, seconds: float) -> Iterator[None]:
        given.append(seconds)
        yield

    monkeypatch.setattr(reach, "reading_within", within)
    proven(step)

    timed = [q for q in probe_questions.QUESTIONS if q.service is not ProbedService.CONSOLE]
    assert given == [SECONDS[q.service] for q in timed]
    assert {q.asked for q in probe_questions.QUESTIONS} == set(ProbeQuestion) - {ProbeQuestion.EFFECT}


@pytest.mark.parametrize(("query", "open_"), [(None, True), (True, False)])
def test_a_query_that_may_run_leaves_a_step_open_whatever_its_own_probe_saw(
    step: Step, query: bool | None, open_: bool
) -> None:
    at = (timezone.now()).isoformat()
    reading = {"asked": "query", "proven": query, "says": "", "at": at}
    spark = {"asked": "spark", "proven": None, "says": "", "at": at}
    step.evidence = [{"proven": True, "says": "It started no update."}]
    step.result = {
        "probe": {"number": 1, "began": at, "ended": at, "readings": [reading, spark], "following": ""}
    }
    assert probing.leaves_open(step) is open_
