"""No flow's page, row or node is green while a measurement, or the lack of one, speaks against its table."""

from datetime import datetime

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.presenters.doubting import doubt_badge
from console.presenters.flow import NOTHING_WRONG, draw_graph
from console.presenters.pipelines import pipeline_header
from recovery.contracts import codec
from recovery.models import Flow, FlowInput, Pipeline, Recovery, Workspace
from recovery.workflow.doubting import doubts_of
from tests import factories as f
from tests.pages import parse
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db
FAILS = {"criteria": [{"code": "EVERY_ROW_ONCE", "says": "", "ok": False}], "verified": False}
SIX = {"rows": 6, "bound": "exact"}
HAS_EVERY_ROW = {"code": "TABLE_HAS_EVERY_ROW", "says": "", "ok": True}
UNMEASURED = {"criteria": [{"code": "EVERY_ROW_ONCE", "says": "", "ok": None}], "verified": False}


def recovery(flow: Flow, state: str, measured: object = None, ended: datetime | None = None) -> None:
    Recovery.objects.create(
        flow=flow, state=state, active=state == "needs_attention", measured=measured or {}, ended_at=ended
    )


def doubts(client: Client, flow: Flow) -> list[str]:
    page = parse(text(client, f"/flows/{flow.pk}"))
    found = [code.removeprefix("doubt-") for code in page.codes if code.startswith("doubt-")]
    assert (NOTHING_WRONG in page.text) is (not found)
    return found


@pytest.mark.parametrize("state", ["unproven", "failed", "needs_attention"])
@pytest.mark.parametrize("measured", [FAILS, UNMEASURED, {}])
def test_a_recovery_without_proof_is_not_forgotten_by_an_update_that_ends_well(
    responder: Client, state: str, measured: object
) -> None:
    flow = f.flow()
    recovery(flow, "succeeded")
    recovery(flow, state, measured, timezone.now())
    recovery(flow, "cancelled")  # changed nothing
    assert doubts(responder, flow) == ["not-proven"]


def test_a_later_proof_of_the_whole_table_ends_the_doubt(responder: Client) -> None:
    flow = f.flow()
    recovery(flow, "unproven", FAILS, timezone.now())
    recovery(flow, "succeeded", codec.to_json(f.proof()))
    assert doubts(responder, flow) == []


def test_a_later_proof_of_the_whole_table_that_finds_more_ends_the_lack_of_one_before(
    responder: Client,
) -> None:
    flow = f.flow()
    recovery(flow, "unproven", FAILS, timezone.now())
    recovery(flow, "succeeded", codec.to_json(f.proof(doubled=5, doubled_before=5)))
    assert doubts(responder, flow) == ["table-differs"]


def test_a_later_proof_that_did_not_compare_the_rows_of_before_leaves_the_doubt(responder: Client) -> None:
    flow = f.flow()
    recovery(flow, "unproven", FAILS, timezone.now())
    recovery(flow, "succeeded")
    assert doubts(responder, flow) == ["not-proven"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"doubled": 6, "doubled_accepted": SIX}, ["as-accepted"]),
        ({"lost": 6, "lost_accepted": SIX}, ["as-accepted"]),
        ({"doubled": 5, "doubled_before": 5}, ["table-differs"]),
        ({"lost": 3, "lost_before": 3, "doubled": 6, "doubled_accepted": SIX}, ["table-differs"]),
        ({}, []),
    ],
    ids=["repeated", "given up", "twice before", "lost before, repeated", "as its input"],
)
def test_a_proof_over_a_table_that_is_not_as_its_input_is_no_good_news(
    responder: Client, changes: dict[str, object], code: list[str]
) -> None:
    flow = f.flow()
    recovery(flow, "succeeded", codec.to_json(f.proof(**changes)), timezone.now())
    assert doubts(responder, flow) == code


def test_what_was_accepted_is_shown_with_its_rows_and_its_proof(responder: Client) -> None:
    flow = f.flow()
    recovery(flow, "succeeded", codec.to_json(f.proof(doubled=6, doubled_accepted=SIX)), timezone.now())
    page = parse(text(responder, f"/flows/{flow.pk}"))
    proved = Recovery.objects.get()
    assert page.one("proof-in-doubt").attributes["href"] == reverse("verify", args=[proved.pk])
    assert "6 rows doubled" in page.one("doubt-as-accepted").text


@pytest.mark.parametrize(
    ("newest", "minutes", "code"),
    [
        ({"doubled": 0, "doubled_before": 0}, None, []),
        ({"doubled": 0, "doubled_bound": "at least", "doubled_before": None}, None, ["as-accepted"]),
        ({"doubled": 6, "doubled_before": 6}, None, ["as-accepted"]),
        ({"doubled": 7, "doubled_before": 7}, None, ["table-differs"]),
        ({"criteria": [HAS_EVERY_ROW], "doubled_before": None}, None, []),
        ({"doubled": 0, "doubled_bound": "at least", "doubled_before": None}, 15, ["as-accepted"]),
        ({"doubled": 0, "doubled_bound": "at least", "doubled_before": None}, 5, []),
    ],
    ids=[
        "counted, gone", "not counted", "counted, there", "one more", "deduplicated", "written from scratch before",
        "written from scratch since",
    ],
)  # fmt: skip
def test_accepted_rows_are_named_until_they_are_proven_gone(
    responder: Client, newest: dict[str, object], minutes: int | None, code: list[str]
) -> None:
    flow = f.flow(rewritten_at=f.ago(minutes=minutes) if minutes else None)
    accepted = codec.to_json(f.proof(doubled=6, doubled_accepted=SIX))
    recovery(flow, "succeeded", accepted, f.ago(minutes=10))
    recovery(flow, "succeeded", {**codec.to_json(f.proof()), **newest}, f.ago(minutes=1))
    assert doubts(responder, flow) == code


@pytest.mark.parametrize(("minutes", "found"), [(5, []), (15, ["not-proven"])])
def test_a_table_that_was_written_again_from_scratch_since_is_in_no_doubt(
    responder: Client, minutes: int, found: list[str]
) -> None:
    flow = f.flow(rewritten_at=f.ago(minutes=minutes))
    recovery(flow, "unproven", FAILS, f.ago(minutes=10))
    assert doubts(responder, flow) == found


@pytest.mark.parametrize(
    ("kind", "readable", "found"),
    [("kafka", False, ["input-gone"]), ("files", False, ["passed-over"]), ("files", True, [])],
)
def test_input_that_no_update_can_read_any_more_speaks_against_it(
    responder: Client, kind: str, readable: bool, found: list[str]
) -> None:
    flow = f.flow()
    FlowInput.objects.create(
        flow=flow,
        index=0,
        kind=kind,
        place="x",
        noted_at=timezone.now(),
        seen_at=timezone.now(),
        asked_at=timezone.now(),
        readable=readable,
    )
    assert doubts(responder, flow) == found


def not_proven() -> Flow:
    flow = f.flow(short="orders_flow")
    recovery(flow, "unproven", FAILS, timezone.now())
    return flow


@pytest.mark.parametrize(
    "address", ["/?show=all", "/search?q=orders", "/pipelines/{pipeline}", "/flows/{flow}"]
)
def test_a_flow_in_doubt_is_no_plain_ok_wherever_it_is_listed(responder: Client, address: str) -> None:
    flow = not_proven()
    page = parse(text(responder, address.format(pipeline=flow.pipeline_id, flow=flow.pk)))
    kinds = {
        e.attributes["class"].split()[1]
        for e in page.all("span")
        if "badge-" in e.attributes.get("class", "")
    }
    assert ("badge-attention" in kinds, "badge-ok" in kinds) == (True, False)
    assert "OK, not proven" in page.text


def test_the_list_has_the_code_of_a_doubt_and_says_what_is_wrong(responder: Client) -> None:
    flow = not_proven()
    row = parse(text(responder, "/?show=all")).one("doubt-not-proven")
    assert row.attributes["data-value"] == flow.name
    assert Recovery.objects.get().label in row.text


def test_a_recovery_that_runs_is_shown_as_that_and_not_as_the_doubt_before(responder: Client) -> None:
    flow = not_proven()
    Recovery.objects.create(flow=flow, state="running")
    assert "Recovering" in parse(text(responder, "/?show=all")).one("doubt-not-proven").text


def test_the_graph_draws_a_flow_in_doubt_and_its_table_as_behind() -> None:
    flow = not_proven()
    graph = draw_graph(flow, [flow], doubts=doubts_of([flow.pk], timezone.now()))
    assert {n.kind for n in graph.nodes} == {"stale"}
    assert all("not proven" in n.says for n in graph.nodes)


def test_the_number_of_questions_does_not_grow_with_the_flows() -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as made:
            doubts_of(Flow.objects.values_list("pk", flat=True), timezone.now())
        return len(made)

    first = not_proven()
    one = cost()
    for number in range(6):
        recovery(f.flow(first.pipeline, f"flow_{number}"), "unproven", FAILS, timezone.now())
    assert cost() == one <= 5


@pytest.mark.parametrize("values", [{"poll_error": "It does not answer."}, {"polled_at": None}])
def test_what_no_poll_confirms_is_not_called_well(responder: Client, values: dict[str, object]) -> None:
    flow = f.flow()
    Workspace.objects.update(**values)
    assert doubts(responder, flow) == ["not-asked"]


@pytest.mark.parametrize("state", ["failed", "stopped", "stale", "unknown"])
def test_a_flow_that_is_neither_ok_nor_runs_says_enough_by_its_state(responder: Client, state: str) -> None:
    flow = f.flow(state=state)
    recovery(flow, "unproven", FAILS, timezone.now())
    page = parse(text(responder, f"/flows/{flow.pk}"))
    assert not [code for code in page.codes if code.startswith("doubt-")]


@pytest.mark.parametrize("state", ["ok", "running"])
def test_a_doubt_is_shown_in_place_of_what_the_flow_does(responder: Client, state: str) -> None:
    flow = f.flow(state=state)
    recovery(flow, "unproven", FAILS, timezone.now())
    assert doubts(responder, flow) == ["not-proven"]
    [doubt] = doubts_of([flow.pk], timezone.now()).values()
    assert (doubt.state, doubt_badge(doubt).kind) == (state, "attention")


@pytest.mark.parametrize(
    ("state", "kind"), [("ok", "attention"), ("running", "attention"), ("failed", "failed")]
)
def test_a_pipeline_with_a_flow_in_doubt_is_not_plainly_well(state: str, kind: str) -> None:
    flow = f.flow(state=state)
    Pipeline.objects.update(judged=state)
    flow.pipeline.refresh_from_db()
    assert pipeline_header(flow.pipeline, timezone.now(), behind=False, doubted=True).kind == kind


@pytest.mark.parametrize(
    ("memory", "code"), [({"read_again": {"update": "u-1"}}, ["doubt-read-again"]), ({}, [])]
)
def test_the_page_of_a_stopped_flow_names_what_is_known_against_its_table(
    responder: Client, memory: dict[str, object], code: list[str]
) -> None:
    flow = f.flow(state="stopped", sink_memory=memory)
    page = parse(text(responder, f"/flows/{flow.pk}"))
    assert [known for known in page.codes if known.startswith("doubt-")] == code
