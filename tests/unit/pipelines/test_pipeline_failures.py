"""A newest update that failed before or beside its flows: of what state pipeline and flows are, since when, and why."""

from collections.abc import Iterator
from typing import Any

import pytest

from recovery.models import Channel, Flow, Message, Pipeline, Workspace
from recovery.people.roles import Role
from recovery.pipelines.failures import FailurePhase, failure_from
from recovery.pipelines.inventory import refresh
from tests.unit.people.run import run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.api import Pipeline as Shop
from tests.unit.pipelines.stub import serving

pytestmark = pytest.mark.django_db
ORDERS, VIEW = "main.shop.orders_flow", "main.shop.orders"


def raised(kind: str, message: str, file: str = "", line: int = 0) -> dict[str, Any]:
    stack = (
        [{"file_name": "<frozen os>", "line_number": 1}, {"file_name": file, "line_number": line}]
        if file
        else []
    )
    return {"fatal": True, "exceptions": [{"class_name": kind, "message": message, "stack": stack}]}


MISSING_MODULE = raised("ModuleNotFoundError", "nosuch", "/Users/a/shop.py", 3)
MISSING_TABLE = raised(
    "pyspark.errors.AnalysisException", "[TABLE_OR_VIEW_NOT_FOUND] The table `x` is not there."
)
CYCLE = raised(
    "org.apache.spark.sql.pipelines.graph.CircularDependencyException", "Table a depends on b, b on a."
)
NO_COMPUTE = raised("PipelineException", "Quota exceeded: no instances are available in this region.")


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def shop(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    with serving(api) as stub:
        Workspace.objects.create(
            name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="staging"
        )
        yield api.add("p1", "shop")


def poll() -> Pipeline:
    refresh(workspace_id=Workspace.objects.get().pk)
    return Pipeline.objects.get()


def fail_whole(shop: Shop, update: str, error: dict[str, Any] | None = None, state: str = "FAILED") -> None:
    shop.begin(update, {})
    shop.end(update, state, **({"error": error} if error else {}))


@pytest.mark.parametrize(
    ("error", "condition"),
    [
        (MISSING_MODULE, "PIPELINE_CODE_FAILED"),
        (MISSING_TABLE, "TABLE_OR_VIEW_NOT_FOUND"),
        (CYCLE, "PIPELINE_CYCLE"),
        (NO_COMPUTE, "PIPELINE_NO_COMPUTE"),
        (None, "PIPELINE_FAILED"),
    ],
)
def test_an_update_that_fails_before_its_flows_fails_each_of_them(
    shop: Shop, error: dict[str, Any] | None, condition: str
) -> None:
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    fail_whole(shop, "u2", error)
    pipeline = poll()
    failure = failure_from(pipeline.failure)
    assert failure is not None
    assert (pipeline.judged, pipeline.judged_since, failure.phase) == (
        "failed",
        shop.clock,
        FailurePhase.BEFORE,
    )
    assert (failure.update_id, failure.condition) == ("u2", condition)
    assert set(Flow.objects.values_list("state", "failing_since", "failed_update", "condition")) == {
        ("failed", shop.clock, "u2", condition)
    }
    assert Flow.objects.filter(history=["ok", "failed"]).count() == 2


def test_an_update_that_fails_beside_its_flows_fails_those_that_it_did_not_complete(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    shop.begin("u2", {})
    shop.status("u2", ORDERS, "COMPLETED")
    shop.status("u2", VIEW, "QUEUED")
    shop.end("u2", "FAILED", error=NO_COMPUTE)
    assert poll().failure["phase"] == FailurePhase.BESIDE
    assert dict(Flow.objects.values_list("name", "state")) == {ORDERS: "ok", VIEW: "failed"}


def test_a_flow_whose_graph_cannot_be_analysed_fails_the_others_with_it(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    shop.begin("u2", {})
    shop.status("u2", VIEW, "FAILED", error=MISSING_TABLE)
    shop.end("u2", "FAILED")
    assert (poll().failure["phase"], poll().failure["flow"]) == (FailurePhase.BEFORE, VIEW)
    assert set(Flow.objects.values_list("state", "condition")) == {("failed", "TABLE_OR_VIEW_NOT_FOUND")}


def test_a_failure_of_one_flow_leaves_the_others_alone(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    shop.run("u2", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    assert (poll().judged, poll().failure["flow"]) == ("failed", ORDERS)
    assert dict(Flow.objects.values_list("name", "state")) == {ORDERS: "failed", VIEW: "ok"}


def test_a_cancelled_update_is_not_as_it_should_be(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED"})
    shop.begin("u2", {})
    shop.event("u2", "update_progress", {"state": "CANCELED", "cancellation_cause": "USER_ACTION"})
    shop.updates[0]["state"] = "CANCELED"
    pipeline = poll()
    assert (pipeline.judged, pipeline.failure["condition"]) == ("failed", "PIPELINE_CANCELLED")
    assert pipeline.failure["cancelled_by"] == "USER_ACTION"
    assert Flow.objects.get().state == "stopped"


def test_a_completed_update_of_one_flow_ends_a_failure_of_the_code_for_all(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    fail_whole(shop, "u2", MISSING_MODULE)
    poll()
    shop.run("u3", {ORDERS: "COMPLETED", VIEW: "EXCLUDED"}, refresh_selection=[ORDERS])
    pipeline = poll()
    assert (pipeline.judged, pipeline.failure, pipeline.judged_since) == ("ok", {}, shop.clock)
    assert [(f.state, f.error) for f in Flow.objects.all()] == [("ok", []), ("ok", [])]


def test_a_completed_update_of_one_flow_does_not_make_well_a_pipeline_in_which_another_fails(
    shop: Shop,
) -> None:
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    failed_at = poll().judged_since
    shop.run("u2", {ORDERS: "EXCLUDED", VIEW: "COMPLETED"}, refresh_selection=[VIEW])
    pipeline = poll()
    assert (pipeline.judged, pipeline.failure["flow"]) == ("failed", ORDERS)
    assert failed_at is not None
    assert abs((pipeline.judged_since - failed_at).total_seconds()) < 5


def test_a_pipeline_fails_since_its_first_failure_through_cancelled_and_running_updates(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED"})
    fail_whole(shop, "u2", MISSING_MODULE)
    since = poll().judged_since
    fail_whole(shop, "u3", state="CANCELED")
    assert (poll().judged_since, poll().failure["update_id"]) == (since, "u2")
    shop.begin("u4", {})
    running = poll()
    assert (running.judged, running.failure["update_id"]) == ("running", "u2")
    shop.end("u4", "COMPLETED")
    assert (poll().judged, poll().failure) == ("ok", {})


def test_rows_of_before_are_judged_by_what_they_keep(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED"})
    fail_whole(shop, "u2", MISSING_MODULE)
    kept = [{k: v for k, v in u.items() if k not in ("failure", "ended_at")} for u in poll().updates]
    Pipeline.objects.update(updates=kept, judged="", judged_since=None, failure={})
    Flow.objects.update(state="ok", failing_since=None, error=[], condition="", failed_update="")
    assert poll().judged == "failed"
    assert (Flow.objects.get().state, Flow.objects.get().condition) == ("failed", "PIPELINE_CODE_FAILED")


def test_people_are_sent_one_message_of_a_whole_failure_with_its_cause(shop: Shop) -> None:
    Channel.objects.create(
        name="ops", kind="mail", address="ops@example.org", events=["flow.failed", "pipeline.failed"],
        environments=["staging"],
    )  # fmt: skip
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    fail_whole(shop, "u2", MISSING_MODULE)
    poll()
    fail_whole(shop, "u3", MISSING_MODULE)
    pipeline = poll()
    message = Message.objects.get()
    assert (message.event, message.body["link"]) == ("pipeline.failed", f"/pipelines/{pipeline.pk}")
    assert message.body["facts"]["cause"].startswith("ModuleNotFoundError: nosuch")


class TestCommands:
    @pytest.fixture(autouse=True)
    def failed(self, api: Api, shop: Shop) -> None:
        shop.run("u1", {ORDERS: "COMPLETED"})
        fail_whole(shop, "u2", MISSING_MODULE)
        fail_whole(api.add("p2", "flowless"), "v1", MISSING_MODULE)
        api.add("p3", "fine").run("w1", {"main.fine.a": "COMPLETED"})

    def test_flows_lists_pipelines_with_state_since_and_cause(
        self, monkeypatch: pytest.MonkeyPatch, shop: Shop
    ) -> None:
        _, found = run_json(monkeypatch, token_of("ada", Role.VIEWER), "flows")
        by_name = {p["name"]: p for p in found["pipelines"]}
        assert {n: (p["id"], p["workspace"], p["state"]) for n, p in by_name.items()} == {
            "shop": ("p1", "here", "failed"),
            "flowless": ("p2", "here", "failed"),
            "fine": ("p3", "here", "ok"),
        }
        assert by_name["shop"]["since"] == shop.clock.isoformat()
        assert by_name["flowless"]["says"].startswith("ModuleNotFoundError: nosuch")

    def test_failing_lists_flows_and_pipelines_that_are_not_ok(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, found = run_json(monkeypatch, token_of("ada", Role.VIEWER), "flows", "--failing")
        assert [f["flow"] for f in found["flows"]] == [ORDERS]
        assert {p["name"] for p in found["pipelines"]} == {"shop", "flowless"}

    @pytest.mark.parametrize("pipeline", ["shop", "p2"])
    def test_diagnose_of_a_pipeline_is_bad_news(self, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> None:
        code, found = run_json(monkeypatch, token_of("ada", Role.VIEWER), "diagnose", pipeline)
        assert (code, found["state"], found["flow"]) == (1, "failed", None)
        assert found["diagnosis"]["condition"] == "PIPELINE_CODE_FAILED"
        assert found["diagnosis"]["title"].endswith(" shop.py, line 3.")

    def test_diagnose_of_one_of_its_flows_names_the_same_cause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        code, found = run_json(
            monkeypatch, token_of("ada", Role.VIEWER), "diagnose", "shop", "--flow", ORDERS
        )
        assert (code, found["diagnosis"]["condition"]) == (1, "PIPELINE_CODE_FAILED")
