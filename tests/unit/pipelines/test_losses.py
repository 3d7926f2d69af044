"""Rows that a file table passed over while every update completed: such a flow is never ok."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from recovery.models import Flow, Listed, Pipeline, Plan, Recovery, Step, Workspace
from recovery.people.roles import Role
from recovery.pipelines.asking import BACK, UPDATES
from recovery.pipelines.inventory import refresh
from recovery.workflow.doubting import doubts_of
from tests.factories.plans import plan_body
from tests.unit.people.run import run_json, token_of
from tests.unit.pipelines.api import START, Api
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
    tables: dict[str, str] | None = None,
    sinks: dict[str, str] | None = None,
    query: str = "",
    sources: list[dict[str, Any]] | None = None,
    is_over: bool = True,
    **info: object,
) -> None:
    """An update whose flows run these batches into one table, or into `tables`; no numbers: an idle look."""
    shop.begin(update, {}, **info)
    for flow in numbers:
        told = {
            "output_dataset": (tables or {}).get(flow, TABLE),
            "input_datasets": [],
            "flow_type": "APPEND",
            "once": False,
        }
        shop.event(update, "flow_definition", told, flow)
    if info.get("full_refresh_selection"):
        shop.event(update, "x_reprise_emptied", {"datasets": [TABLE]})
    for flow, batches in numbers.items():
        for batch in batches:
            into = {"description": (sinks or {}).get(flow, sink)}
            body = {
                "id": query,
                "batchId": batch,
                "numInputRows": rows,
                "sources": sources or [],
                "sink": into,
            }
            shop.event(update, "stream_progress", {"progress_json": json.dumps(body)}, flow)
        shop.status(update, flow, "COMPLETED" if is_over else "RUNNING")
    if is_over:
        shop.end(update, "COMPLETED")


def seen(workspace: Workspace, name: str = ONE) -> tuple[str, str]:
    refresh(workspace_id=workspace.pk)
    flow = Flow.objects.get(name=name)
    return flow.state, flow.condition


LOST, FINE, UNREAD = ("failed", "SINK_PASSED_OVER"), ("ok", ""), ("unknown", "SINK_NOT_READ")


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


def opened(flow: str, *, next_batch: int, head: int | None, result: dict[str, object]) -> Step:
    """An open recovery of a flow, with the rerun step of its sealed plan."""
    recovery = Recovery.objects.create(flow=Flow.objects.get(name=flow), created_by="ann", owner="ann")
    Recovery.objects.filter(pk=recovery.pk).update(created_at=START)
    body = plan_body(
        numbering={"next_batch": next_batch, "query_id": "kept"},
        preconditions={"sink": {"head": head, "fingerprint": ""}},
    )
    plan = Plan.objects.create(recovery=recovery, hash=f"{recovery.pk:064x}", body=body, sealed_by="ann")
    return Step.objects.create(
        recovery=recovery,
        plan=plan,
        ordinal=1,
        kind="rerun",
        idempotency_key=f"k{recovery.pk}",
        result=result,
    )


OTHER = "FileSink[file:/tables/other]"


def test_an_open_recovery_of_one_flow_hides_no_loss_of_another(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1], TWO: [0, 1]}, tables={TWO: "main.shop.other"}, sinks={TWO: OTHER})
    seen(workspace)
    opened(ONE, next_batch=1, head=1, result={"update_id": "u2", "updates": ["u2"]})
    run(shop, "u2", {ONE: [1], TWO: [0]}, tables={TWO: "main.shop.other"}, sinks={TWO: OTHER})
    assert (seen(workspace), seen(workspace, TWO)) == (FINE, LOST)


@pytest.mark.parametrize(
    ("next_batch", "head", "numbers", "found"),
    [
        (2, 2, [2], FINE),  # the planned batch is in the table already, and run again
        (3, 2, [3], FINE),
        (3, 2, [1], LOST),  # not from where the plan lets it go on
        (0, None, [0], FINE),  # the table was made again before the seal: its log has no number
    ],
)
def test_a_recovery_s_own_update_is_lawful_as_far_as_its_plan_says(
    api: Api,
    workspace: Workspace,
    next_batch: int,
    head: int | None,
    numbers: list[int],
    found: tuple[str, str],
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1, 2]})
    seen(workspace)
    opened(ONE, next_batch=next_batch, head=head, result={"updates": ["u2"], "update_id": "u2"})
    run(shop, "u2", {ONE: numbers})
    assert seen(workspace) == found
    run(shop, "u3", {ONE: [numbers[-1] + 1]})
    assert seen(workspace) == found


@pytest.mark.parametrize("active", [True, False])
def test_an_update_that_no_step_of_the_recovery_started_is_judged_as_ever(
    api: Api, workspace: Workspace, active: bool
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1, 2]})
    seen(workspace)
    step = opened(ONE, next_batch=2, head=2, result={"updates": ["u2"], "update_id": "u2"})
    run(shop, "u2", {ONE: [2]})
    assert seen(workspace) == FINE
    ended = None if active else shop.clock
    Recovery.objects.filter(pk=step.recovery_id).update(active=active, ended_at=ended)
    run(shop, "u3", {ONE: [0]})
    assert seen(workspace) == LOST


def test_an_update_that_may_be_the_step_s_own_is_not_judged_before_that_is_noted(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1, 2]})
    seen(workspace)
    step = opened(ONE, next_batch=2, head=2, result={"newest_before": "u1"})
    Step.objects.filter(pk=step.pk).update(state="unknown")
    run(shop, "u2", {ONE: [2]})
    assert seen(workspace) == UNREAD
    Step.objects.filter(pk=step.pk).update(state="done", result={"updates": ["u2"], "update_id": "u2"})
    run(shop, "u3", {ONE: [3]})
    assert seen(workspace) == FINE


@pytest.mark.parametrize(("first", "found"), [(0, LOST), (2, FINE)])
@pytest.mark.parametrize("many", [6, 12, 40])
def test_updates_that_ran_between_two_polls_are_read_back(
    api: Api, workspace: Workspace, many: int, first: int, found: tuple[str, str]
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]})
    assert seen(workspace) == FINE
    for number in range(many):
        run(shop, f"v{number}", {ONE: [first + number]})
    polls = max(1, math.ceil((many - UPDATES) / BACK))  # of the newest ones all are read at the first
    until = UNREAD if found == FINE else found
    assert [seen(workspace) for _ in range(polls)] == [until] * (polls - 1) + [found]


def test_the_first_look_reads_every_update_in_sight_of_a_flow_into_a_file_table(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1, 2]})
    run(shop, "u2", {ONE: [0]})
    for number in range(3, 12):
        run(shop, f"u{number}", {ONE: [number]})
    assert seen(workspace) == LOST


@pytest.mark.parametrize("full", [False, True])
def test_what_the_api_tells_of_no_more_is_not_known_until_a_full_refresh(
    api: Api, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]})
    assert seen(workspace) == FINE
    for number in range(2, 20):
        run(shop, f"u{number}", {ONE: [number]})
    shop.updates = shop.updates[:8]
    assert seen(workspace) == UNREAD
    run(shop, "u20", {ONE: [20]})
    assert seen(workspace) == UNREAD
    assert (Flow.objects.get().failing_since, Listed.objects.get().state) == (None, "unknown")
    _, told = run_json(monkeypatch, token_of("ada", Role.VIEWER), "diagnose", "p1", "--flow", ONE)
    assert told["diagnosis"]["condition"] == "SINK_NOT_READ"
    run(shop, "u21", {ONE: [0]}, **({"full_refresh_selection": [TABLE]} if full else {}))
    assert seen(workspace) == (FINE if full else LOST)


def test_an_update_that_was_counted_and_is_told_of_no_more_has_none_before_it_counted_again(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    for update, numbers in (("u1", [0, 1]), ("u2", [2])):
        run(shop, update, {ONE: numbers})
    assert seen(workspace) == FINE
    shop.updates = [u for u in shop.updates if u["update_id"] != "u2"]
    run(shop, "u3", {ONE: [3]})
    assert seen(workspace)[1] != "SINK_PASSED_OVER"


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


def test_a_failure_shows_over_lost_rows_until_an_update_completes_the_flow(
    api: Api, workspace: Workspace
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]})
    run(shop, "u2", {ONE: [0]})
    assert seen(workspace) == LOST
    shop.run("u3", {ONE: "FAILED"}, "FAILED")
    failed, condition = seen(workspace)
    for number in range(6):
        shop.begin(f"v{number}", {ONE: "APPEND"})
        shop.status(f"v{number}", ONE, "RUNNING")
        assert seen(workspace) == ("running", condition)
        shop.end(f"v{number}", "CANCELED")
        assert seen(workspace) == (failed, condition)
    run(shop, "w", {ONE: []})
    assert seen(workspace) == LOST


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


def test_a_delta_table_skips_numbers_that_one_query_begins_again(api: Api, workspace: Workspace) -> None:
    """Its checkpoint lost offsets and commits, and kept its id: each update completed, and wrote nothing."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    assert seen(workspace) == FINE
    run(shop, "u2", {ONE: [2]}, sink=DELTA, query="q-1")
    assert seen(workspace) == FINE
    run(shop, "u3", {ONE: [0]}, sink=DELTA, query="q-1")
    assert seen(workspace) == LOST
    for number in range(UPDATES + 2):  # longer than updates are kept
        run(shop, f"v{number}", {ONE: [3 + number]}, sink=DELTA, query="q-1")
        seen(workspace)
    assert seen(workspace) == LOST
    run(shop, "w", {ONE: [0]}, sink=DELTA, query="q-2", full_refresh_selection=[TABLE])
    assert seen(workspace) == FINE


@pytest.mark.parametrize(
    ("numbers", "rows", "sink", "query"),
    [
        ([0], 10, DELTA, "q-2"),  # a new checkpoint has an id of its own
        ([0], 0, DELTA, "q-1"),
        ([2], 10, DELTA, "q-1"),
        ([0], 10, "DeltaSink[/tables/new]", "q-1"),
    ],
)
def test_a_delta_table_takes_what_it_has_not_had(
    api: Api, workspace: Workspace, numbers: list[int], rows: int, sink: str, query: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    seen(workspace)
    run(shop, "u2", {ONE: numbers}, rows=rows, sink=sink, query=query)
    assert seen(workspace) == FINE


def span(start: object, end: object) -> list[dict[str, Any]]:
    """What a batch was to read, as Spark's progress says it."""
    return [{"startOffset": start, "endOffset": end}]


@pytest.mark.parametrize("sink", [FILES, DELTA])
@pytest.mark.parametrize(
    ("number", "read", "state"),
    [
        (0, span(None, {"v": 9}), "failed"),
        (1, span({"v": 2}, {"v": 9}), "failed"),
        (1, span({"v": 1}, {"v": 2}), "ok"),  # its commit was lost: the table has these rows
        (0, span({"v": 9}, {"v": 9}), "ok"),  # nothing new
        (2, span({"v": 2}, {"v": 3}), "ok"),
    ],
)
def test_a_batch_that_a_table_skips_reads_no_row_while_its_offsets_go_on(
    api: Api, workspace: Workspace, sink: str, number: int, read: list[dict[str, Any]], state: str
) -> None:
    """As Spark 4.2 says it: `numInputRows` is 0 then, as nothing was computed."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0]}, sink=sink, query="q-1", sources=span(None, {"v": 1}))
    run(shop, "u2", {ONE: [1]}, sink=sink, query="q-1", sources=span({"v": 1}, {"v": 2}))
    assert seen(workspace) == FINE
    run(shop, "u3", {ONE: [number]}, rows=0, sink=sink, query="q-1", sources=read)
    assert seen(workspace)[0] == state


@pytest.mark.parametrize("sink", [FILES, DELTA])
def test_the_newest_number_of_files_may_be_of_other_files(api: Api, workspace: Workspace, sink: str) -> None:
    """`logOffset` counts entries of the source's log, which a checkpoint that was put back writes again."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0]}, sink=sink, query="q-1", sources=span(None, {"logOffset": 0}))
    run(shop, "u2", {ONE: [1]}, sink=sink, query="q-1", sources=span({"logOffset": 0}, {"logOffset": 1}))
    assert seen(workspace) == FINE
    again = span({"logOffset": 0}, {"logOffset": 1})
    run(shop, "u3", {ONE: [1]}, rows=0, sink=sink, query="q-1", sources=again)
    assert seen(workspace)[0] == "failed"


def test_a_table_of_files_skips_the_number_whichever_query_it_is_of(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0]}, sink=FILES, query="q-1", sources=span(None, {"v": 1}))
    assert seen(workspace) == FINE
    run(shop, "u2", {ONE: [0]}, rows=0, sink=FILES, query="q-2", sources=span(None, {"v": 1}))
    assert seen(workspace)[0] == "failed"


FUNCTION, TOPIC = "ForeachBatchSink", "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1f2e"
DOUBT = "read-again"


def doubt(workspace: Workspace) -> str:
    refresh(workspace_id=workspace.pk)
    flow = Flow.objects.get(name=ONE)
    [told] = [d.code.value for d in doubts_of([flow.pk], timezone.now()).values()] or [""]
    assert told == flow.table_doubt
    assert Listed.objects.get(flow=flow).doubt == told
    return told


@pytest.mark.parametrize("sink", [DELTA, FUNCTION, TOPIC])
def test_a_query_that_began_again_beside_the_rows_of_before_is_in_doubt_until_a_full_refresh(
    api: Api, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, sink: str
) -> None:
    """Somebody removed the checkpoint, and every update completed: what was read again is there twice."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    assert doubt(workspace) == ""
    run(shop, "u2", {ONE: [0]}, sink=sink.replace("@1f2e", "@7a0b"), query="q-2")
    assert doubt(workspace) == DOUBT
    token = token_of("ada", Role.VIEWER)
    code, told = run_json(monkeypatch, token, "flows", "--failing")
    assert code == 0
    assert [f["doubt"]["code"] for f in told["flows"]] == [DOUBT]
    for number in range(UPDATES + 2):  # longer than updates are kept
        run(shop, f"v{number}", {ONE: [1 + number]}, sink=sink, query="q-2")
        doubt(workspace)
    assert doubt(workspace) == DOUBT
    run(shop, "w", {ONE: [0]}, sink=sink, query="q-3", full_refresh_selection=[TABLE])
    assert doubt(workspace) == ""


@pytest.mark.parametrize(
    ("first", "sink", "query", "rows", "expected"),
    [
        (2, DELTA, "q-2", 10, ""),
        (0, "DeltaSink[/tables/new]", "q-2", 10, ""),
        (0, DELTA, "q-2", 0, ""),
        (0, FUNCTION, "q-2", 10, DOUBT),
        (0, "DeltaSink[file:///tables/res]", "q-2", 10, DOUBT),
        (7, DELTA, "q-2", 10, DOUBT),
        (0, DELTA, "q-2", 10, DOUBT),
    ],
    ids=[
        "it goes on",
        "another table",
        "it read nothing",
        "a function",
        "another spelling",
        "its start was not seen",
        "from its start",
    ],
)
def test_a_query_is_in_doubt_only_where_it_began_again_in_the_same_table(
    api: Api, workspace: Workspace, first: int, sink: str, query: str, rows: int, expected: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    doubt(workspace)
    run(shop, "u2", {ONE: [first]}, sink=sink, query=query, rows=rows)
    assert doubt(workspace) == expected


def test_a_query_that_comes_back_from_another_table_began_again(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    run(shop, "u2", {ONE: [0]}, sink="DeltaSink[/tables/trial]", query="q-2")
    assert doubt(workspace) == ""
    run(shop, "u3", {ONE: [0]}, sink=DELTA, query="q-3")
    assert doubt(workspace) == DOUBT


@pytest.mark.parametrize(("first", "query", "found"), [(7, "q-2", LOST), (3, "q-2", FINE), (7, "q-1", FINE)])
def test_a_file_table_passed_over_the_first_batches_of_another_query_though_no_poll_saw_them(
    api: Api, workspace: Workspace, first: int, query: str, found: tuple[str, str]
) -> None:
    """Numbers that go straight on are those of a checkpoint whose id somebody removed."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1, 2]}, sink=FILES, query="q-1")
    assert seen(workspace) == FINE
    run(shop, "u2", {ONE: [first]}, sink=FILES, query=query)
    assert seen(workspace) == found


@pytest.mark.parametrize(
    ("number", "read", "expected"),
    [
        (0, span(None, {"v": 9}), DOUBT),
        (1, span({"v": 1}, {"v": 2}), ""),
        (2, span({"v": 2}, {"v": 3}), ""),
    ],
    ids=["numbers begin again", "the newest once more", "the next"],
)
def test_a_function_takes_the_numbers_that_the_same_query_begins_again(
    api: Api, workspace: Workspace, number: int, read: list[dict[str, Any]], expected: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [1]}, sink=FUNCTION, query="q-1", sources=span({"v": 1}, {"v": 2}))
    assert doubt(workspace) == ""
    run(shop, "u2", {ONE: [number]}, sink=FUNCTION, query="q-1", sources=read)
    assert doubt(workspace) == expected


def test_what_a_recovery_reads_again_is_as_planned(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    doubt(workspace)
    opened(ONE, next_batch=0, head=None, result={"update_id": "u2", "updates": ["u2"]})
    run(shop, "u2", {ONE: [0]}, sink=DELTA, query="q-2")
    run(shop, "u3", {ONE: [1]}, sink=DELTA, query="q-2")
    assert doubt(workspace) == ""
    run(shop, "u4", {ONE: [0]}, sink=DELTA, query="q-3")
    assert doubt(workspace) == DOUBT


@pytest.mark.parametrize(
    ("sink", "running", "over"),
    [
        (FILES, (("running", "SINK_PASSED_OVER"), "rows-lost"), LOST),
        (DELTA, (("running", ""), DOUBT), FINE),
    ],
)
def test_what_an_update_does_is_seen_while_it_runs(
    api: Api, workspace: Workspace, sink: str, running: tuple[tuple[str, str], str], over: tuple[str, str]
) -> None:
    """A stream may run for weeks after somebody removed its checkpoint."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    assert doubt(workspace) == ""
    run(shop, "u2", {ONE: [0]}, sink=sink, query="q-2", is_over=False)
    for _ in range(3):
        assert (seen(workspace), doubt(workspace)) == running
    shop.status("u2", ONE, "COMPLETED")
    shop.end("u2", "COMPLETED")
    assert seen(workspace) == over
    run(shop, "u3", {ONE: [1]}, sink=sink, query="q-2", is_over=False)
    assert (seen(workspace), doubt(workspace)) == running


@pytest.mark.parametrize("sink", [FILES, DELTA])
def test_a_full_refresh_that_runs_and_a_run_that_goes_on_are_in_no_doubt(
    api: Api, workspace: Workspace, sink: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    run(shop, "u2", {ONE: [2]}, sink=sink, query="q-1", is_over=False)
    assert (seen(workspace), doubt(workspace)) == (("running", ""), "")
    shop.status("u2", ONE, "COMPLETED")
    shop.end("u2", "COMPLETED")
    run(shop, "u3", {ONE: [0]}, sink=sink, query="q-2", is_over=False, full_refresh=True)
    assert (seen(workspace), doubt(workspace)) == (("running", ""), "")


@pytest.mark.parametrize("sink", [FILES, DELTA])
def test_a_loss_that_a_proof_has_counted_is_no_failure_until_numbers_begin_again_once_more(
    api: Api, workspace: Workspace, sink: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    run(shop, "u2", {ONE: [0]}, sink=sink, query="q-1")
    assert seen(workspace) == LOST
    flow = Flow.objects.get()
    flow.sink_memory["loss"]["settled_by"] = 7
    flow.save()
    run(shop, "u3", {ONE: [2]}, sink=sink, query="q-1")
    assert (seen(workspace), seen(workspace)) == (FINE, FINE)
    run(shop, "u4", {ONE: [1]}, sink=sink, query="q-1")
    assert seen(workspace) == LOST


def test_an_update_that_was_taken_for_cancelled_is_read_again_once_it_ended_well(
    api: Api, workspace: Workspace
) -> None:
    """As of a plain stream whose log did not grow for long, and went on."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0]}, sink=DELTA, query="q-1")
    shop.updates[0]["state"] = "CANCELED"
    seen(workspace)
    assert Pipeline.objects.get().judged == "failed"
    shop.updates[0]["state"] = "COMPLETED"
    assert seen(workspace) == FINE
    assert Pipeline.objects.get().judged == "ok"


def test_a_second_skip_is_seen_though_a_proof_has_counted_the_first(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    for update, number in (("u1", 2), ("u2", 0)):
        run(shop, update, {ONE: [number]}, sink=DELTA, query="q-1")
    assert seen(workspace) == LOST
    flow = Flow.objects.get()
    flow.sink_memory["loss"]["settled_by"] = 7
    flow.save()
    run(shop, "u3", {ONE: [1]}, sink=DELTA, query="q-1")
    assert seen(workspace) == LOST


@pytest.mark.parametrize("sink", [FILES, DELTA, FUNCTION])
def test_a_full_refresh_that_did_not_end_well_has_emptied_the_table(
    api: Api, workspace: Workspace, sink: str
) -> None:
    """As of a continuous pipeline that somebody stops, of a service that has no word for what it emptied."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    doubt(workspace)
    run(shop, "u2", {ONE: [0]}, sink=sink, query="q-2", is_over=False, full_refresh=True)
    doubt(workspace)
    shop.status("u2", ONE, "STOPPED")
    shop.end("u2", "CANCELED")
    doubt(workspace)
    run(shop, "u3", {ONE: [1]}, sink=sink, query="q-2")
    assert (seen(workspace), doubt(workspace)) == (FINE, "")


def test_a_recovery_without_input_leaves_its_query_to_the_next_update(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    doubt(workspace)
    opened(ONE, next_batch=0, head=None, result={"update_id": "u2", "updates": ["u2"]})
    run(shop, "u2", {ONE: []}, sink=DELTA, query="q-2")
    run(shop, "u3", {ONE: [0]}, sink=DELTA, query="q-2")
    assert doubt(workspace) == ""


@pytest.mark.parametrize("sink", [FILES, DELTA])
def test_numbers_that_begin_again_are_seen_after_an_idle_update(
    api: Api, workspace: Workspace, sink: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [5]}, sink=sink, query="q-1")
    seen(workspace)
    run(shop, "u2", {ONE: []}, sink=sink, query="q-1")
    seen(workspace)
    run(shop, "u3", {ONE: [2]}, sink=sink, query="q-1")
    assert seen(workspace) == LOST


def test_plans_that_run_together_share_an_update_and_each_is_as_planned(
    api: Api, workspace: Workspace
) -> None:
    """A query that goes on under another id, behind a batch without input."""
    shop = api.add("p1", "shop")
    into = {"tables": {TWO: "main.shop.other"}, "sinks": {TWO: "DeltaSink[/tables/other]"}}
    run(shop, "u1", {ONE: [0, 1], TWO: [0, 1]}, sink=DELTA, query="q-1", **into)
    doubt(workspace)
    for flow in (TWO, ONE):
        opened(flow, next_batch=3, head=None, result={"update_id": "u2", "updates": ["u2"]})
    run(shop, "u2", {ONE: [3], TWO: [3]}, sink=DELTA, query="q-2", **into)
    assert doubt(workspace) == ""
    assert Flow.objects.get(name=TWO).table_doubt == ""
