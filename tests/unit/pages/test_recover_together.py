"""Several failed flows of one pipeline are opened, stopped, counted and sealed at once, and end in one joint plan."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from recovery.models import AuditEntry, Flow, JointPlan, Recovery, Step
from recovery.workflow import actions, broker
from recovery.workflow.plan_basis import digest_basis
from tests import factories as f
from tests.factories.joint import planned_flows, states
from tests.factories.together import broken_flows, open_for, stop_early
from tests.pages import asked, refusal
from tests.unit.pages.reading import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to workers; none is at work."""
    monkeypatch.setattr(broker, "check", lambda: None)
    found: list[str] = []
    monkeypatch.setattr(broker, "send_on_commit", lambda task, *args: found.append(task.__name__))
    return found


def page_of(flow: Flow) -> str:
    return f"/pipelines/{flow.pipeline_id}/together"


def shown(client: Client, flow: Flow) -> tuple[list[str], str]:
    """The code of each flow, and that of the next act."""
    context = client.get(page_of(flow)).context
    return [row.code for row in context["rows"]], context["bar"].code


def post(client: Client, flow: Flow, act: str, flows: list[Flow], **more: str) -> Any:
    return client.post(page_of(flow), {"act": act, "flow": [str(one.pk) for one in flows], **more})


@pytest.mark.parametrize(("count", "offered"), [(1, False), (2, True)])
def test_a_pipeline_and_its_flows_lead_there_where_several_fail(
    responder: Client, count: int, offered: bool
) -> None:
    flow = broken_flows(count)[0]
    for address in (f"/pipelines/{flow.pipeline_id}", f"/flows/{flow.pk}"):
        text = responder.get(address).content.decode()
        assert ('data-code="recover-together"' in text) is offered, address


def test_a_pipeline_leads_to_its_one_flow_that_fails(responder: Client) -> None:
    flow = f.failed_flow()
    f.flow(flow.pipeline, state="ok")
    page = asked(responder, f"/pipelines/{flow.pipeline_id}")
    assert page.one("open-failing").attributes["href"] == f"/flows/{flow.pk}"


def test_a_viewer_chooses_which_flows_are_shown_and_no_try_is_written_down() -> None:
    viewer, flows = signed_in(f.person("viewer")), broken_flows(3)
    answer = post(viewer, flows[0], "choose", flows[:1])
    assert answer.url == f"{page_of(flows[0])}?flow={flows[0].pk}"
    assert not AuditEntry.objects.filter(outcome="denied").exists()
    assert post(viewer, flows[0], "open", flows).status_code == 403


def test_more_recoveries_ask_the_database_no_more_often(responder: Client) -> None:
    flows, counts = broken_flows(6), []
    for opened in (flows[:2], flows[2:]):
        for flow in opened:
            open_for(flow)
        responder.get(page_of(flow))  # what is read once for the process
        with CaptureQueriesContext(connection) as asked:
            responder.get(page_of(flow))
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_one_act_opens_a_recovery_of_each_flow_chosen_and_of_no_other(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = broken_flows(3)
    asked: list[int] = []
    monkeypatch.setattr(actions, "open_recovery", lambda *, flow_id, by: asked.append(flow_id))
    assert shown(responder, flows[0]) == (["not-open"] * 3, "open")
    answer = post(responder, flows[0], "open", flows[:2])
    assert answer.url == f"{page_of(flows[0])}?flow={flows[0].pk}&flow={flows[1].pk}"
    assert asked == [flow.pk for flow in flows[:2]]


def test_the_pipeline_is_stopped_once_for_all_of_them(responder: Client, sent: list[str]) -> None:
    flows = broken_flows()
    rows = [open_for(flow, counted=False) for flow in flows]
    assert shown(responder, flows[0]) == (["not-counted"] * 2, "stop")
    post(responder, flows[0], "stop", flows)
    assert [(s.kind, s.recovery_id) for s in Step.objects.all()] == [("stop", rows[0].pk)]
    assert shown(responder, flows[0])[1] == "working"


def test_the_rows_of_those_that_were_not_counted_are_counted(responder: Client, sent: list[str]) -> None:
    flows = broken_flows(3)
    rows = [open_for(flow, counted=flow == flows[2], meant="yes") for flow in flows]
    stop_early(rows[0])
    assert shown(responder, flows[0]) == (["not-counted", "not-counted", "ready"], "count")
    post(responder, flows[0], "count", flows)
    assert sent == ["gather_facts"] * 2
    assert shown(responder, flows[0]) == (["counting", "counting", "ready"], "working")


def test_whether_the_change_was_meant_is_answered_once_for_all_of_them(responder: Client) -> None:
    flows = broken_flows()
    rows = [open_for(flow) for flow in flows]
    stop_early(rows[0])
    assert shown(responder, flows[0])[0] == ["needs-answer"] * 2
    assert responder.get(page_of(flows[0])).context["bar"].why_not is not None
    post(responder, flows[0], "", flows, meant="yes")
    for row in rows:
        row.refresh_from_db()
    assert [row.chosen.meant for row in rows] == ["yes"] * 2
    assert shown(responder, flows[0]) == (["ready"] * 2, "seal")


def test_each_is_sealed_with_its_strategy_and_all_with_the_code_that_was_edited_in_one(
    responder: Client, sent: list[str]
) -> None:
    flows = broken_flows(3)
    patch = {"/p/q.py": "x = 1\n"}
    rows = [
        open_for(flows[0], meant="yes"),
        open_for(flows[1], meant="yes", strategy="continue", patch=patch),
        open_for(flows[2], meant="yes", strategy="full-refresh"),
    ]
    stop_early(rows[0])
    post(responder, flows[0], "seal", flows)
    for row in rows:
        row.refresh_from_db()
    assert [row.chosen.strategy for row in rows] == ["continue", "continue", "full-refresh"]
    assert [row.chosen.patch for row in rows] == [patch] * 3
    assert sent == ["seal_plan"] * 3
    assert shown(responder, flows[0]) == (["sealing"] * 3, "working")


@pytest.mark.parametrize(
    ("choices", "code"),
    [
        ([{"strategy": "continue", "patch": {"/p/q.py": "1\n"}}, {"strategy": "continue", "patch": {"/p/q.py": "2\n"}}],
         "other_code"),
        ([{"meant": "yes"}, {}], "no_strategy"),
    ],
)  # fmt: skip
def test_where_one_of_them_cannot_be_sealed_none_is(
    responder: Client, sent: list[str], choices: list[dict[str, Any]], code: str
) -> None:
    flows = broken_flows()
    rows = [open_for(flow, **chosen) for flow, chosen in zip(flows, choices, strict=True)]
    assert refusal(post(responder, flows[0], "seal", flows)) == code
    assert (sent, AuditEntry.objects.filter(action="recovery.strategy").exists()) == ([], False)
    assert states(*rows) == ["diagnosing"] * 2


def test_a_plan_that_was_not_sealed_is_decided_in_its_own_wizard(responder: Client) -> None:
    flows = broken_flows()
    failed = {"status": "failed", "problem": "It loses 2 rows.", "code": "loses_rows"}
    rows = [open_for(flows[0], strategy="continue", sealing=failed), open_for(flows[1], meant="yes")]
    stop_early(rows[0])
    context = responder.get(page_of(flows[0])).context
    assert [(row.code, row.page) for row in context["rows"]] == [
        ("not-sealed", "review"),
        ("ready", "offset"),
    ]
    assert context["bar"].why_not is not None


def test_another_choice_after_a_refused_plan_is_ready_to_be_sealed(responder: Client) -> None:
    flows = broken_flows()
    rows = [open_for(flow, strategy="continue", meant="yes") for flow in flows]
    stop_early(rows[0])
    failed = {
        "status": "failed",
        "problem": "It is blocked.",
        "code": "blocked",
        "basis": digest_basis(rows[0]),
    }
    for strategy, code in (("continue", "not-sealed"), ("full-refresh", "ready")):
        choices = {"strategy": strategy, "meant": "yes", "sealing": failed}
        Recovery.objects.filter(pk=rows[0].pk).update(choices=choices)
        assert shown(responder, flows[0])[0] == [code, "ready"]


def test_plans_that_are_sealed_end_in_one_joint_plan_and_its_review(responder: Client) -> None:
    rows = planned_flows(count=3)
    flows = [row.flow for row in rows]
    Flow.objects.update(state="failed", streaming=True)
    assert shown(responder, flows[0]) == (["sealed"] * 3, "join")
    answer = post(responder, flows[0], "join", flows[:2])
    members = [plan.recovery for plan in JointPlan.objects.get().contents.plans]
    assert sorted(members) == sorted(row.label for row in rows[:2])
    assert answer.url.endswith("/review")
    assert shown(responder, flows[0])[0].count("further") == 2


@pytest.mark.parametrize("flows", [0, 1])
@pytest.mark.parametrize("act", ["open", "stop", "count", "seal", "join"])
def test_nothing_is_done_with_fewer_than_two(
    responder: Client, act: str, flows: int, sent: list[str]
) -> None:
    every = broken_flows()
    assert refusal(post(responder, every[0], act, every[:flows])) == "too_few_plans"
    assert (Recovery.objects.exists(), sent) == (False, [])


def test_a_poll_is_answered_only_where_something_is_new(responder: Client) -> None:
    flows = broken_flows()
    for flow in flows:
        open_for(flow, counted=False)
    version = responder.get(page_of(flows[0])).context["version"]
    assert responder.get(f"{page_of(flows[0])}?part=live&v={version}").status_code == 204
    assert responder.get(f"{page_of(flows[0])}?part=live&v=other").status_code == 200
