"""A recovery whose plan runs together with others: every page says so, and every act is of all of them."""

from typing import Any

import pytest
from django.test import Client

from console.pages import run
from recovery.models import ApprovalRequest, AuditEntry, JointPlan, Recovery
from recovery.workflow import broker, tasks
from tests import factories
from tests.factories.joint import joined, joined_emptying, planned_flows, states
from tests.pages import refusal

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)
    for task in (tasks.run_step, tasks.probe_step):
        monkeypatch.setattr(task, "delay", lambda *args: None)


def named(client: Client, path: str, rows: list[Recovery]) -> bool:
    """Does the page list every recovery that runs together, and the common hash?"""
    text = client.get(path).content.decode()
    joint = JointPlan.objects.get()
    return all(f'data-recovery="{row.label}"' in text for row in rows) and joint.hash in text


@pytest.mark.parametrize("page", ["review", "run", "diagnose"])
def test_every_page_of_each_names_all_of_them(responder: Client, page: str) -> None:
    _, rows = joined()
    for row in rows:
        assert named(responder, f"/recoveries/{row.pk}/{page}", rows)


def test_the_page_of_a_plan_that_runs_alone_names_no_joint_plan(responder: Client) -> None:
    row = planned_flows(count=1)[0]
    text = responder.get(f"/recoveries/{row.pk}/review").content.decode()
    assert "joint-plan" not in text
    assert "may-join" not in text


@pytest.mark.parametrize("member", [0, 1])
def test_that_a_table_is_emptied_and_nothing_goes_back_is_on_the_pages_of_each(
    responder: Client, member: int
) -> None:
    joint, rows = joined_emptying()
    table = joint.contents.full_refresh[0].rpartition(".")[2]
    review = responder.get(f"/recoveries/{rows[member].pk}/review").content.decode()
    assert f'data-code="no-way-back" data-value="{table}"' in review
    answer = responder.post(f"/recoveries/{rows[member].pk}/run", {"act": "execute", "hash": joint.hash})
    assert answer.url.endswith("/run/confirm")
    assert f'data-code="empties" data-value="{table}"' in responder.get(answer.url).content.decode()
    assert states(*rows) == ["planned"] * 2


def test_a_start_on_the_page_of_one_starts_all_of_them(responder: Client) -> None:
    joint, rows = joined()
    answer = responder.post(f"/recoveries/{rows[1].pk}/run", {"act": "execute", "hash": joint.hash})
    assert answer.status_code == 302
    assert states(*rows) == ["running"] * 2


@pytest.mark.parametrize("page", ["run", "rollback"])
def test_a_page_that_was_read_before_others_joined_acts_on_none_of_them(responder: Client, page: str) -> None:
    _, rows = joined()
    alone = rows[1].plans.get().hash
    answer = responder.post(f"/recoveries/{rows[1].pk}/{page}", {"hash": alone, "reason": "ticket 17"})
    assert refusal(answer) == "stale_plan"
    assert states(*rows) == ["planned"] * 2


@pytest.mark.parametrize("act", ["stop", "pause"])
def test_a_stop_or_pause_is_in_the_log_of_every_recovery_that_it_is_done_with(
    responder: Client, act: str
) -> None:
    joint, rows = joined()
    path = f"/recoveries/{rows[1].pk}/run"
    responder.post(path, {"act": "execute", "hash": joint.hash})
    text = responder.get(path).content.decode()
    assert f'data-code="done-with" data-value="{rows[0].label}"' in text
    assert responder.post(path, {"act": act}).status_code == 302
    action = {"stop": "recovery.halt", "pause": "recovery.pause"}[act]
    logged = AuditEntry.objects.filter(action=action).values_list("recovery", flat=True)
    assert sorted(logged) == sorted(row.label for row in rows)


def test_plans_that_wait_side_by_side_can_be_sealed_together(responder: Client) -> None:
    *rows, left_out = planned_flows(count=3)
    page = f"/recoveries/{rows[1].pk}/review"
    text = responder.get(page).content.decode()
    assert all(f'name="with" value="{row.label}"' in text for row in (rows[0], left_out))
    assert responder.post(page, {"act": "join", "with": rows[0].label}).status_code == 302
    joint = JointPlan.objects.get()
    assert [p.recovery for p in joint.contents.plans] == [row.label for row in rows]
    assert "may-join" not in responder.get(page).content.decode()


@pytest.mark.parametrize(("others", "status"), [([], 409), (["R-999999"], 404)])
def test_a_plan_is_not_sealed_together_with_none_or_with_one_that_is_not_there(
    responder: Client, others: list[str], status: int
) -> None:
    row = planned_flows()[0]
    answer = responder.post(f"/recoveries/{row.pk}/review", {"act": "join", "with": others})
    assert answer.status_code == status
    assert not JointPlan.objects.exists()


def test_one_request_and_one_vote_on_the_pages_are_for_all_of_them(client: Client) -> None:
    joint, rows = joined(environment="staging")
    client.force_login(factories.person("responder"))
    ask: dict[str, Any] = {"act": "ask", "reason": "ticket 17", "hash": joint.hash}
    assert client.post(f"/recoveries/{rows[0].pk}/review", ask).status_code == 302
    assert states(*rows) == ["awaiting_approval"] * 2
    client.force_login(factories.person("approver"))
    request = ApprovalRequest.objects.get(recovery=rows[1])
    path = f"/approvals/{request.pk}"
    assert named(client, path, rows)
    one = {"vote": "approve", "reason": "The numbers match.", "hash": rows[1].plans.get().hash}
    assert refusal(client.post(path, one)) == "stale_plan"
    assert client.post(path, {**one, "hash": joint.hash}).status_code == 302
    assert states(*rows) == ["approved"] * 2


@pytest.mark.parametrize("page", ["run/confirm", "rollback", "cancel"])
def test_what_is_asked_once_more_names_every_recovery_that_it_is_done_with(
    responder: Client, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, rows = joined()
    monkeypatch.setattr(run, "_rollback_refusal", lambda page: None)
    text = responder.get(f"/recoveries/{rows[0].pk}/{page}").content.decode()

    assert f'data-code="done-with" data-value="{rows[1].label}"' in text


@pytest.mark.parametrize("act", ["join", "ask"])
def test_a_recovery_that_is_not_there_is_not_found(responder: Client, act: str) -> None:
    assert responder.post("/recoveries/999999/review", {"act": act, "hash": "x"}).status_code == 404
