"""The inventory over real HTTP: what the poller writes, how little it asks, and what survives a failure."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.errors import NotFound
from recovery.models import Flow, Pipeline, Recovery, Workspace
from recovery.pipelines.find import find_flow, find_fresh, find_pipeline
from recovery.pipelines.inventory import refresh
from recovery.pipelines.locks import only_poll
from recovery.pipelines.tasks import poll_due_workspace
from recovery.workflow.doubting import keep_table_doubts
from tests import factories
from tests.refusals import refused
from tests.unit.pipelines.api import CHAIN, Api
from tests.unit.pipelines.elsewhere import held_elsewhere
from tests.unit.pipelines.stub import Stub, serving

pytestmark = pytest.mark.django_db
ORDERS, VIEW, OTHER = "main.shop.orders_flow", "main.shop.orders", "main.shop.other_flow"
CONDITION = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def stub(api: Api) -> Iterator[Stub]:
    with serving(api) as stub:
        yield stub


@pytest.fixture
def workspace(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    return Workspace.objects.create(
        name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="development"
    )


def poll(workspace: Workspace) -> None:
    refresh(workspace_id=workspace.pk)
    workspace.refresh_from_db()


def flow(name: str = ORDERS) -> Flow:
    return Flow.objects.get(name=name)


def test_a_failing_flow_is_seen_with_its_reason(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop", storage="file:/s", tags={"environment": "production"})
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    shop.begin("u2", {ORDERS: "APPEND", VIEW: "MATERIALIZED_VIEW"})
    shop.batch("u2", ORDERS, 7)
    shop.fail("u2", ORDERS)
    failed_at = shop.clock
    shop.status("u2", VIEW, "SKIPPED")
    shop.end("u2", "FAILED")
    poll(workspace)
    pipeline = Pipeline.objects.get()
    assert (pipeline.name, pipeline.environment, pipeline.state, pipeline.gone) == (
        "shop",
        "production",
        "IDLE",
        False,
    )
    assert pipeline.spec["storage"] == "file:/s"
    assert [u["update_id"] for u in pipeline.updates] == ["u2", "u1"]
    orders, view = flow(), flow(VIEW)
    assert (orders.short, orders.dataset, orders.flow_type, orders.streaming) == (
        "orders_flow", "main.shop.orders", "APPEND", True,
    )  # fmt: skip
    assert (orders.state, orders.failed_update, orders.condition) == ("failed", "u2", CONDITION)
    assert (orders.failing_since, orders.error, orders.inputs) == (failed_at, CHAIN, ["a.b.raw"])
    assert (orders.last_batch, orders.last_progress["batchId"]) == (7, 7)
    assert orders.history == ["ok", "failed"]
    assert (view.state, view.streaming, view.history, view.error) == ("stale", False, ["ok", "none"], [])
    assert workspace.poll_error == ""
    assert workspace.polled_at is not None


def test_a_view_that_a_failing_update_emptied_is_empty_until_it_is_refreshed(
    api: Api, workspace: Workspace
) -> None:
    """Not ok, though the recovery of the flow before it has ended well: its own updates leave the view out."""
    newest = "main.shop.newest"
    shop, kinds = api.add("p1", "shop"), {ORDERS: "APPEND", newest: "MATERIALIZED_VIEW"}

    def run(update: str, orders: str, view: str, emptied: list[str]) -> None:
        shop.begin(update, kinds)
        told = {"output_dataset": newest, "input_datasets": ["main.shop.orders"], "flow_type": kinds[newest]}
        shop.event(update, "flow_definition", told, newest)
        shop.event(update, "x_reprise_emptied", {"datasets": emptied})
        shop.batch(update, ORDERS, 1)
        shop.fail(update, ORDERS) if orders == "FAILED" else shop.status(update, ORDERS, orders)
        shop.status(update, newest, view)
        shop.end(update, "FAILED" if orders == "FAILED" else "COMPLETED")
        poll(workspace)

    run("u1", "COMPLETED", "COMPLETED", [newest])
    assert (flow(newest).state, flow(newest).behind_since) == ("ok", None)
    run("u2", "FAILED", "SKIPPED", [newest])
    emptied_at = flow(newest).behind_since
    assert (flow(newest).state, flow(newest).behind_why, flow(newest).behind_update) == (
        "empty", "emptied", "u2",
    )  # fmt: skip
    run("u3", "COMPLETED", "EXCLUDED", [])
    assert (flow().state, flow(newest).state, flow(newest).behind_since) == ("ok", "empty", emptied_at)
    run("u4", "EXCLUDED", "COMPLETED", [newest])
    assert (flow(newest).state, flow(newest).behind_since, flow(newest).behind_why) == ("ok", None, "")


@pytest.mark.parametrize(("told", "doubt"), [({}, "table-differs"), ({"full_refresh": True}, "")])
def test_a_doubt_ends_with_the_update_that_writes_the_table_from_scratch(
    api: Api, workspace: Workspace, told: dict[str, Any], doubt: str
) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "COMPLETED"})
    poll(workspace)
    proof = codec.to_json(factories.proof(doubled=5, doubled_before=5))
    Recovery.objects.create(
        flow=flow(), state="succeeded", active=False, measured=proof, ended_at=shop.clock, created_by="ada"
    )
    keep_table_doubts([flow().pk])
    assert flow().table_doubt == "table-differs"
    shop.begin("u2", {ORDERS: "APPEND"}, **told)
    shop.batch("u2", ORDERS, 1)
    shop.status("u2", ORDERS, "COMPLETED")
    shop.end("u2", "COMPLETED")
    poll(workspace)
    assert flow().table_doubt == doubt


@pytest.mark.parametrize(
    ("told", "emptied", "state"),
    [
        ({}, [], "ok"),
        ({"full_refresh_selection": ["main.shop.orders"]}, ["main.shop.orders"], "stale"),
        ({"full_refresh_selection": ["orders"]}, [], "stale"),
        ({"full_refresh": True}, [], "stale"),
        ({"full_refresh_selection": ["main.shop.other"]}, ["main.shop.other"], "ok"),
    ],
)
def test_a_full_refresh_that_reads_nothing_leaves_what_is_below_stale(
    api: Api, workspace: Workspace, told: dict[str, Any], emptied: list[str], state: str
) -> None:
    newest, shop = "main.shop.newest", api.add("p1", "shop")
    for update, view, more in (("u1", "COMPLETED", {}), ("u2", "EXCLUDED", told)):
        shop.begin(update, {ORDERS: "APPEND"}, **more)
        of = {"output_dataset": newest, "input_datasets": ["main.shop.orders"], "flow_type": "COMPLETE"}
        shop.event(update, "flow_definition", of, newest)
        if update == "u2" and emptied:
            shop.event(update, "x_reprise_emptied", {"datasets": emptied})
        shop.status(update, ORDERS, "COMPLETED")
        shop.status(update, newest, view)
        shop.end(update, "COMPLETED")
        poll(workspace)
    assert (flow().state, flow(newest).state) == ("ok", state)


def test_a_temporary_view_is_as_its_newest_analysis(api: Api, workspace: Workspace) -> None:
    """No update tells of a flow that only defines a view; it is not unknown for that, nor is what reads it stale."""
    shop = api.add("p1", "shop")
    kinds = {ORDERS: "APPEND", "tv": "VIEW", VIEW: "MATERIALIZED_VIEW"}

    def run(update: str, fails: str = "") -> None:
        shop.begin(update, kinds)
        told = {"output_dataset": "tv", "input_datasets": ["main.shop.orders"], "flow_type": "VIEW"}
        shop.event(update, "flow_definition", told, "tv")
        told = {"output_dataset": "v", "input_datasets": ["tv"], "flow_type": "MATERIALIZED_VIEW"}
        shop.event(update, "flow_definition", told, VIEW)
        if fails:
            shop.fail(update, fails)
        else:
            shop.batch(update, ORDERS, 1)
            shop.status(update, ORDERS, "COMPLETED")
            shop.status(update, VIEW, "COMPLETED")
        shop.end(update, "FAILED" if fails else "COMPLETED")
        poll(workspace)

    for number, (fails, view) in enumerate((("", "ok"), ("tv", "failed"), ("", "ok"))):
        run(f"u{number}", fails)
        assert (flow("tv").state, flow("tv").behind_why) == (view, "")
    assert (flow(VIEW).state, flow(VIEW).behind_why, flow().state) == ("ok", "", "ok")


def test_what_an_older_version_read_of_an_update_is_read_once_more(
    api: Api, stub: Stub, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "COMPLETED"})
    poll(workspace)
    row = Pipeline.objects.get()
    del row.updates[0]["emptied"]
    row.save()
    for asked in (1, 0):
        stub.asked.clear()
        poll(workspace)
        assert sum(a.path.endswith("/events") for a in stub.asked) == asked


def test_a_flow_fails_since_the_first_failure_until_it_completes(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "FAILED"}, "FAILED")
    poll(workspace)
    since = flow().failing_since
    for number in range(2, 9):
        shop.run(f"u{number}", {ORDERS: "FAILED"}, "FAILED")
        poll(workspace)
    assert flow().failing_since == since
    assert flow().failed_update == "u8"
    assert flow().history == ["failed"] * 5
    shop.run("u9", {ORDERS: "COMPLETED"})
    poll(workspace)
    healed = flow()
    assert (healed.state, healed.failing_since, healed.error, healed.condition, healed.failed_update) == (
        "ok", None, [], "", "",
    )  # fmt: skip
    assert healed.history == ["failed"] * 4 + ["ok"]


@pytest.mark.parametrize(
    ("runs", "state"),
    [
        (["COMPLETED", "STOPPED"], "stopped"),
        (["FAILED", "STOPPED"], "failed"),
        (["FAILED", "SKIPPED", "EXCLUDED"], "failed"),
        (["COMPLETED", "EXCLUDED"], "ok"),
        (["EXCLUDED"], "unknown"),
        (["STOPPED"], "stopped"),
        (["FAILED", "COMPLETED", "STOPPED"], "stopped"),
        (["STOPPED", "COMPLETED"], "ok"),
    ],
)
def test_stopping_or_skipping_proves_nothing(
    api: Api, workspace: Workspace, runs: list[str], state: str
) -> None:
    shop = api.add("p1", "shop")
    ends = {"FAILED": "FAILED", "STOPPED": "CANCELED"}
    for number, status in enumerate(runs):
        shop.run(f"u{number}", {ORDERS: status}, ends.get(status, "COMPLETED"))
    poll(workspace)
    assert flow().state == state
    assert (flow().condition == CONDITION) is (state == "failed")


def test_a_running_update_is_followed_and_a_failure_kept_until_it_ends_well(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "FAILED"}, "FAILED")
    poll(workspace)
    shop.begin("u2", {ORDERS: "APPEND"})
    shop.status("u2", ORDERS, "RUNNING")
    poll(workspace)
    assert (flow().state, flow().condition, flow().history) == ("running", CONDITION, ["failed"])
    shop.status("u2", ORDERS, "COMPLETED")
    shop.end("u2", "COMPLETED")
    poll(workspace)
    assert (flow().state, flow().condition, flow().history) == ("ok", "", ["failed", "ok"])


def test_a_validation_is_not_an_outcome(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "COMPLETED"})
    shop.run("u2", {ORDERS: "FAILED"}, "FAILED", validate_only=True)
    poll(workspace)
    assert (flow().state, flow().history) == ("ok", ["ok"])


def test_an_update_that_failed_before_any_flow_keeps_its_reason(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "COMPLETED"})
    shop.begin("u2", {})
    shop.end("u2", "FAILED", error={"exceptions": [{"class_name": "SyntaxError", "message": "line 3"}]})
    poll(workspace)
    assert Pipeline.objects.get().updates[0]["error"] == [{"class_name": "SyntaxError", "message": "line 3"}]


def test_a_quiet_pipeline_costs_one_request(api: Api, stub: Stub, workspace: Workspace) -> None:
    for number in range(3):
        api.add(f"p{number}", f"shop{number}").run("u1", {ORDERS: "COMPLETED"})
    api.add("p9", "never run")
    poll(workspace)
    stub.asked.clear()
    before = list(Flow.objects.values())
    poll(workspace)
    assert sorted(stub.paths()) == ["GET /api/2.0/pipelines"] + [
        f"GET /api/2.0/pipelines/p{n}" for n in (0, 1, 2, 9)
    ]
    assert list(Flow.objects.values()) == before


def test_an_update_that_was_read_to_its_end_is_not_read_again(
    api: Api, stub: Stub, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "COMPLETED"})
    poll(workspace)
    shop.run("u2", {ORDERS: "COMPLETED"})
    stub.asked.clear()
    poll(workspace)
    events = [a.query["filter"] for a in stub.asked if a.path.endswith("/events")]
    assert events == ["update_id = 'u2'"]


def test_events_that_come_after_the_end_of_their_update_are_not_missed(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    shop.clock = timezone.now()
    shop.begin("u1", {ORDERS: "APPEND"})
    shop.status("u1", ORDERS, "RUNNING")
    shop.updates[0]["state"] = "FAILED"
    poll(workspace)
    assert flow().state == "stopped"
    shop.fail("u1", ORDERS)
    shop.end("u1", "FAILED")
    poll(workspace)
    assert (flow().state, flow().condition) == ("failed", CONDITION)


def test_a_workspace_that_is_away_keeps_its_rows_and_says_why(api: Api, workspace: Workspace) -> None:
    api.add("p1", "shop").run("u1", {ORDERS: "COMPLETED"})
    poll(workspace)
    polled_at = workspace.polled_at
    Workspace.objects.update(url="http://127.0.0.1:1")
    poll(workspace)
    assert "cannot be reached" in workspace.poll_error
    assert workspace.polled_at == polled_at
    assert not Pipeline.objects.get().gone
    assert flow().state == "ok"


def test_a_missing_token_is_said_on_the_row(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INVENTORY_TOKEN")
    poll(workspace)
    assert "INVENTORY_TOKEN" in workspace.poll_error


def test_one_broken_pipeline_does_not_hide_the_others(api: Api, workspace: Workspace) -> None:
    api.add("p1", "bad").run("u1", {OTHER: "COMPLETED"})
    api.add("p2", "good").run("u1", {ORDERS: "COMPLETED"})
    api.broken.add("p1")
    poll(workspace)
    assert flow().state == "ok"
    assert workspace.poll_error.startswith("Pipeline bad:")
    api.broken.clear()
    poll(workspace)
    assert workspace.poll_error == ""
    assert Pipeline.objects.count() == 2


def test_a_pipeline_that_vanished_is_gone_and_may_come_back(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    poll(workspace)
    del api.pipelines["p1"]
    poll(workspace)
    assert Pipeline.objects.get().gone
    api.pipelines["p1"] = shop
    poll(workspace)
    assert not Pipeline.objects.get().gone


def test_a_passing_copy_made_by_a_validation_is_not_listed(api: Api, workspace: Workspace) -> None:
    api.add("p1", "shop (validation 1)", tags={"reprise": "validation"})
    poll(workspace)
    assert not Pipeline.objects.exists()


def test_a_flow_that_the_code_no_longer_has_is_forgotten_unless_it_has_a_history(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "FAILED", OTHER: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    poll(workspace)
    Recovery.objects.create(flow=flow(ORDERS), created_by="ada")
    shop.run("u2", {VIEW: "COMPLETED"}, refresh_selection=[VIEW])
    poll(workspace)
    assert Flow.objects.count() == 3
    shop.run("u3", {VIEW: "COMPLETED"})
    poll(workspace)
    assert set(Flow.objects.values_list("name", "state")) == {(ORDERS, "unknown"), (VIEW, "ok")}


def test_two_polls_of_one_workspace_do_not_overlap(api: Api, stub: Stub, workspace: Workspace) -> None:
    with held_elsewhere(only_poll, workspace.pk):
        poll_due_workspace(workspace.pk)
        assert stub.asked == []
    poll_due_workspace(workspace.pk)
    assert stub.paths() == ["GET /api/2.0/pipelines"]


class TestFinding:
    def test_a_pipeline_by_id_or_name_asking_first_when_unknown(self, api: Api, workspace: Workspace) -> None:
        api.add("p1", "shop")
        assert find_pipeline("shop").pipeline_id == "p1"
        assert find_pipeline(" p1 ").name == "shop"

    def test_an_unknown_pipeline_names_the_nearest(self, api: Api, workspace: Workspace) -> None:
        for number, name in enumerate(("shop", "customers", "sales")):
            api.add(f"p{number}", name)
        with refused("not_found", NotFound, names=("custmers", "Did you mean customers")):
            find_pipeline("custmers")

    def test_a_pipeline_made_since_the_last_poll_is_asked_for_once_and_alone(
        self, api: Api, stub: Stub, workspace: Workspace
    ) -> None:
        for number in range(2):
            api.add(f"p{number}", f"shop{number}")
        poll(workspace)
        polled_at = workspace.polled_at
        api.add("p2", "shop2")
        stub.asked.clear()
        assert find_fresh("shop2").pipeline_id == "p2"
        assert stub.paths() == ["GET /api/2.0/pipelines", "GET /api/2.0/pipelines/p2"]
        workspace.refresh_from_db()
        assert workspace.polled_at == polled_at

    def test_no_pipeline_at_all_is_said(self, workspace: Workspace) -> None:
        with refused("no_pipelines", NotFound):
            find_pipeline("x")

    def test_a_workspace_that_is_away_is_said(self, workspace: Workspace) -> None:
        Workspace.objects.update(url="http://127.0.0.1:1")
        with refused("workspace_away", NotFound, names=("here",)):
            find_pipeline("x")

    def test_two_pipelines_of_one_name_list_their_ids(self, api: Api, workspace: Workspace) -> None:
        api.add("p1", "shop")
        api.add("p2", "shop")
        with refused("ambiguous_pipeline", NotFound, names=("2 pipelines", "p1, p2")):
            find_pipeline("shop")

    def test_a_twin_made_since_the_last_poll_is_seen_before_a_change(
        self, api: Api, workspace: Workspace
    ) -> None:
        api.add("p1", "shop")
        poll(workspace)
        api.add("p2", "shop")
        with refused("ambiguous_pipeline", NotFound, names=("2 pipelines", "p1, p2")):
            find_fresh("shop")
        assert find_fresh("p1").pipeline_id == "p1"

    def test_only_the_pipeline_that_is_wanted_is_asked_for_in_detail(
        self, api: Api, stub: Stub, workspace: Workspace
    ) -> None:
        for number in range(5):
            api.add(f"p{number}", f"shop{number}")
        poll(workspace)
        del api.pipelines["p4"]
        stub.asked.clear()
        assert find_fresh("shop2").pipeline_id == "p2"
        assert stub.paths() == ["GET /api/2.0/pipelines", "GET /api/2.0/pipelines/p2"]
        assert set(Pipeline.objects.filter(gone=False).values_list("pipeline_id", flat=True)) == {
            "p0", "p1", "p2", "p3"
        }  # fmt: skip

    def test_a_pipeline_gone_since_the_last_poll_is_not_changed(self, api: Api, workspace: Workspace) -> None:
        api.add("p1", "shop")
        poll(workspace)
        del api.pipelines["p1"]
        with pytest.raises(NotFound, match="no pipeline 'shop'"):
            find_fresh("shop")

    def test_a_pipeline_that_is_gone_is_not_found(self, api: Api, workspace: Workspace) -> None:
        api.add("p1", "shop")
        poll(workspace)
        del api.pipelines["p1"]
        poll(workspace)
        with pytest.raises(NotFound):
            find_pipeline("shop")

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            (ORDERS, ORDERS),
            ("orders_flow", ORDERS),
            ("`main`.`shop`.`orders_flow`", ORDERS),
            ("main.shop.other", OTHER),
            ("other", OTHER),
            (None, ORDERS),
        ],
    )
    def test_a_flow_by_name_part_or_table(
        self, api: Api, workspace: Workspace, text: str | None, name: str
    ) -> None:
        api.add("p1", "shop").run("u1", {ORDERS: "FAILED", OTHER: "COMPLETED"}, "FAILED")
        poll(workspace)
        assert find_flow(find_pipeline("shop"), text).name == name

    @pytest.mark.parametrize(
        ("runs", "text", "says"),
        [
            ({}, "x", "has no flow yet"),
            ({ORDERS: "COMPLETED"}, None, "No flow of shop fails. Name one with --flow: main.shop.orders_flow"),
            ({ORDERS: "FAILED", OTHER: "FAILED"}, None, "2 flows of shop fail"),
            ({ORDERS: "FAILED"}, "order_flow", "Did you mean"),
            ({"a.x.f": "COMPLETED", "a.y.f": "COMPLETED"}, "f", "Use a full name: a.x.f, a.y.f"),
        ],
    )  # fmt: skip
    def test_a_flow_that_cannot_be_told_is_one_sentence(
        self, api: Api, workspace: Workspace, runs: dict[str, str], text: str | None, says: str
    ) -> None:
        shop = api.add("p1", "shop")
        if runs:
            shop.run("u1", runs, "FAILED")
        poll(workspace)
        with pytest.raises(NotFound) as caught:
            find_flow(find_pipeline("shop"), text)
        assert says in caught.value.sentence


def test_a_name_that_moves_the_cursor_is_kept_as_it_is_shown(api: Api, workspace: Workspace) -> None:
    api.add("p1", "\x1b[2Jsh\u202eop")
    poll(workspace)
    assert Pipeline.objects.get().name == r"\x1b[2Jsh\u202eop"
    assert find_pipeline(r"\x1b[2Jsh\u202eop").pipeline_id == "p1"
