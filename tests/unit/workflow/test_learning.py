"""Where flows read from is learned in the background: one at a time, of idle pipelines, and anew after a change."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts.readers import SourceReader
from recovery.errors import Refused, Unreachable
from recovery.models import Flow, FlowInput
from recovery.pipelines import inputs, retention
from recovery.pipelines.locks import only_study
from recovery.pipelines.retention import RetentionState
from recovery.spark.api import Study, StudyRequest
from recovery.spark.asking import Service
from recovery.workflow import flow_snapshot, learning, readers, tasks
from recovery.workflow.fingerprints import digest_of_code
from tests.unit.pipelines.elsewhere import held_elsewhere
from tests.unit.workflow.rows import flow as a_flow
from tests.unit.workflow.rows import recovery

pytestmark = pytest.mark.django_db

KAFKA = SourceReader("kafka", options={"subscribe": "orders"})
OLD, NEW = {"/p/a.py": "old"}, {"/p/a.py": "new"}


class World:
    """A workspace, its code, and Spark, as a test tells them."""

    def __init__(self) -> None:
        self.today: Mapping[str, str] = OLD
        self.good: Mapping[str, str] | None = OLD
        self.updates: list[dict[str, str]] = []
        self.answers: dict[str, Study | Exception] = {"old": Study(operators=(), sources=(KAFKA,))}
        self.away: Exception | None = None
        self.read = 0
        self.asked: list[tuple[str, str]] = []  # flow, code

    def get_pipeline(self, pipeline_id: str) -> dict[str, Any]:
        if self.away:
            raise self.away
        self.read += 1
        return {"spec": {"storage": "memory://nothing"}, "latest_updates": self.updates}

    def study(self, request: StudyRequest, *, timeout: float) -> Study:
        (text,) = request.files.values()
        self.asked.append((request.flow.rsplit(".", 1)[-1], text))
        answer = self.answers[text]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Any) -> World:
    made = World()
    settings.REPRISE_STUDY_SECONDS = 3600
    monkeypatch.setenv("NOTHING", "t")
    monkeypatch.setattr(learning, "client_for", lambda workspace: made)
    monkeypatch.setattr(learning, "read_code", lambda client, spec: (("/p/a.py",), dict(made.today)))
    monkeypatch.setattr(learning, "last_good_source", lambda client, pipeline_id: made.good)
    monkeypatch.setattr(learning, "study", made.study)
    monkeypatch.setattr(learning, "known_tables", lambda flow: {flow.dataset: "/tables/changes"})
    monkeypatch.setattr(flow_snapshot, "questions_service", lambda *_: Service("http://nowhere:1", "t"))
    monkeypatch.setattr(learning, "questions_service", lambda *_: Service("http://nowhere:1", "t"))
    return made


def later(of: Flow, **delta: float) -> None:
    """As if so much time had passed."""
    of.refresh_from_db()
    assert of.code_due_at is not None
    Flow.objects.filter(pk=of.pk).update(code_due_at=of.code_due_at - timedelta(**delta))


def standing(of: Flow) -> RetentionState:
    of.refresh_from_db()
    found = retention.of(of, FlowInput.objects.filter(flow=of), timezone.now())
    assert found is not None
    return found.standing


def test_a_flow_that_no_recovery_studied_is_studied_once(world: World) -> None:
    flow = a_flow()
    assert standing(flow) is RetentionState.UNKNOWN

    tasks.learn_sources()
    tasks.learn_sources()

    (row,) = FlowInput.objects.filter(flow=flow)
    assert (row.kind, row.place.split()[:2], row.table) == ("kafka", ["orders", "at"], "/tables/changes")
    assert "unknown" in row.place
    assert (row.asked_at, world.asked) == (None, [(flow.short, "old")])
    flow.refresh_from_db()
    assert (flow.code_digest, flow.code_problem) == (digest_of_code(OLD), "")
    assert flow.code_seen_at is not None


def test_each_round_studies_one_flow_and_reads_the_code_of_a_pipeline_once(world: World) -> None:
    first = a_flow()
    second = Flow.objects.create(
        pipeline=first.pipeline, name="spark_catalog.shop.second", short="second", state="ok",
        updated_at=timezone.now(),
    )  # fmt: skip
    learning.learn_round()
    assert world.asked == [(first.short, "old")]
    learning.learn_round()
    assert world.asked == [(first.short, "old"), ("second", "old")]
    assert FlowInput.objects.filter(flow=second).exists()

    for of in (first, second):
        later(of, hours=1)
    world.read = 0
    learning.learn_round()
    assert (len(world.asked), world.read) == (2, 1), "nothing has changed"


def test_it_is_looked_at_again_after_its_time_and_studied_where_the_last_good_code_is_another(
    world: World,
) -> None:
    flow = a_flow()
    learning.learn_round()
    world.today = NEW  # deployed, and no update has come to its end with it
    world.answers["new"] = Study(operators=(), sources=(KAFKA, KAFKA))
    later(flow, minutes=59)
    learning.learn_round()
    later(flow, minutes=2)
    learning.learn_round()
    assert world.asked == [(flow.short, "old")]

    world.good = NEW
    later(flow, hours=2)
    learning.learn_round()
    assert world.asked[1:] == [(flow.short, "new")]
    assert FlowInput.objects.filter(flow=flow).count() == 2


def test_where_the_last_good_code_cannot_be_analysed_that_of_today_is(world: World) -> None:
    world.today = NEW
    world.answers = {"old": Study(problem="No module named 'gone'."), "new": Study((), (KAFKA,))}
    flow = a_flow()
    learning.learn_round()
    assert world.asked == [(flow.short, "old"), (flow.short, "new")]
    flow.refresh_from_db()
    assert (flow.code_problem, FlowInput.objects.filter(flow=flow).count()) == ("", 1)


PROBLEMS: dict[str, tuple[Study | Exception, str]] = {
    "code that cannot be analysed": (Study(problem="No module named 'gone'."), "No module named 'gone'."),
    "no source": (Study(operators=()), "The code names no source of a stream."),
    "Spark is away": (Unreachable("Spark Connect at x:1 does not answer."), "Spark Connect at x:1 does not"),
    "the code ends its process": (Refused("The process ended without an answer."), "The process ended"),
    "a bug": (RuntimeError("hunter2"), "for a fault in Reprise (RuntimeError)"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_could_not_be_studied_is_said_and_tried_again_sooner(world: World, name: str) -> None:
    answer, says = PROBLEMS[name]
    flow = a_flow()
    world.answers["old"] = answer
    learning.learn_round()
    assert standing(flow) is RetentionState.UNKNOWN
    assert says in flow.code_problem
    assert says in retention.not_learned(flow)
    assert "hunter2" not in flow.code_problem

    world.answers["old"] = Study((), (KAFKA,))
    learning.learn_round()
    assert len(world.asked) == 1, "not at once"
    later(flow, minutes=7)
    learning.learn_round()
    flow.refresh_from_db()
    assert (flow.code_problem, FlowInput.objects.filter(flow=flow).count()) == ("", 1)


def test_changed_code_that_cannot_be_studied_takes_the_promise_of_the_old_one_back(world: World) -> None:
    flow = a_flow()
    learning.learn_round()
    FlowInput.objects.filter(flow=flow).update(seen_at=timezone.now(), readable=True)
    assert standing(flow) is RetentionState.SAFE

    world.good = world.today = NEW
    world.answers["new"] = Study(problem="It is broken.")
    later(flow, hours=1)
    learning.learn_round()
    assert standing(flow) is RetentionState.UNKNOWN
    FlowInput.objects.filter(flow=flow).update(until=timezone.now(), readable=True)
    assert standing(flow) is RetentionState.DUE, "what is at risk stays so"

    world.good = world.today = OLD
    later(flow, hours=1)
    learning.learn_round()
    flow.refresh_from_db()
    assert flow.code_problem == ""


@pytest.mark.parametrize("problem", [Unreachable("The workspace does not answer."), KeyError("x")])
def test_a_workspace_that_is_away_takes_nothing_back_and_is_told_where_nothing_is_known(
    world: World, problem: Exception
) -> None:
    known = a_flow()
    learning.learn_round()
    world.away = problem
    unknown = a_flow()
    later(known, hours=1)
    learning.learn_round()
    known.refresh_from_db()
    unknown.refresh_from_db()
    assert (known.code_problem, len(world.asked)) == ("", 1)
    assert "does not answer" in unknown.code_problem or "fault in Reprise" in unknown.code_problem


def test_nothing_is_studied_while_an_update_runs(world: World) -> None:
    flow = a_flow()
    world.updates = [{"update_id": "u-2", "state": "RUNNING"}, {"update_id": "u-1", "state": "COMPLETED"}]
    learning.learn_round()
    flow.refresh_from_db()
    assert (world.asked, flow.code_problem) == ([], "")

    world.updates[0]["state"] = "COMPLETED"
    later(flow, minutes=7)
    learning.learn_round()
    assert world.asked == [(flow.short, "old")]


def left_alone(name: str) -> None:
    flow = a_flow("unknown" if name == "a flow that never ran" else "ok")
    if name == "an update runs, as the poller saw":
        flow.pipeline.state = "RUNNING"
    elif name == "a pipeline that is gone":
        flow.pipeline.gone = True
    elif name == "a view":
        Flow.objects.filter(pk=flow.pk).update(streaming=False)
    elif name == "a recovery is open":
        recovery("diagnosing", flow=flow)
    flow.pipeline.save()


@pytest.mark.parametrize(
    "name",
    [
        "a flow that never ran",
        "an update runs, as the poller saw",
        "a pipeline that is gone",
        "a view",
        "a recovery is open",
    ],
)
def test_what_is_busy_or_has_no_position_is_left_alone(world: World, name: str) -> None:
    left_alone(name)
    learning.learn_round()
    assert (world.read, world.asked) == (0, [])


def test_it_is_switched_off_by_a_setting(world: World, settings: Any) -> None:
    settings.REPRISE_STUDY_SECONDS = 0
    flow = a_flow()
    learning.learn_round()
    assert (world.read, world.asked) == (0, [])
    assert "only a recovery" in retention.not_learned(flow)


def test_only_one_worker_studies_at_a_time(world: World) -> None:
    a_flow()
    with held_elsewhere(lambda _: only_study(), 0):
        tasks.learn_sources()
    assert world.asked == []
    tasks.learn_sources()
    assert len(world.asked) == 1


def snapshot(of: Flow) -> Any:
    return SimpleNamespace(flow=of, spec={}, libraries=("/p/a.py",), code=NEW, table_place="/tables/changes")


def test_after_a_proof_the_code_of_now_is_what_the_flow_reads_by(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = a_flow()
    monkeypatch.setattr(readers, "study", lambda request: Study((), (KAFKA, KAFKA)))
    learning.note_proven(snapshot(flow), readers.Readers(lambda: snapshot(flow)))
    flow.refresh_from_db()
    assert (flow.code_digest, flow.sources.count()) == (digest_of_code(NEW), 2)


@pytest.mark.parametrize("problem", [Unreachable("Spark is away."), RuntimeError("hunter2")])
def test_a_proof_does_not_fail_where_its_sources_cannot_be_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, problem: Exception
) -> None:
    def away(request: StudyRequest) -> Study:
        raise problem

    flow = a_flow()
    inputs.note_sources(flow, [KAFKA])
    monkeypatch.setattr(readers, "study", away)
    with caplog.at_level(logging.WARNING):
        learning.note_proven(snapshot(flow), readers.Readers(lambda: snapshot(flow)))
    assert flow.sources.count() == 1
    assert "hunter2" not in caplog.text
    assert caplog.text
