"""Flows of different pipelines under one query id: the list shows it of both, without asking for either."""

import json
from collections.abc import Iterator

import pytest

from recovery.models import Flow, Listed, Pipeline, Recovery, Workspace
from recovery.people.roles import Role
from recovery.pipelines.inventory import refresh
from recovery.workflow.neighbours import find_shared_storage
from tests import factories
from tests.unit.people.run import run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.api import Pipeline as Served
from tests.unit.pipelines.stub import Stub, serving

pytestmark = pytest.mark.django_db
ONE, OTHER = "c.one.load", "c.other.load"
SHARED = ("unknown", "QUERY_ID_SHARED")
OK = ("ok", "")


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def stub(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    with serving(api) as stub:
        Workspace.objects.create(
            name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="staging"
        )
        run(api.add("p1", "one"), "u1", ONE, "q-1")
        run(api.add("p2", "other"), "v1", OTHER, "q-2")
        poll()
        yield stub


def run(served: Served, update: str, flow: str, query_id: str, outcome: str = "COMPLETED") -> None:
    served.begin(update, {flow: "APPEND"})
    served.event(
        update, "stream_progress", {"progress_json": json.dumps({"id": query_id, "batchId": 3})}, flow
    )
    served.fail(update, flow) if outcome == "FAILED" else served.status(update, flow, outcome)
    served.end(update, outcome)


def poll() -> None:
    refresh(workspace_id=Workspace.objects.get().pk)


def seen() -> dict[str, tuple[str, str]]:
    return {f.name: (f.state, f.condition) for f in Flow.objects.all()}


def test_both_flows_show_it_until_one_has_an_id_of_its_own(api: Api, stub: Stub) -> None:
    assert seen() == {ONE: OK, OTHER: OK}
    run(api.pipelines["p2"], "v2", OTHER, "q-1")
    poll()
    assert seen() == {ONE: SHARED, OTHER: SHARED}
    assert set(Pipeline.objects.values_list("judged", flat=True)) == {"unknown"}
    rows = {r.name: (r.state, r.condition, r.broken) for r in Listed.objects.exclude(flow=None)}
    assert rows == {ONE: (*SHARED, True), OTHER: (*SHARED, True)}
    run(api.pipelines["p2"], "v3", OTHER, "q-3")
    poll()
    assert seen() == {ONE: OK, OTHER: OK}
    assert set(Pipeline.objects.values_list("judged", flat=True)) == {"ok"}


def test_the_command_lists_both_and_their_pipelines(
    api: Api, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(api.pipelines["p2"], "v2", OTHER, "q-1")
    poll()
    _, found = run_json(monkeypatch, token_of("ada", Role.VIEWER), "flows", "--failing")
    assert {(f["flow"], f["state"], f["condition"]) for f in found["flows"]} == {
        (ONE, *SHARED),
        (OTHER, *SHARED),
    }
    assert {(p["id"], p["state"]) for p in found["pipelines"]} == {("p1", "unknown"), ("p2", "unknown")}


def test_a_further_poll_changes_no_row(api: Api, stub: Stub) -> None:
    run(api.pipelines["p2"], "v2", OTHER, "q-1")
    poll()
    before = dict(Flow.objects.values_list("name", "updated_at"))
    poll()
    assert dict(Flow.objects.values_list("name", "updated_at")) == before


def test_a_poll_of_one_pipeline_judges_the_other_without_asking_for_it(api: Api, stub: Stub) -> None:
    run(api.pipelines["p2"], "v2", OTHER, "q-1")
    stub.asked.clear()
    refresh(workspace_id=Workspace.objects.get().pk, only="other")
    assert seen() == {ONE: SHARED, OTHER: SHARED}
    assert not any("/pipelines/p1" in asked.path for asked in stub.asked)


def test_a_failure_of_its_own_shows_over_it(api: Api, stub: Stub) -> None:
    run(api.pipelines["p2"], "v2", OTHER, "q-1", "FAILED")
    poll()
    assert seen()[ONE] == SHARED
    assert seen()[OTHER] == ("failed", "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA")


def test_a_pipeline_that_is_gone_shares_nothing(api: Api, stub: Stub) -> None:
    run(api.pipelines["p2"], "v2", OTHER, "q-1")
    poll()
    del api.pipelines["p2"]
    poll()
    assert seen()[ONE] == OK


def test_a_flow_that_the_code_no_longer_has_shares_nothing(api: Api, stub: Stub) -> None:
    run(api.pipelines["p2"], "v2", OTHER, "q-1")
    poll()
    Recovery.objects.create(flow=Flow.objects.get(name=OTHER), state="cancelled")  # its row stays
    run(api.pipelines["p2"], "v3", "c.other.second", "q-3")
    poll()
    assert seen() == {ONE: OK, OTHER: ("unknown", ""), "c.other.second": OK}


def test_flows_of_another_workspace_share_nothing(api: Api, stub: Stub) -> None:
    elsewhere = factories.failed_flow(factories.pipeline(factories.workspace(), name="third"))
    Flow.objects.filter(pk=elsewhere.pk).update(query_id="q-1", state="ok", condition="")
    first = Workspace.objects.get(name="here")
    refresh(workspace_id=first.pk)
    assert seen()[ONE] == OK


def test_the_flow_page_still_compares_flows_that_show_it(api: Api, stub: Stub) -> None:
    run(api.pipelines["p2"], "v2", OTHER, "q-1")
    poll()
    Flow.objects.update(dataset="c.s.table")
    found = find_shared_storage(Flow.objects.get(name=ONE), "file:///nowhere/one", file_table=True)
    assert [f.code for f in found] == ["SINK_SHARED"]
