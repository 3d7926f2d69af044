"""Rows that a file table passed over while every update completed: such a flow is never ok."""

import json
from collections.abc import Iterator

import pytest

from recovery.models import Flow, Pipeline, Recovery, Workspace
from recovery.people.roles import Role
from recovery.pipelines.inventory import refresh
from tests.unit.people.run import run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.api import Pipeline as Shop
from tests.unit.pipelines.stub import serving

pytestmark = pytest.mark.django_db
TABLE = "main.shop.res"
ONE, TWO = "main.shop.one", "main.shop.two"
FILES, DELTA = "FileSink[file:/tables/res]", "DeltaSink[/tables/res]"


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def workspace(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    with serving(api) as stub:
        yield Workspace.objects.create(
            name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="development"
        )


def run(
    shop: Shop,
    update: str,
    numbers: dict[str, list[int]],
    *,
    rows: int = 10,
    sink: str = FILES,
    **info: object,
) -> None:
    """A whole update whose flows run these batches into one table; no numbers: an idle look."""
    shop.begin(update, {}, **info)
    for flow in numbers:
        told = {"output_dataset": TABLE, "input_datasets": [], "flow_type": "APPEND", "once": False}
        shop.event(update, "flow_definition", told, flow)
    if info.get("full_refresh_selection"):
        shop.event(update, "x_reprise_emptied", {"datasets": [TABLE]})
    for flow, batches in numbers.items():
        for batch in batches:
            body = {"batchId": batch, "numInputRows": rows, "sources": [], "sink": {"description": sink}}
            shop.event(update, "stream_progress", {"progress_json": json.dumps(body)}, flow)
        shop.status(update, flow, "COMPLETED")
    shop.end(update, "COMPLETED")


def seen(workspace: Workspace, name: str = ONE) -> tuple[str, str]:
    refresh(workspace_id=workspace.pk)
    flow = Flow.objects.get(name=name)
    return flow.state, flow.condition


LOST, FINE = ("failed", "SINK_PASSED_OVER"), ("ok", "")


def test_batch_numbers_that_begin_again_are_no_success_until_a_full_refresh(
    api: Api, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = api.add("p1", "shop", storage="file:///s")
    run(shop, "u1", {ONE: [0]})
    assert seen(workspace) == FINE
    run(shop, "u2", {ONE: [0]})
    assert seen(workspace) == LOST
    flow, pipeline = Flow.objects.get(), Pipeline.objects.get()
    assert (flow.failed_update, flow.error, pipeline.judged) == ("u2", [], "failed")
    since = flow.failing_since
    assert since is not None
    run(shop, "u3", {ONE: [1]})
    assert seen(workspace) == LOST
    assert (Flow.objects.get().failing_since, Flow.objects.get().failed_update) == (since, "u2")
    token = token_of("ada", Role.VIEWER)
    code, told = run_json(monkeypatch, token, "diagnose", "p1")
    assert (code, told["diagnosis"]["condition"]) == (1, "SINK_PASSED_OVER")
    assert [a["strategy"] for a in told["diagnosis"]["advice"] if a["strategy"]] == ["full-refresh"]
    _, told = run_json(monkeypatch, token, "flows", "--failing")
    assert [f["flow"] for f in told["flows"]] == [ONE]
    run(shop, "u4", {ONE: [0]}, full_refresh_selection=[TABLE])
    assert seen(workspace) == FINE
    assert Pipeline.objects.get().judged == "ok"


@pytest.mark.parametrize(
    ("numbers", "rows", "sink", "state"),
    [
        ([2], 10, FILES, "ok"),
        ([0], 0, FILES, "ok"),  # it read nothing
        ([1], 10, FILES, "failed"),
        ([0], 10, "FileSink[file:/tables/new]", "ok"),  # another table
        ([0], 10, DELTA, "ok"),  # such a table keeps the query's id beside the number
    ],
)
def test_numbers_lose_rows_in_a_file_table_alone_and_with_rows(
    api: Api, workspace: Workspace, numbers: list[int], rows: int, sink: str, state: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA if sink == DELTA else FILES)
    seen(workspace)
    run(shop, "u2", {ONE: numbers}, rows=rows, sink=sink)
    assert seen(workspace)[0] == state


def test_an_update_that_is_read_again_while_it_runs_repeats_no_number(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0]})
    shop.updates[0]["state"] = "RUNNING"
    refresh(workspace_id=workspace.pk)
    refresh(workspace_id=workspace.pk)
    shop.updates[0]["state"] = "COMPLETED"
    assert seen(workspace) == FINE


@pytest.mark.parametrize(("sink", "found"), [(FILES, ("failed", "SINK_SHARED")), (DELTA, FINE)])
def test_two_flows_into_one_file_table_are_not_ok(
    api: Api, workspace: Workspace, sink: str, found: tuple[str, str]
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0], TWO: [0]}, sink=sink)
    assert (seen(workspace), seen(workspace, TWO)) == (found, found)
    run(shop, "u2", {ONE: [1]}, sink=sink)  # the code has one of them left; what was lost stays lost
    assert seen(workspace) == found


def test_a_recovery_may_move_the_log_of_a_table_lawfully(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1, 2]})
    seen(workspace)
    recovery = Recovery.objects.create(flow=Flow.objects.get(), created_by="ann", owner="ann")
    Recovery.objects.filter(pk=recovery.pk).update(created_at=shop.clock)
    run(shop, "u2", {ONE: [1]})
    assert seen(workspace) == FINE
    Recovery.objects.filter(pk=recovery.pk).update(active=False, ended_at=shop.clock)
    run(shop, "u3", {ONE: [2]})
    assert seen(workspace) == FINE
    run(shop, "u4", {ONE: [0]})
    assert seen(workspace) == LOST


def test_a_loss_outlives_a_failure_and_the_updates_that_showed_it(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]})
    run(shop, "u2", {ONE: [0]})
    assert seen(workspace) == LOST
    since = Flow.objects.get().failing_since
    shop.run("u3", {ONE: "FAILED"}, "FAILED")
    assert seen(workspace)[1] not in ("", "SINK_PASSED_OVER")
    for number in range(4, 24):
        run(shop, f"u{number}", {ONE: []})
    shop.updates = shop.updates[:15]
    assert seen(workspace) == LOST
    assert (Flow.objects.get().failing_since, Flow.objects.get().failed_update) == (since, "u2")


def test_numbers_that_begin_again_are_seen_after_any_number_of_idle_updates(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]})
    assert seen(workspace) == FINE
    for number in range(2, 22):
        run(shop, f"u{number}", {ONE: []})
        shop.updates = shop.updates[:15]
        assert seen(workspace) == FINE
    run(shop, "u22", {ONE: [1]})
    shop.updates = shop.updates[:15]
    assert seen(workspace) == LOST


@pytest.mark.parametrize(("sink", "found"), [(FILES, ("failed", "SINK_SHARED")), (DELTA, FINE)])
def test_a_flow_of_another_pipeline_into_the_same_file_table_is_seen(
    api: Api, workspace: Workspace, sink: str, found: tuple[str, str]
) -> None:
    run(api.add("p1", "shop"), "u1", {ONE: [0]}, sink=sink)
    assert seen(workspace) == FINE
    run(api.add("p2", "other"), "u1", {TWO: [0]}, sink=sink)
    assert seen(workspace, TWO) == found
    run(api.pipelines["p1"], "u2", {ONE: [1]}, sink=sink)
    assert seen(workspace) == found
