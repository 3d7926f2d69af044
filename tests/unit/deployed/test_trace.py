"""One id goes with what a person set in motion: request, Celery message, task, call of the API, update, audit entry."""

from collections.abc import Callable, Iterator

import pytest
from celery.app.trace import build_tracer
from celery.worker.request import Request
from django.test import Client, RequestFactory
from kombu import Connection

from console.celery import app
from recovery import trace
from recovery.models import AuditEntry, Workspace
from recovery.pipelines.tasks import poll_workspace, poll_workspaces
from recovery.server import updates
from recovery.server.auth import digest_token
from recovery.server.http import ApiHandler
from recovery.server.models import ApiToken, Event, Pipeline, Update
from recovery.workflow import broker
from tests import factories
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.stub import Stub, serving

ID = "incident-4711-0001"


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Request]]:
    """Celery on a broker in memory; gives the next message of a queue as a worker would take it."""
    monkeypatch.setattr(app.conf, "broker_url", "memory://")
    monkeypatch.setattr(app.amqp, "_producer_pool", None)
    monkeypatch.setattr(app, "_pool", None)
    with Connection("memory://") as connection:

        def taken(name: str) -> Request:
            message = connection.SimpleQueue(name).get(timeout=5)
            message.ack()
            return Request(message, app=app, decoded=True, body=message.payload, headers=message.headers)

        yield taken
        for name in ("control", "steps", "probes"):
            connection.SimpleQueue(name).clear()


@pytest.fixture
def stub() -> Iterator[Stub]:
    api = Api()
    api.add("p1", "shop")
    with serving(api) as stub:
        yield stub


def run(request: Request) -> None:
    """As a worker's process does, signals and all."""
    task = app.tasks[request.name]
    tracer = build_tracer(task.name, task, app=app)
    args, kwargs, _ = request._payload
    tracer(request.id, args, kwargs, dict(request.request_dict))


@pytest.mark.django_db
def test_a_page_hands_its_id_to_the_task_that_it_wakes(
    client: Client, queue: Callable[[str], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    # the test's own transaction is never committed, so what waits for a commit is sent at once
    monkeypatch.setattr(broker, "send_on_commit", lambda task, *args: task.delay(*args))
    recovery = factories.opened()
    client.force_login(factories.person("responder"))
    answer = client.post(f"/recoveries/{recovery.pk}/stop", headers={"x-request-id": ID})

    assert answer["X-Request-ID"] == ID
    assert queue("steps").request_dict["request_id"] == ID
    assert set(AuditEntry.objects.values_list("request_id", flat=True)) == {ID}
    assert trace.current() == ""


@pytest.mark.django_db
def test_a_task_hands_its_id_to_the_api_and_forgets_it(
    queue: Callable[[str], Request], stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_TOKEN", "rp_x")
    workspace = Workspace.objects.create(name="here", url=stub.url, token_ref="env:TRACE_TOKEN")
    with trace.bound(ID):
        poll_workspace.delay(workspace.pk)
    run(queue("control"))

    assert {one.headers.get("X-Request-ID") for one in stub.asked} == {ID}
    assert trace.current() == ""


@pytest.mark.django_db
def test_what_beat_wakes_has_an_id_of_its_own(
    queue: Callable[[str], Request], stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_TOKEN", "rp_x")
    Workspace.objects.create(name="here", url=stub.url, token_ref="env:TRACE_TOKEN")
    poll_workspaces.delay()
    run(queue("control"))
    run(queue("control"))  # the poll that it woke

    ids = {one.headers.get("X-Request-ID") for one in stub.asked}
    assert len(ids) == 1
    assert str(ids.pop()).startswith("task-")


@pytest.mark.django_db(databases=["default", "pipelines"])
def test_the_server_logs_the_callers_id_and_answers_with_it(caplog: pytest.LogCaptureFixture) -> None:
    ApiToken.objects.create(name="t", sha256=digest_token("good-token"))
    seen: list[str] = []
    caplog.handler.addFilter(lambda record: bool(seen.append(trace.current()) or True))
    asked = RequestFactory().post(
        "/api/2.0/pipelines", b"{", "application/json",
        headers={"authorization": "Bearer good-token", "x-request-id": ID},
    )  # fmt: skip
    with caplog.at_level("INFO"):
        answer = ApiHandler().get_response(asked)

    assert (answer.status_code, answer["X-Request-ID"]) == (400, ID)
    assert seen == [ID]


@pytest.mark.django_db(databases=["default", "pipelines"])
def test_an_update_keeps_the_id_of_the_request_that_started_it() -> None:
    pipeline = Pipeline.objects.create(name="p", spec={}, creator="c", last_modified_ms=1)
    update = Update.objects.create(pipeline=pipeline, spec={}, created_ms=1)
    with trace.bound(ID):
        updates.record_start(pipeline, update, user="reprise")
    begun = Event.objects.get(event_type="create_update").body

    assert begun["details"]["create_update"]["x-reprise-request-id"] == ID


@pytest.mark.parametrize("given", ["short", "x" * 65, "with space here", "line\nbreak-123", 'quote"quote"'])
def test_an_id_from_outside_must_have_the_form_of_one(given: str) -> None:
    assert trace.accepted(given, "req").startswith("req-")
    assert trace.accepted(ID, "req") == ID
