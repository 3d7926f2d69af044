"""The approver's page, the list, the request in Review, the rules: what is shown, what is let through, and why not."""

import re
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from console.pages import freshness
from recovery.approvals import selectors
from recovery.models import ApprovalRequest, AuditEntry, EnvironmentRule, Recovery, Vote
from recovery.workflow import broker, tasks
from tests import factories
from tests.pages import asked, refusal, shown
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
        "STATE_DROPPED", "Behind the plan", "Validation and rehearsal", "Way back",
        "Until batch 3 is committed", "Your decision", "Expires", row.plans.get().hash,
        "approver-2 approved", "Numbers match R-142", "responder cannot vote", "PRODUCTION",
        "Your vote is the second of 2.", "Rejecting ends this request.",
    ):  # fmt: skip
        assert part in shown, part


@pytest.mark.parametrize(
    ("rehearsed", "code"),
    [(True, "rows-rehearsed"), (False, "not-rehearsed"), (None, "rehearsal-not-noted")],
)
def test_the_approvers_page_says_what_of_the_plan_was_rehearsed(rehearsed: bool | None, code: str) -> None:
    row = factories.asked()
    plan = row.plans.get()
    type(plan).objects.filter(pk=plan.pk).update(body={**plan.body, "rehearsed": rehearsed})
    codes = asked(signed_in(factories.person("approver", "ann")), address(row)).codes
    assert {"rows-rehearsed", "not-rehearsed", "rehearsal-not-noted"} & set(codes) == {code}


@pytest.mark.parametrize("hash", ["", "0" * 64])
def test_a_vote_on_what_the_page_did_not_show_is_not_counted(hash: str) -> None:
    row = factories.asked()
    answer = vote(signed_in(factories.person("approver", "ann")), row, hash=hash)
    assert (answer.status_code, refusal(answer)) == (409, "stale_plan")
    assert not Vote.objects.exists()


def test_two_people_approve_and_the_responder_types_the_flows_name_to_run_it() -> None:
    row = factories.asked()
    for name in ("ann", "bob"):
        answer = vote(signed_in(factories.person("approver", name)), row)
        assert (answer.status_code, answer["Location"]) == (302, address(row))
    row.refresh_from_db()
    assert row.state == "approved"
    responder = signed_in(factories.person("responder"))
    assert asked(responder, f"/recoveries/{row.pk}/review").one("bar-asks-for-the-name")
    run = f"/recoveries/{row.pk}/run"
    assert responder.post(run, {"act": "execute"})["Location"] == f"{run}/confirm"
    assert asked(responder, f"{run}/confirm").value("approved-by") == "ann,bob"
    wrong = responder.post(run, {"confirmed": "continue", "typed": "something"})
    assert (wrong.status_code, refusal(wrong)) == (422, "not_the_name")
    row.refresh_from_db()
    assert row.state == "approved"
    typed = {"confirmed": "continue", "typed": row.flow.short, "hash": row.plans.get().hash}
    assert responder.post(run, typed)["Location"] == run
    row.refresh_from_db()
    assert row.state == "running"


def test_a_plan_is_asked_for_in_review_and_waits_visibly() -> None:
    row = factories.planned(factories.incident("staging"))
    factories.person("approver", "ann")
    client, review = signed_in(factories.person("responder")), f"/recoveries/{row.pk}/review"
    page = asked(client, review)
    assert page.one("bar-asks-for-votes")
    assert (page.primary() or {})["form"] == "ask"
    answer = client.post(review, {"act": "ask", "reason": "ticket", "hash": row.plans.get().hash})
    assert answer.status_code == 302
    made = ApprovalRequest.objects.get()
    assert (made.state, made.reason, made.requested_by) == ("open", "ticket", "responder")
    waiting = asked(client, review)
    assert waiting.one("bar-waits-for-votes")
    assert "edit" in waiting.acts()
    assert f"/approvals/{made.pk}" in waiting.links()
    refused = client.post(f"/recoveries/{row.pk}/run", {"act": "execute", "hash": row.plans.get().hash})
    assert (refused.status_code, refusal(refused)) == (409, "needs_approval")


def test_review_names_who_may_still_vote_and_no_one_once_it_is_decided() -> None:
    row = factories.asked()
    voters = [signed_in(factories.person("approver", name)) for name in ("ann", "bob")]
    client, review = signed_in(factories.person("responder")), f"/recoveries/{row.pk}/review"
    assert {"ann", "bob"} <= set(asked(client, review).one("may-vote").text.split(", "))
    vote(voters[0], row)
    assert "ann" not in asked(client, review).one("may-vote").text.split(", ")
    vote(voters[1], row)
    assert "may-vote" not in asked(client, review).codes


def test_an_approver_reads_in_review_that_they_may_vote_until_they_have() -> None:
    row = factories.asked()
    factories.person("approver", "cat")
    client = signed_in(factories.person("approver", "ann"))
    review = f"/recoveries/{row.pk}/review"
    assert "you" in asked(client, review).one("may-vote").text.split(", ")
    assert vote(client, row).status_code == 302
    assert "you" not in asked(client, review).one("may-vote").text.split(", ")


def test_a_vote_is_that_of_an_account_and_not_of_a_name() -> None:
    row = factories.asked()
    factories.vote(row, "bob")
    User.objects.filter(username="bob").update(username="robert")
    factories.person("approver", "bob")
    page = asked(signed_in(factories.person("responder")), f"/recoveries/{row.pk}/review")
    left = page.one("may-vote").text.split(", ")
    assert ("bob" in left, "robert" in left) == (True, False)


@pytest.mark.parametrize(("role", "named"), [("approver", True), ("admin", False)])
def test_before_votes_are_asked_for_who_may_ask_is_not_named_as_a_voter(role: str, named: bool) -> None:
    row = factories.planned(factories.incident("staging"))
    factories.person("approver", "cat")
    page = asked(signed_in(factories.person(role, "ann")), f"/recoveries/{row.pk}/review")
    assert ("you" in page.one("may-vote").text.split(", ")) is named


def test_a_plan_that_changed_while_it_was_read_is_not_asked_for() -> None:
    row = factories.planned(factories.incident("staging"))
    client = signed_in(factories.person("responder"))
    answer = client.post(f"/recoveries/{row.pk}/review", {"act": "ask", "hash": "0" * 64})
    assert (answer.status_code, refusal(answer)) == (409, "stale_plan")
    assert not ApprovalRequest.objects.exists()


@pytest.mark.parametrize(
    ("who", "why"),
    [
        (("viewer", "vic"), "Your role, viewer, may not vote on plans. Ask an approver."),
        (("responder", "rob"), "may not vote on plans"),
        (("admin", "adi"), "may not vote on plans"),
        (("approver", "responder"), "responder asked for this approval"),
        (("approver", "approver-2"), "You have already voted on this plan"),
    ],
)
def test_a_vote_that_does_not_count_cannot_be_pressed_and_says_why(who: tuple[str, str], why: str) -> None:
    user = factories.person(*who)
    row = factories.voted()
    client = signed_in(user)
    page = client.get(address(row))
    assert why in shown(page).one("may-not-vote").text
    assert 'name="vote"' not in page.content.decode()
    answer = vote(client, row)
    assert answer.status_code in (403, 409)
    assert Vote.objects.count() == 1
    assert AuditEntry.objects.latest("seq").outcome in ("denied", "failed")


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (factories.approved, "approved"),
        (factories.rejected, "rejected"),
        (factories.voided, "voided"),
        (factories.expired, "expired"),
    ],
)
def test_a_request_that_ended_says_how(make: Any, state: str) -> None:
    row = make()
    client = signed_in(factories.person("approver", "cat"))
    page = asked(client, address(row))
    assert page.one(f"request-{state}")
    assert "approve" not in page.acts()
    assert vote(client, row).status_code == 409


def test_what_is_late_is_shown_as_expired_before_anybody_wrote_it_down() -> None:
    row = factories.asked(expires_at=factories.ago(seconds=1))
    client = signed_in(factories.person("approver", "cat"))
    assert asked(client, address(row)).one("request-expired")
    assert asked(client, "/approvals").one("no-votes-wait")
    assert vote(client, row).status_code == 409


def test_a_stale_hash_is_refused_with_what_changed_and_the_reason_stays() -> None:
    row = factories.asked()
    answer = vote(signed_in(factories.person("approver", "cat")), row, hash="0" * 64)
    assert (answer.status_code, refusal(answer)) == (409, "stale_plan")
    assert REASON in plain(answer)
    assert not Vote.objects.exists()


def test_a_reason_that_is_too_short_is_refused_on_the_page() -> None:
    row = factories.asked()
    answer = vote(signed_in(factories.person("approver", "cat")), row, reason="ok")
    assert (answer.status_code, refusal(answer)) == (422, "no_reason")
    assert not Vote.objects.exists()


def test_a_double_click_is_one_vote() -> None:
    row, client = factories.asked(), signed_in(factories.person("approver", "cat"))
    assert [vote(client, row).status_code, vote(client, row).status_code] == [302, 409]
    assert Vote.objects.count() == 1


def test_production_asks_who_it_is_and_the_vote_is_given_afterwards() -> None:
    row, user = factories.asked(), factories.person("approver", "cat")
    client = signed_in(user, fresh=False)
    assert asked(client, address(row)).one("asks-password")
    sent = vote(client, row)
    assert sent["Location"].startswith("/reauthenticate?next=%2Fapprovals%2F")
    assert REASON in asked(client, sent["Location"]).one("not-done-yet").text
    wrong = client.post("/reauthenticate", {"password": "wrong", "next": address(row)})
    assert wrong.status_code == 422
    assert shown(wrong).all(id="problem")
    right = client.post("/reauthenticate", {"password": factories.PASSWORD, "next": address(row)})
    assert right["Location"] == address(row)
    assert not Vote.objects.exists()
    back = asked(client, address(row))
    assert back.one("vote-kept")
    assert back.all("textarea", name="reason")[0].text == REASON
    assert "vote-kept" not in asked(client, address(row)).codes
    assert vote(client, row).status_code == 302
    assert Vote.objects.get().voter == "cat"
    done = list(AuditEntry.objects.order_by("seq").values_list("action", "outcome"))
    assert done == [("session.confirm", "denied"), ("session.confirm", "done"), ("approval.vote", "done")]


def test_a_proof_is_good_for_ten_minutes_and_staging_asks_for_none() -> None:
    row, user = factories.asked(), factories.person("approver", "cat")
    client = signed_in(user)
    proved(client, user, time.time() - 60 * freshness.proof_minutes())
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
    with django_assert_max_num_queries(15):
        answer = client.get("/approvals")
    page = shown(answer)
    assert page.value("waiting") == "4"
    assert page.codes.count("waits-for-you") == 4
    assert {s.attributes["aria-labelledby"] for s in page.all("section", aria_labelledby=True)} == {
        "op",
        "ap",
        "en",
    }
    assert re.search(r"Approvals\s*4 open", plain(answer))


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
        assert asked(client, f"/recoveries/{row.pk}/{page}").one("broken-glass"), page
    assert AuditEntry.objects.filter(action="recovery.break_glass", outcome="done").count() == 1


def test_in_production_a_stale_sign_in_breaks_no_glass_until_it_is_proved_again() -> None:
    rule = selectors.rule_for("production").as_dict() | {"break_glass": True}
    EnvironmentRule.objects.create(**rule, changed_by="admin", changed_at=timezone.now())
    row, user = factories.asked(), factories.person("responder")
    there = f"/recoveries/{row.pk}/break-glass"
    given = {"reason": "Readers wait.", "typed": row.flow.short, "hash": row.plans.get().hash}
    client = signed_in(user, fresh=False)
    for age in (None, 60 * freshness.proof_minutes() + 1):
        if age is not None:
            proved(client, user, time.time() - age)
        sent = client.post(there, given)
        assert sent["Location"].startswith("/reauthenticate?next=%2Frecoveries%2F")
        row.refresh_from_db()
        assert (row.state, row.glasses.count()) == ("awaiting_approval", 0)

    assert "Readers wait." in asked(client, sent["Location"]).one("not-done-yet").text
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
    assert asked(client, there).one("no-break-glass")
    given = {"reason": REASON, "typed": row.flow.short}
    assert client.post(there, given).status_code == 422
    row.refresh_from_db()
    assert row.state == "planned"


def test_an_expired_recovery_says_so_and_leads_back_to_the_flow() -> None:
    row = factories.expired()
    page = asked(signed_in(factories.person("responder")), f"/recoveries/{row.pk}/review")
    assert page.one("plan-rejected")
    assert page.one("bar-ended")
