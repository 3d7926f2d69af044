"""Queries that began again over a table with rows, while every update completed; what a proof or a refresh settles."""

from collections.abc import Callable
from typing import Any

import pytest

from recovery.models import Flow, Message, Pipeline, Workspace
from recovery.people.roles import Role
from recovery.pipelines.asking import UPDATES
from tests.unit.people.run import run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.counted_runs import (
    DELTA,
    DOUBT,
    FILES,
    FINE,
    FUNCTION,
    LOST,
    ONE,
    TABLE,
    TOPIC,
    TWO,
    doubt,
    opened,
    run,
    seen,
    settle_loss,
    span,
)

pytestmark = pytest.mark.django_db


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
        (2, DELTA, "q-1", 10, ""),
        (2, DELTA, "q-2", 10, DOUBT),
        (0, "DeltaSink[/tables/new]", "q-2", 10, ""),
        (0, DELTA, "q-2", 0, ""),
        (0, FUNCTION, "q-2", 10, DOUBT),
        (0, "DeltaSink[file:///tables/res]", "q-2", 10, DOUBT),
        (7, DELTA, "q-2", 10, DOUBT),
        (0, DELTA, "q-2", 10, DOUBT),
    ],
    ids=[
        "it goes on",
        "it goes on under another id",
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


@pytest.mark.parametrize(
    "sources",
    [[], span({"v": 0}, {"v": 2}), span({"v": 0}, {"v": 1})],
    ids=["input not known", "more input", "the same input"],
)
@pytest.mark.parametrize("sink", [DELTA, FUNCTION, TOPIC])
def test_a_query_of_one_batch_that_began_again_is_in_doubt(
    api: Api, workspace: Workspace, sink: str, sources: list[dict[str, Any]]
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0]}, sink=sink, query="q-1", sources=span({"v": 0}, {"v": 1}))
    assert doubt(workspace) == ""
    run(shop, "u2", {ONE: [0]}, sink=sink, query="q-2", sources=sources)
    assert doubt(workspace) == DOUBT


TRIAL = "DeltaSink[/tables/trial]"


@pytest.mark.parametrize(
    ("is_new", "first", "query", "expected"),
    [(False, 0, "q-2", DOUBT), (True, 0, "q-2", ""), (None, 0, "q-2", ""), (False, 2, "q-1", "")],
    ids=["not known to be new", "new", "of a pipeline", "the same query goes on there"],
)
@pytest.mark.parametrize("sink", [DELTA, FILES])
def test_a_query_that_began_again_in_another_table_is_in_doubt_unless_that_is_new(
    api: Api, workspace: Workspace, sink: str, is_new: bool | None, first: int, query: str, expected: str
) -> None:
    """Somebody moved the table with its rows, and began again beside it."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    doubt(workspace)
    moved = sink.replace("/res", "/moved")
    run(shop, "u2", {ONE: [first]}, sink=moved, query=query, makes_table=is_new)
    assert doubt(workspace) == expected


@pytest.mark.parametrize("is_new", [None, True])
def test_a_query_that_comes_back_from_another_table_began_again(
    api: Api, workspace: Workspace, is_new: bool | None
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    run(shop, "u2", {ONE: [0]}, sink=TRIAL, query="q-2", makes_table=is_new)
    assert doubt(workspace) == ""
    run(shop, "u3", {ONE: [0]}, sink=DELTA, query="q-3")
    assert doubt(workspace) == DOUBT


@pytest.mark.parametrize(
    ("sink", "look", "known", "well"),
    [(DELTA, doubt, DOUBT, ""), (FILES, seen, LOST, FINE)],
    ids=["rows twice", "rows passed over"],
)
def test_what_happened_to_a_table_is_known_again_when_the_flow_comes_back_from_a_new_one(
    api: Api,
    workspace: Workspace,
    sink: str,
    look: Callable[[Workspace], object],
    known: object,
    well: object,
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    run(shop, "u2", {ONE: [0]}, sink=sink, query="q-2")
    assert look(workspace) == known
    run(shop, "u3", {ONE: [0]}, sink=TRIAL, query="q-3", makes_table=True, is_over=False)
    look(workspace)
    shop.status("u3", ONE, "COMPLETED")
    shop.end("u3", "COMPLETED")
    run(shop, "u4", {ONE: [1]}, sink=TRIAL, query="q-3")
    assert look(workspace) == well
    run(shop, "u5", {ONE: [2]}, sink=sink, query="q-2")
    assert look(workspace) == known
    run(shop, "u6", {ONE: [0]}, sink=sink, query="q-4", makes_table=True)
    assert look(workspace) == well


def test_batches_that_come_after_a_run_was_taken_for_over_are_counted(api: Api, workspace: Workspace) -> None:
    """A batch that takes long was taken for the end of the run, and its query began again."""
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    run(shop, "u2", {ONE: []}, sink=DELTA, query="q-2", is_over=False)
    shop.event("u2", "update_progress", {"state": "CANCELED", "cancellation_cause": "LOG_WITHOUT_END"})
    shop.updates[0]["state"] = "CANCELED"
    assert doubt(workspace) == ""
    kept = [event for event in shop.events if event["origin"]["update_id"] != "u2"]
    shop.updates, shop.events = shop.updates[1:], kept
    run(shop, "u2", {ONE: [0]}, sink=DELTA, query="q-2")
    assert doubt(workspace) == DOUBT


@pytest.mark.parametrize(
    ("first", "query", "found", "told"),
    [(7, "q-2", LOST, "rows-lost"), (3, "q-2", FINE, DOUBT), (7, "q-1", FINE, "")],
    ids=["another query", "it may be the same one without its id", "the same query"],
)
def test_a_file_table_passed_over_the_first_batches_of_another_query_though_no_poll_saw_them(
    api: Api, workspace: Workspace, first: int, query: str, found: tuple[str, str], told: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1, 2]}, sink=FILES, query="q-1")
    assert seen(workspace) == FINE
    run(shop, "u2", {ONE: [first]}, sink=FILES, query=query)
    assert seen(workspace) == found
    assert Flow.objects.get().table_doubt == told


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
    settle_loss()
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
    settle_loss()
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


def test_a_function_that_went_back_and_goes_on_has_read_again_once(api: Api, workspace: Workspace) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [5]}, sink=FUNCTION, query="q-1")
    run(shop, "u2", {ONE: [2]}, sink=FUNCTION, query="q-1")
    assert doubt(workspace) == DOUBT
    since = Flow.objects.get().sink_memory["read_again"]
    run(shop, "u3", {ONE: [3]}, sink=FUNCTION, query="q-1")
    assert doubt(workspace) == DOUBT
    assert Flow.objects.get().sink_memory["read_again"] == since


@pytest.mark.parametrize(
    ("sink", "is_over", "events"),
    [
        (DELTA, True, [("flow.in_doubt", "rows may be twice")]),
        (FILES, False, [("flow.in_doubt", "rows may be lost")]),
        (FILES, True, []),  # it fails, which is an event of its own
    ],
)
def test_people_are_told_once_of_a_doubt_that_no_failure_tells(
    api: Api, workspace: Workspace, sink: str, is_over: bool, events: list[tuple[str, str]]
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=sink, query="q-1")
    seen(workspace)
    run(shop, "u2", {ONE: [0]}, sink=sink, query="q-2", is_over=is_over)
    for _ in range(2):
        seen(workspace)
    told = Message.objects.filter(event="flow.in_doubt")
    assert [(message.event, message.body["facts"]["doubt"]) for message in told] == events


@pytest.mark.parametrize("state", ["stopped", "failed", "ok"])
def test_a_diagnosis_names_what_is_known_against_the_table_whatever_the_flow_does_now(
    api: Api, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    shop = api.add("p1", "shop")
    run(shop, "u1", {ONE: [0, 1]}, sink=DELTA, query="q-1")
    doubt(workspace)
    run(shop, "u2", {ONE: [0]}, sink=DELTA, query="q-2")
    doubt(workspace)
    Flow.objects.update(state=state)
    code, told = run_json(monkeypatch, token_of("ada", Role.VIEWER), "diagnose", "shop", "--flow", ONE)
    assert (code, told["state"], told["doubt"]["code"]) == (1, state, DOUBT)
