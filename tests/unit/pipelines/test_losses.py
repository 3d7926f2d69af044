"""Rows that a file table passed over while every update completed: such a flow is never ok."""

import math
from typing import Any

import pytest

from recovery.models import Flow, Listed, Pipeline, Recovery, Step, Workspace
from recovery.people.roles import Role
from recovery.pipelines.asking import BACK, UPDATES
from recovery.pipelines.inventory import refresh
from tests.unit.people.run import run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.counted_runs import (
    DELTA,
    FILES,
    FINE,
    LOST,
    ONE,
    TABLE,
    TWO,
    UNREAD,
    opened,
    run,
    seen,
    span,
)

pytestmark = pytest.mark.django_db


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
