"""How much a poll asks of a workspace with many pipelines, how it rests, and that it sees everything all the same."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.models import Flow, Pipeline, Workspace
from recovery.pipelines import inventory
from recovery.pipelines.inventory import due_workspaces, refresh
from recovery.pipelines.locks import only_poll
from recovery.pipelines.tasks import poll_workspace
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.elsewhere import held_elsewhere
from tests.unit.pipelines.stub import Answer, Asked, Stub, serving

pytestmark = pytest.mark.django_db
MANY = 3 * inventory.AGAIN
FLOW = "main.shop.orders_flow"


@pytest.fixture
def api() -> Api:
    api = Api()
    for number in range(MANY):
        api.add(f"p{number:02}", f"shop {number}").run("u1", {FLOW: "COMPLETED"})
    return api


@pytest.fixture
def stub(api: Api) -> Iterator[Stub]:
    with serving(api) as stub:
        yield stub


def registered(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("POLLING_TOKEN", "rp_x")
    return Workspace.objects.create(name="here", url=stub.url, token_ref="env:POLLING_TOKEN")


@pytest.fixture
def workspace(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    found = registered(stub, monkeypatch)
    refresh(workspace_id=found.pk)
    return found


def asked_in_a_poll(stub: Stub, workspace: Workspace) -> Counter[str]:
    """Which pipelines were asked for, and how often; `list` for the list of all."""
    stub.asked.clear()
    refresh(workspace_id=workspace.pk)
    parts = [one.path.removeprefix("/api/2.0/pipelines").strip("/").split("/")[0] for one in stub.asked]
    return Counter(part or "list" for part in parts)


def test_a_poll_asks_for_no_more_idle_pipelines_than_its_share(stub: Stub, workspace: Workspace) -> None:
    asked = asked_in_a_poll(stub, workspace)

    assert asked.pop("list") == 1
    assert (len(asked), set(asked.values())) == (inventory.AGAIN, {1})


def test_of_a_thousand_idle_pipelines_at_most_one_in_25_costs_a_call() -> None:
    pages = 1000 / 100
    assert pages + max(inventory.AGAIN, 1000 // inventory.AGAIN_PART) <= 1000 / 25


def test_a_pipeline_that_moved_is_seen_at_once(api: Api, stub: Stub, workspace: Workspace) -> None:
    newest = Pipeline.objects.order_by("-seen_at").first()
    assert newest is not None
    api.pipelines[newest.pipeline_id].run("u2", {FLOW: "FAILED"}, "FAILED")

    asked = asked_in_a_poll(stub, workspace)

    assert asked[newest.pipeline_id] == 3  # the pipeline, its updates, the events of the new one
    assert Flow.objects.get(pipeline=newest).state == "failed"


def test_what_the_list_does_not_tell_is_seen_within_a_few_polls(
    api: Api, stub: Stub, workspace: Workspace
) -> None:
    for pipeline in api.pipelines.values():
        pipeline.spec = {"tags": {"environment": "staging"}}

    for _ in range(MANY // inventory.AGAIN):
        refresh(workspace_id=workspace.pk)

    assert set(Pipeline.objects.values_list("wanted_environment", flat=True)) == {"staging"}


def test_a_list_that_tells_of_no_updates_is_not_believed(api: Api, stub: Stub, workspace: Workspace) -> None:
    api.list_tells = False

    asked = asked_in_a_poll(stub, workspace)

    assert len(asked - Counter({"list": 1})) == MANY


def test_an_update_that_runs_is_asked_for_until_it_is_over(
    api: Api, stub: Stub, workspace: Workspace
) -> None:
    last = Pipeline.objects.order_by("-seen_at").first()
    assert last is not None
    api.pipelines[last.pipeline_id].begin("u2", {FLOW: "APPEND"})
    for _ in range(3):
        assert asked_in_a_poll(stub, workspace)[last.pipeline_id] >= 2
    api.pipelines[last.pipeline_id].status("u2", FLOW, "COMPLETED")
    api.pipelines[last.pipeline_id].end("u2", "COMPLETED")
    refresh(workspace_id=workspace.pk)

    asked = [asked_in_a_poll(stub, workspace)[last.pipeline_id] for _ in range(MANY // inventory.AGAIN - 1)]

    assert sum(asked) == 0


def test_several_pipelines_are_asked_for_at_the_same_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=20)

    def answer(asked: Asked) -> Answer:
        if asked.path in ("/api/2.0/pipelines/p00", "/api/2.0/pipelines/p01"):
            both.wait()
        return api(asked)

    with serving(answer) as stub:
        workspace = registered(stub, monkeypatch)
        refresh(workspace_id=workspace.pk)

    workspace.refresh_from_db()
    assert (workspace.poll_error, Pipeline.objects.count()) == ("", MANY)


def test_a_service_that_wants_a_rest_is_asked_no_more_and_gets_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/p03"):
            return Answer(429, {"message": "Slow down."}, {"Retry-After": "120"})
        return api(asked)

    before = timezone.now()
    with serving(answer) as stub:
        workspace = registered(stub, monkeypatch)
        refresh(workspace_id=workspace.pk)
        asked = len([one for one in stub.asked if one.path.count("/") == 4])

    workspace.refresh_from_db()
    assert workspace.next_poll_at is not None
    assert timedelta(seconds=120) <= workspace.next_poll_at - before < timedelta(seconds=180)
    assert due_workspaces(timezone.now()) == []
    assert due_workspaces(workspace.next_poll_at) == [workspace.pk]
    assert 4 <= asked < MANY
    assert workspace.polled_at is None


@pytest.mark.parametrize(("took", "rests"), [(1.0, False), (2.0, False), (4.0, True), (40.0, True)])
def test_a_poll_that_took_long_is_followed_by_a_rest_as_long(settings: Any, took: float, rests: bool) -> None:
    settings.REPRISE_POLL_SECONDS = 5.0
    began = timezone.now()
    ended = began + timedelta(seconds=took)

    following = inventory._next_poll(began, ended, 0.0)

    assert following == (ended + timedelta(seconds=took) if rests else None)


def test_a_poll_for_what_has_just_happened_comes_after_the_one_under_way(
    stub: Stub, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[Any] = []
    monkeypatch.setattr(poll_workspace, "apply_async", lambda args, **how: again.append((args, how)))
    stub.asked.clear()

    with held_elsewhere(only_poll, workspace.pk):
        poll_workspace(workspace.pk)

    assert (stub.asked, again) == ([], [((workspace.pk, 59), {"countdown": 1})])
    poll_workspace(workspace.pk)
    assert stub.asked
