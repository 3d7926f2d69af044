"""The approver's page, the list, the request in Review, the rules: what is shown, what is let through, and why not."""

import re
import time
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.pages import freshness
from recovery.approvals import selectors
from recovery.models import ApprovalRequest, AuditEntry, EnvironmentRule, Recovery, Vote
from recovery.workflow import broker, tasks
from tests import factories
from tests.unit.pages.reading import plain, proved, signed_in

pytestmark = pytest.mark.django_db

REASON = "Numbers match the rehearsal."


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.run_step, "delay", lambda *args: None)
    monkeypatch.setattr(broker, "check", lambda: None)


def address(of: Recovery) -> str:
    return f"/approvals/{of.requests.get().pk}"


def vote(client: Client, of: Recovery, choice: str = "approve", **values: str) -> Any:
    given = {"vote": choice, "reason": REASON, "hash": of.plans.get().hash, **values}
    return client.post(address(of), given)


def test_the_approvers_page_holds_everything_a_vote_rests_on() -> None:
    row = factories.voted()
    shown = plain(signed_in(factories.person("approver", "ann")).get(address(row)))
    for part in (
        "Reset 1 flow in production?", "1 of 2 votes", "asked by responder", "ticket CRM-881",
        "What will happen to rows", "Lost", "Doubled", "Positions", "file 4 of 7", "Findings", "1 warning",
        "STATE_DROPPED", "Behind the plan", "Validation and rehearsal", "Not rehearsed", "Way back",
        "Until batch 3 is committed", "Your decision", "Expires", row.plans.get().hash,
        "approver-2 approved", "Numbers match R-142", "responder cannot vote", "PRODUCTION",
        "Your vote is the second of 2.", "Rejecting ends this request.",
    ):  # fmt: skip
        assert part in shown, part


def test_two_people_approve_and_the_responder_types_the_flows_name_to_run_it() -> None:
    row = factories.asked()
    for name in ("ann", "bob"):
        answer = vote(signed_in(factories.person("approver", name)), row)
        assert (answer.status_code, answer["Location"]) == (302, address(row))
    row.refresh_from_db()
    assert row.state == "approved"
    responder = signed_in(factories.person("responder"))
    review = plain(responder.get(f"/recoveries/{row.pk}/review"))
    assert "Asks you to type the flow's name first." in review.replace("&#x27;", "'")
    run = f"/recoveries/{row.pk}/run"
    assert responder.post(run, {"act": "execute"})["Location"] == f"{run}/confirm"
    confirm = plain(responder.get(f"{run}/confirm"))
    assert "approved by ann and bob" in confirm
    wrong = responder.post(run, {"confirmed": "continue", "typed": "something"})
    assert wrong.status_code == 422
    assert "nothing was started" in plain(wrong)
    row.refresh_from_db()
    assert row.state == "approved"
    assert responder.post(run, {"confirmed": "continue", "typed": row.flow.short})["Location"] == run
    row.refresh_from_db()
    assert row.state == "running"


def test_a_plan_is_asked_for_in_review_and_waits_visibly() -> None:
    row = factories.planned(factories.incident("staging"))
    factories.person("approver", "ann")
    client, review = signed_in(factories.person("responder")), f"/recoveries/{row.pk}/review"
    page = client.get(review)
    assert "Request 1 approval" in plain(page)
    assert "Asks 1 person for 1 vote on plan" in plain(page)
    answer = client.post(review, {"act": "ask", "reason": "ticket", "hash": row.plans.get().hash})
    assert answer.status_code == 302
    made = ApprovalRequest.objects.get()
    assert (made.state, made.reason, made.requested_by) == ("open", "ticket", "responder")
    shown = plain(client.get(review))
    assert "Waits for approval; nothing runs." in shown
    assert "Change strategy or code" in shown
    assert f"/approvals/{made.pk}" in client.get(review).content.decode()
    refused = client.post(f"/recoveries/{row.pk}/run", {"act": "execute"})
    assert refused.status_code == 409
    assert "1 more approval of 1 needed in staging" in plain(refused)


def test_a_plan_that_changed_while_it_was_read_is_not_asked_for() -> None:
    row = factories.planned(factories.incident("staging"))
    client = signed_in(factories.person("responder"))
    answer = client.post(f"/recoveries/{row.pk}/review", {"act": "ask", "hash": "0" * 64})
    assert answer.status_code == 409
    assert "The plan changed while you were reading" in plain(answer)
    assert not ApprovalRequest.objects.exists()


@pytest.mark.parametrize(
    ("who", "why"),
    [
        (("viewer", "vic"), "Your role, viewer, may not vote on plans. Ask an approver."),
        (("responder", "rob"), "may not vote on plans"),
        (("admin", "adi"), "may not vote on plans"),
        (("approver", "responder"), "responder asked for this approval"),
        (("approver", "approver-2"), "You have voted on this plan already"),
    ],
)
def test_a_vote_that_does_not_count_cannot_be_pressed_and_says_why(who: tuple[str, str], why: str) -> None:
    user = factories.person(*who)
    row = factories.voted()
    client = signed_in(user)
    page = client.get(address(row))
    assert why in plain(page)
    assert 'name="vote"' not in page.content.decode()
    answer = vote(client, row)
    assert answer.status_code in (403, 409)
    assert Vote.objects.count() == 1
    assert AuditEntry.objects.latest("seq").outcome in ("denied", "failed")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (factories.approved, "Approved."),
        (factories.rejected, "rejected plan"),
        (factories.voided, "edited since the plan was made"),
        (factories.expired, "Expired is not approved."),
    ],
)
def test_a_request_that_ended_says_how(make: Any, says: str) -> None:
    row = make()
    client = signed_in(factories.person("approver", "cat"))
    shown = client.get(address(row))
    assert says in plain(shown)
    assert 'value="approve"' not in shown.content.decode()
    assert vote(client, row).status_code == 409


def test_what_is_late_is_shown_as_expired_before_anybody_wrote_it_down() -> None:
    row = factories.asked(expires_at=factories.ago(seconds=1))
    client = signed_in(factories.person("approver", "cat"))
    assert "Expired is not approved" in plain(client.get(address(row)))
    assert "Nothing waits for a vote" in plain(client.get("/approvals"))
    assert vote(client, row).status_code == 409


def test_a_stale_hash_is_refused_with_what_changed_and_the_reason_stays() -> None:
    row = factories.asked()
    answer = vote(signed_in(factories.person("approver", "cat")), row, hash="0" * 64)
    assert answer.status_code == 409
    assert "another plan now" in plain(answer)
    assert REASON in plain(answer)
    assert not Vote.objects.exists()


def test_a_reason_that_is_too_short_is_refused_on_the_page() -> None:
    row = factories.asked()
    answer = vote(signed_in(factories.person("approver", "cat")), row, reason="ok")
    assert answer.status_code == 422
    assert "at least 10 characters" in plain(answer)
    assert not Vote.objects.exists()


def test_a_double_click_is_one_vote() -> None:
    row, client = factories.asked(), signed_in(factories.person("approver", "cat"))
    assert [vote(client, row).status_code, vote(client, row).status_code] == [302, 409]
    assert Vote.objects.count() == 1


def test_production_asks_who_it_is_and_the_vote_is_given_afterwards() -> None:
    row, user = factories.asked(), factories.person("approver", "cat")
    client = signed_in(user, fresh=False)
    assert "will ask for your password first" in plain(client.get(address(row)))
    asked = vote(client, row)
    assert asked["Location"].startswith("/reauthenticate?next=%2Fapprovals%2F")
    gate = client.get(asked["Location"])
    assert "Not done yet:" in plain(gate)
    assert REASON in plain(gate)
    wrong = client.post("/reauthenticate", {"password": "wrong", "next": address(row)})
    assert wrong.status_code == 422
    assert "Password or code is wrong" in plain(wrong)
    right = client.post("/reauthenticate", {"password": factories.PASSWORD, "next": address(row)})
    assert right["Location"] == address(row)
    assert not Vote.objects.exists()
    back = client.get(address(row))
    assert "Your vote is not given yet" in plain(back)
    assert REASON in plain(back)
    assert "Your vote is not given yet" not in plain(client.get(address(row)))
    assert vote(client, row).status_code == 302
    assert Vote.objects.get().voter == "cat"
    done = list(AuditEntry.objects.order_by("seq").values_list("action", "outcome"))
    assert done == [("session.confirm", "denied"), ("session.confirm", "done"), ("approval.vote", "done")]


def test_a_proof_is_good_for_ten_minutes_and_staging_asks_for_none() -> None:
    row, user = factories.asked(), factories.person("approver", "cat")
    client = signed_in(user)
    proved(client, user, time.time() - 60 * freshness.minutes())
    assert "/reauthenticate" in vote(client, row)["Location"]
    proved(client, user, time.time() + 3600)
    assert "/reauthenticate" in vote(client, row)["Location"]
    staging = factories.asked(factories.failed_flow(factories.pipeline(name="s", environment="staging")))
    assert vote(client, staging)["Location"] == address(staging)


def test_a_sign_in_is_a_proof() -> None:
    factories.person("approver", "cat")
    row, client = factories.asked(), Client()
    client.post("/sign-in", {"name": "cat", "password": factories.PASSWORD})
    assert vote(client, row)["Location"] == address(row)


def test_after_a_proof_nobody_is_led_elsewhere() -> None:
    client = signed_in(factories.person("approver", "cat"), fresh=False)
    answer = client.post(
        "/reauthenticate", {"password": factories.PASSWORD, "next": "https://elsewhere.example/"}
    )
    assert answer["Location"] == "/"


def test_the_list_shows_what_waits_for_whom_and_what_became_of_the_rest(
    django_assert_max_num_queries: Any,
) -> None:
    ann = factories.person("approver", "ann")
    for n in range(4):
        factories.voted(factories.failed_flow(factories.pipeline(name=f"p{n}", environment="production")))
    factories.approved(factories.failed_flow(factories.pipeline(name="q", environment="production")))
    factories.expired(factories.failed_flow(factories.pipeline(name="r", environment="production")))
    client = signed_in(ann)
    client.get("/approvals")  # the first page of a session notes the session
    with django_assert_max_num_queries(14):
        answer = client.get("/approvals")
    shown = plain(answer)
    assert "4 wait for votes" in shown
    assert shown.count("waits for you") == 4
    assert "Approved, not run" in shown
    assert "Not decided until" in shown
    assert re.search(r"Approvals\s*4 open", shown)


def test_glass_is_broken_with_a_reason_and_the_flows_name_and_stands_on_every_page() -> None:
    row = factories.planned(factories.incident("staging"))
    client, there = signed_in(factories.person("responder")), f"/recoveries/{row.pk}/break-glass"
    assert there in client.get(f"/recoveries/{row.pk}/review").content.decode()
    given = {
        "reason": "Export at 06:00, nobody answers.",
        "typed": row.flow.short,
        "hash": row.plans.get().hash,
    }
    for wrong in ({"reason": "now"}, {"typed": "x"}):
        answer = client.post(there, {**given, **wrong})
        assert answer.status_code == 422
    row.refresh_from_db()
    assert row.state == "planned"
    assert client.post(there, given)["Location"] == f"/recoveries/{row.pk}/run"
    row.refresh_from_db()
    assert row.state == "running"
    for page in ("run", "verify", "review", "diagnose"):
        assert "Run by break-glass, without enough votes." in plain(
            client.get(f"/recoveries/{row.pk}/{page}")
        ), page
    assert AuditEntry.objects.filter(action="recovery.break_glass", outcome="done").count() == 1


def test_in_production_a_stale_sign_in_breaks_no_glass_until_it_is_proved_again() -> None:
    rule = selectors.rule_for("production").as_dict() | {"break_glass": True}
    EnvironmentRule.objects.create(**rule, changed_by="admin", changed_at=timezone.now())
    row, user = factories.asked(), factories.person("responder")
    there = f"/recoveries/{row.pk}/break-glass"
    given = {"reason": "Readers wait.", "typed": row.flow.short, "hash": row.plans.get().hash}
    client = signed_in(user, fresh=False)
    for age in (None, 60 * freshness.minutes() + 1):
        if age is not None:
            proved(client, user, time.time() - age)
        asked = client.post(there, given)
        assert asked["Location"].startswith("/reauthenticate?next=%2Frecoveries%2F")
        row.refresh_from_db()
        assert (row.state, row.glasses.count()) == ("awaiting_approval", 0)

    gate = plain(client.get(asked["Location"]))
    assert "break glass for" in gate
    assert "Readers wait." in gate
    right = client.post("/reauthenticate", {"password": factories.PASSWORD, "next": there})
    assert right["Location"] == there
    row.refresh_from_db()
    assert row.glasses.count() == 0, "the proof itself does nothing"
    assert "Readers wait." in client.get(there).content.decode()
    assert client.post(there, given)["Location"] == f"/recoveries/{row.pk}/run"
    row.refresh_from_db()
    assert (row.state, row.glasses.get().by) == ("running", user.username)


def test_where_there_is_no_glass_the_page_says_so() -> None:
    row = factories.planned(factories.incident("production"))
    client, there = signed_in(factories.person("responder")), f"/recoveries/{row.pk}/break-glass"
    assert there not in client.get(f"/recoveries/{row.pk}/review").content.decode()
    assert "The rules of production have no break-glass." in plain(client.get(there))
    given = {"reason": REASON, "typed": row.flow.short}
    assert client.post(there, given).status_code == 422
    row.refresh_from_db()
    assert row.state == "planned"


def test_an_expired_recovery_says_so_and_leads_back_to_the_flow() -> None:
    row = factories.expired()
    shown = plain(signed_in(factories.person("responder")).get(f"/recoveries/{row.pk}/review"))
    assert "was not approved" in shown
    assert "This recovery has ended." in shown
