"""A newest update that failed before or beside its flows: of what state pipeline and flows are, since when, and why."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from recovery.health import metrics
from recovery.models import Channel, Flow, Message, Pipeline, Recovery, Workspace
from recovery.people.roles import Role
from recovery.pipelines.alone import health_of
from recovery.pipelines.failures import UNKNOWN_FLOWS, FailurePhase, failure_from, say_health
from recovery.pipelines.inventory import refresh
from tests.unit.people.run import run, run_json, token_of
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


@pytest.mark.parametrize(
    ("error", "state", "named"),
    [
        (MISSING_MODULE, "FAILED", ("ModuleNotFoundError", "nosuch", "shop.py, line 3")),
        (MISSING_TABLE, "FAILED", ("table `x` is not there", "before any flow ran")),
        (CYCLE, "FAILED", ("Table a depends on b, b on a", "before any flow ran")),
        (NO_COMPUTE, "FAILED", ("no instances are available in this region", "before any flow ran")),
        (None, "CANCELED", ("cancelled update u2", "not known")),
    ],
    ids=["import", "missing table", "cycle", "no compute", "cancelled"],
)
def test_the_newest_failure_is_named_in_words_in_the_list(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    error: dict[str, Any] | None,
    state: str,
    named: tuple[str, ...],
) -> None:
    shop.run("u1", {ORDERS: "COMPLETED"})
    fail_whole(shop, "u2", error, state)
    pipeline = poll()
    says = say_health(health_of(pipeline))
    assert [part for part in named if part not in says] == []
    _, out, _ = run(monkeypatch, token_of("ada", Role.VIEWER), "flows", "--failing")
    assert says in out


def test_pipelines_are_counted_by_state_for_the_metrics(shop: Shop, api: Api) -> None:
    shop.run("u1", {ORDERS: "COMPLETED"})
    fail_whole(shop, "u2", MISSING_MODULE)
    api.add("p2", "fine").run("w1", {"main.fine.a": "COMPLETED"})
    api.add("p3", "new")
    refresh(workspace_id=Workspace.objects.get().pk)
    workspace = Workspace.objects.get()
    seen = {"workspace": workspace, "seen_at": timezone.now()}
    Pipeline.objects.create(pipeline_id="p4", name="gone", judged="failed", gone=True, **seen)
    Pipeline.objects.create(pipeline_id="p5", name="unjudged", judged="", **seen)

    (made,) = metrics.measure_pipelines(timezone.now())

    assert made.name == "reprise_pipelines"
    assert {sample.labels["state"]: sample.value for sample in made.samples} == {
        "ok": 1, "failed": 1, "running": 0, "unknown": 2,
    }  # fmt: skip


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


def fail_beside(shop: Shop, update: str) -> None:
    """The driver is lost while ORDERS runs."""
    shop.begin(update, {ORDERS: "APPEND", VIEW: "APPEND"})
    shop.status(update, VIEW, "COMPLETED")
    shop.status(update, ORDERS, "RUNNING")
    shop.end(update, "FAILED", error=NO_COMPUTE)


def run_of_view(shop: Shop, update: str) -> None:
    shop.run(update, {ORDERS: "EXCLUDED", VIEW: "COMPLETED"}, refresh_selection=[VIEW])


def cancelled(shop: Shop, update: str) -> None:
    shop.run(update, {ORDERS: "STOPPED", VIEW: "STOPPED"}, "CANCELED")


def after_a_failure_of_analysis(shop: Shop, update: str) -> None:
    shop.run(update, {ORDERS: "SKIPPED", VIEW: "FAILED"}, "FAILED")
    shop.run(f"{update}b", {ORDERS: "EXCLUDED", VIEW: "COMPLETED"}, refresh_selection=[VIEW])


WHY = ("state", "failing_since", "failed_update", "condition", "error")
# How many updates have come since: around the limits of what a poll reads of them.
ASKED_AFTER = (1, 4, 5, 6, 16)


@pytest.mark.parametrize("ran", [run_of_view, cancelled, after_a_failure_of_analysis])
@pytest.mark.parametrize("failed", [lambda shop: shop.run("u1", {ORDERS: "FAILED"}, "FAILED"), fail_beside])
def test_a_flow_fails_with_its_cause_until_an_update_completes_it(
    shop: Shop, failed: Callable[..., None], ran: Callable[[Shop, str], None]
) -> None:
    shop.run("u0", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    failed(shop, *(["u1"] if failed is fail_beside else []))
    first = poll()
    why = Flow.objects.values(*WHY).get(name=ORDERS)
    assert (why["state"], why["failed_update"]) == ("failed", "u1")
    for number in range(1, max(ASKED_AFTER) + 1):
        ran(shop, f"v{number}")
        shop.updates = shop.updates[:15]
        poll()
        if number not in ASKED_AFTER:
            continue
        pipeline = poll()
        assert Flow.objects.values(*WHY).get(name=ORDERS) == why, number
        assert (pipeline.judged, pipeline.judged_since, pipeline.failure["update_id"]) == (
            "failed", first.judged_since, "u1",
        ), number  # fmt: skip
        with undone(shop):
            shop.run("w", {ORDERS: "COMPLETED", VIEW: "EXCLUDED"}, full_refresh_selection=[ORDERS])
            assert (poll().judged, poll().failing_since) == ("ok", None), number
            memory = Flow.objects.values_list(*WHY, "failure_memory").get(name=ORDERS)
            assert memory == ("ok", None, "", "", [], {}), number


@contextmanager
def undone(shop: Shop) -> Iterator[None]:
    """What the pipeline does within, and what is recorded of it, is undone at its end."""
    before = deepcopy(vars(shop))
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    vars(shop).update(before)


@pytest.mark.parametrize(
    ("continuous", "rows", "found"),
    [(True, True, "stopped"), (True, False, "failed"), (False, True, "failed")],
)
def test_a_flow_of_a_continuous_pipeline_is_well_once_it_committed_a_batch(
    shop: Shop, continuous: bool, rows: bool, found: str
) -> None:
    """No update of it ever completes: it ends when it is stopped."""
    shop.spec = {"continuous": continuous}
    shop.run("u1", {ORDERS: "FAILED", VIEW: "STOPPED"}, "FAILED")
    poll()
    for number in range(6):
        shop.begin(f"v{number}", {ORDERS: "APPEND"})
        shop.status(f"v{number}", ORDERS, "RUNNING")
        if rows:
            shop.batch(f"v{number}", ORDERS, number)
        poll()
        shop.status(f"v{number}", ORDERS, "STOPPED")
        shop.end(f"v{number}", "CANCELED")
        poll()
        assert Flow.objects.get(name=ORDERS).state == found


def test_a_flow_of_which_a_recovery_tells_does_not_fail_once_the_code_has_it_no_more(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    poll()
    Recovery.objects.create(flow=Flow.objects.get(name=ORDERS), created_by="ann", owner="ann", active=False)
    shop.run("u2", {VIEW: "COMPLETED"})
    poll()
    for number in range(6):
        fail_whole(shop, f"v{number}", MISSING_MODULE)
        poll()
    flow = Flow.objects.get(name=ORDERS)
    assert (flow.state, flow.failing_since, flow.failure_memory) == ("unknown", None, {})


def test_a_flow_fails_through_updates_that_run(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    first = poll()
    for number in range(6):
        shop.begin(f"v{number}", {ORDERS: "APPEND"})
        shop.status(f"v{number}", ORDERS, "RUNNING")
        running = poll()
        assert (running.judged, running.failure["update_id"]) == ("running", "u1")
        shop.end(f"v{number}", "CANCELED")
        assert (poll().judged_since, Flow.objects.get(name=ORDERS).state) == (first.judged_since, "failed")


def test_a_failure_of_the_code_lasts_through_any_number_of_cancelled_updates(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    fail_whole(shop, "u2", MISSING_MODULE)
    first = poll()
    for number in range(6):
        fail_whole(shop, f"v{number}", state="CANCELED")
        assert (poll().failure, poll().judged_since) == (first.failure, first.judged_since)
        assert set(Flow.objects.values_list("state", "condition")) == {("failed", "PIPELINE_CODE_FAILED")}
    run_of_view(shop, "w")
    assert poll().judged == "ok"
    assert [(f.state, f.failure_memory) for f in Flow.objects.all()] == [("ok", {}), ("ok", {})]


def test_a_pipeline_without_flows_fails_since_its_first_failure(shop: Shop) -> None:
    fail_whole(shop, "u1", MISSING_MODULE)
    first = poll()
    for number in range(6):
        shop.begin(f"v{number}", {})
        poll()
        shop.end(f"v{number}", "CANCELED")
    assert (poll().failure, poll().judged_since) == (first.failure, first.judged_since)


def test_beneath_a_failure_of_the_code_a_flow_keeps_its_own(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    poll()
    why = Flow.objects.values(*WHY).get(name=ORDERS)
    fail_whole(shop, "u2", MISSING_MODULE)
    poll()
    flow = Flow.objects.get(name=ORDERS)
    assert (flow.failed_update, flow.failing_since) == ("u2", why["failing_since"])
    for number in range(6):
        run_of_view(shop, f"v{number}")
        poll()
    assert Flow.objects.values(*WHY).get(name=ORDERS) == why


@pytest.mark.parametrize("later", [0, 1])
def test_a_flow_that_the_code_has_no_more_does_not_fail(shop: Shop, later: int) -> None:
    """Also where a later update is read at the same look."""
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    poll()
    shop.run("u2", {VIEW: "COMPLETED"})
    for number in range(later):
        shop.run(f"v{number}", {VIEW: "COMPLETED"}, refresh_selection=[VIEW])
    assert (poll().judged, Flow.objects.filter(state="failed").count()) == ("ok", 0)


@pytest.mark.parametrize(
    ("status", "state", "found"), [("COMPLETED", "COMPLETED", "ok"), ("FAILED", "FAILED", "failed")]
)
def test_what_ran_between_two_looks_is_read_however_many_have_run_since(
    shop: Shop, status: str, state: str, found: str
) -> None:
    before = "FAILED" if found == "ok" else "COMPLETED"
    shop.run("u1", {ORDERS: before, VIEW: "COMPLETED"}, before)
    poll()
    shop.run("u2", {ORDERS: status, VIEW: "COMPLETED"}, state)
    for number in range(8):
        run_of_view(shop, f"v{number}")
    poll()
    assert Flow.objects.get(name=ORDERS).state == found
    assert Pipeline.objects.get().judged == found


@pytest.mark.parametrize("status", ["FAILED", "COMPLETED"])
def test_a_flow_that_is_seen_first_is_looked_for_in_older_updates(shop: Shop, status: str) -> None:
    shop.run("u1", {ORDERS: status, VIEW: "COMPLETED"}, status)
    for number in range(10):
        run_of_view(shop, f"v{number}")
    pipeline = poll()
    found = {"FAILED": "failed", "COMPLETED": "ok"}[status]
    assert (Flow.objects.get(name=ORDERS).state, pipeline.judged) == (found, found)


def test_a_pipeline_is_not_well_while_it_is_not_known_how_a_flow_is(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    for number in range(30):
        run_of_view(shop, f"v{number}")
    pipeline = poll()
    assert (Flow.objects.get(name=ORDERS).state, Flow.objects.get(name=VIEW).state) == ("unknown", "ok")
    assert pipeline.judged == "unknown"
    assert say_health(health_of(pipeline)) == UNKNOWN_FLOWS

    shop.run("u2", {ORDERS: "COMPLETED"}, refresh_selection=["orders_flow"])
    assert poll().judged == "ok"


def test_a_flow_that_an_older_version_left_unknown_is_looked_for_once(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    for number in range(7):
        run_of_view(shop, f"v{number}")
    poll()
    held = Pipeline.objects.get().updates
    unread = [{k: u[k] for k in ("update_id", "state", "creation_time")} for u in held[5:]]
    Pipeline.objects.update(
        updates=[*held[:5], *unread], heads="", judged="ok", failure={}, failing_since=None
    )
    Flow.objects.filter(name=ORDERS).update(
        state="unknown", failure_memory={}, failing_since=None, failed_update=""
    )
    assert poll().judged == "failed"
    assert Flow.objects.get(name=ORDERS).state == "failed"


def test_rows_of_before_fail_by_what_they_show(shop: Shop) -> None:
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    poll()
    Flow.objects.update(failure_memory={})
    why = Flow.objects.values(*WHY).get(name=ORDERS)
    for number in range(6):
        run_of_view(shop, f"v{number}")
    Pipeline.objects.update(updates=[], heads="")
    shop.updates = shop.updates[:5]
    assert poll().judged == "failed"
    assert Flow.objects.values(*WHY).get(name=ORDERS) == why


@pytest.mark.parametrize("ran", [run_of_view, cancelled])
def test_people_are_sent_one_message_of_a_flow_that_goes_on_failing(
    shop: Shop, ran: Callable[[Shop, str], None]
) -> None:
    Channel.objects.create(
        name="ops", kind="mail", address="ops@example.org", events=["flow.failed", "pipeline.failed"],
        environments=["staging"],
    )  # fmt: skip
    shop.run("u1", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    poll()
    for number in range(6):
        ran(shop, f"v{number}")
        poll()
    shop.run("w", {ORDERS: "FAILED", VIEW: "COMPLETED"}, "FAILED")
    poll()
    assert [m.event for m in Message.objects.all()] == ["flow.failed"]


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

    def test_failing_lists_a_flow_after_any_number_of_updates_of_others(
        self, monkeypatch: pytest.MonkeyPatch, api: Api
    ) -> None:
        fine = api.pipelines["p3"]
        fine.run("w2", {"main.fine.a": "FAILED", "main.fine.b": "COMPLETED"}, "FAILED")
        for number in range(6):
            refresh(workspace_id=Workspace.objects.get().pk)
            fine.run(
                f"x{number}", {"main.fine.a": "EXCLUDED", "main.fine.b": "COMPLETED"}, refresh_selection=["b"]
            )
        _, found = run_json(monkeypatch, token_of("ada", Role.VIEWER), "flows", "--failing")
        assert [(f["flow"], f["failed_update"]) for f in found["flows"] if f["flow"] != ORDERS] == [
            ("main.fine.a", "w2")
        ]

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


def progress_of(shop: Shop, update: str, **ids: str) -> None:
    """An update in which each flow commits a batch under its query id."""
    shop.begin(update, {ORDERS: "APPEND", VIEW: "APPEND"})
    for flow, name in ((ORDERS, "orders"), (VIEW, "view")):
        shop.event(
            update, "stream_progress", {"progress_json": json.dumps({"id": ids[name], "batchId": 3})}, flow
        )
        shop.status(update, flow, "COMPLETED")
    shop.end(update, "COMPLETED")


def test_flows_that_run_under_one_query_id_fail_until_each_has_its_own(shop: Shop) -> None:
    progress_of(shop, "u1", orders="q-1", view="q-2")
    assert poll().judged == "ok"
    progress_of(shop, "u2", orders="q-1", view="q-1")
    assert poll().judged == "failed"
    found = {f.name: (f.state, f.condition) for f in Flow.objects.all()}
    assert found == {ORDERS: ("failed", "QUERY_ID_SHARED"), VIEW: ("failed", "QUERY_ID_SHARED")}
    since = Flow.objects.get(name=VIEW).failing_since
    progress_of(shop, "u3", orders="q-1", view="q-1")
    poll()
    assert since is not None
    assert Flow.objects.get(name=VIEW).failing_since == since
    progress_of(shop, "u4", orders="q-1", view="q-3")
    assert poll().judged == "ok"
    assert set(Flow.objects.values_list("state", "condition")) == {("ok", "")}


@pytest.mark.parametrize(
    ("states", "named", "more"),
    [
        ({"view": "empty"}, ["view is empty"], 0),
        (dict.fromkeys("abcde", "stale"), ["a is stale", "b is stale", "c is stale"], 2),
    ],
)
def test_the_command_says_of_a_pipeline_which_of_its_datasets_are_behind(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, states: dict[str, str], named: list[str], more: int
) -> None:
    shop.run("u1", dict.fromkeys((f"main.shop.{name}" for name in states), "COMPLETED"))
    poll()
    for name, state in states.items():
        Flow.objects.filter(short=name).update(state=state, behind_why="renewed")
    _, found = run_json(monkeypatch, token_of("ada", Role.VIEWER), "flows")
    (pipeline,) = found["pipelines"]
    assert pipeline["state"] == "ok"
    assert all(text in pipeline["says"] for text in named)
    assert (f"{more} more" in pipeline["says"]) is bool(more)
