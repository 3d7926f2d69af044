"""A plan that costs rows is sealed on the review page once a person has accepted that, with a reason."""

from typing import Any

import pytest
from django.test import Client

from console.presenters import reviewing
from recovery.contracts import codec
from recovery.contracts.acceptance import Acceptance, Accepted, Cost, Effect
from recovery.contracts.amounts import Bound
from recovery.errors import Unreachable
from recovery.models import AuditEntry, Plan, Recovery
from recovery.workflow import broker
from tests import factories as f
from tests.factories.acceptances import read_accepted
from tests.pages import Element, asked, refusal, shown

pytestmark = pytest.mark.django_db
REASON = "They are counted by hand."
LOSS = Effect.LOSS
REPEATED = Cost(effect=Effect.REPEATS, rows=None, bound=Bound.UNKNOWN, why="Batch 3 is read again.")


@pytest.fixture(autouse=True)
def broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)


def review(client: Client, of: Recovery) -> Element:
    return asked(client, f"/recoveries/{of.pk}/review")


def accept(client: Client, of: Recovery, *what: str, reason: str = REASON) -> Any:
    (seen,) = review(client, of).all("input", type="hidden", name="shown")
    given = {
        "act": "accept",
        "accept": list(what),
        "reason": reason,
        "shown": seen.attributes["value"],
    }
    return client.post(f"/recoveries/{of.pk}/review", given)


def asks(page: Element) -> list[str]:
    return [
        box.attributes["value"] for box in page.all("input", type="checkbox", name="accept", required=True)
    ]


def test_what_was_refused_is_asked_with_its_rows_and_sealed_with_them(responder: Client) -> None:
    of = f.to_accept()
    assert asks(review(responder, of)) == ["loss"]

    assert accept(responder, of, "loss").status_code == 302

    of.refresh_from_db()
    held = read_accepted(of.choices["accepted"])
    assert held == Accepted(
        loss=Acceptance(effect=LOSS, by="responder", reason=REASON, rows=9, bound=Bound.EXACT)
    )
    assert of.choices["sealing"]["status"] == "working"
    assert AuditEntry.objects.get(action="recovery.accept").reason == REASON


def test_who_is_asked_to_accept_reads_first_what_is_lost_and_what_would_cost_nothing(
    responder: Client,
) -> None:
    page = review(responder, f.to_accept())
    assert (page.value("outlook"), page.value("lost"), page.value("doubled")) == ("continue", "9", "0")
    assert page.one("lost-windows")
    assert "way-revert" in page.codes
    assert "way-continue" not in page.codes


def test_numbers_that_sealing_has_overtaken_are_not_shown_beside_what_it_found(responder: Client) -> None:
    of = f.to_accept(None, f.STATE_ROWS, REPEATED)  # it was counted as doubling nothing
    assert "outlook" not in review(responder, of).codes


def test_both_costs_are_asked_and_accepted_together(responder: Client) -> None:
    of = f.to_accept(None, f.STATE_ROWS, REPEATED)
    assert asks(review(responder, of)) == ["loss", "repeats"]
    accept(responder, of, "loss", "repeats")
    of.refresh_from_db()
    held = read_accepted(of.choices["accepted"])
    assert held.loss
    assert held.repeats
    assert (held.repeats.rows, held.repeats.bound) == (None, Bound.UNKNOWN)


def test_what_another_person_accepted_stays_in_that_persons_name(responder: Client) -> None:
    of = f.to_accept(None, f.STATE_ROWS, REPEATED)
    held = Accepted(
        loss=Acceptance(effect=LOSS, by="anna", reason="Nine old rows.", rows=9, bound=Bound.EXACT)
    )
    Recovery.objects.filter(pk=of.pk).update(choices={**of.choices, "accepted": codec.to_json(held)})
    assert asks(review(responder, of)) == ["repeats"]
    accept(responder, of, "repeats")
    of.refresh_from_db()
    now = read_accepted(of.choices["accepted"])
    assert now.loss == held.loss
    assert now.repeats
    assert (now.repeats.by, now.repeats.reason) == ("responder", REASON)


def test_who_accepted_fewer_rows_is_named_where_more_are_asked(responder: Client) -> None:
    of = f.to_accept()
    held = Accepted(
        loss=Acceptance(effect=LOSS, by="anna", reason="Three old rows.", rows=3, bound=Bound.EXACT)
    )
    Recovery.objects.filter(pk=of.pk).update(choices={**of.choices, "accepted": codec.to_json(held)})
    page = review(responder, of)
    assert asks(page) == ["loss"]
    (row,) = reviewing.list_costs([f.STATE_ROWS], held)
    assert (row.held_by, row.held) == ("anna", "3 rows")
    assert "anna" in page.one("loses_rows").text


def test_without_a_broker_nothing_is_accepted(responder: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise Unreachable("The broker does not answer. Nothing was changed.", code="no_broker")

    of = f.to_accept()
    monkeypatch.setattr(broker, "check", away)
    accept(responder, of, "loss")
    of.refresh_from_db()
    assert "accepted" not in of.choices
    assert [e.outcome for e in AuditEntry.objects.filter(action="recovery.accept")] == ["failed"]


def test_what_was_not_shown_is_not_accepted(responder: Client) -> None:
    of = f.to_accept()
    given = {"act": "accept", "accept": ["loss"], "reason": REASON, "shown": "loss:3:exact"}
    assert refusal(responder.post(f"/recoveries/{of.pk}/review", given)) == "other_costs"
    of.refresh_from_db()
    assert "accepted" not in of.choices


def test_a_plan_of_before_names_the_one_who_accepted_it(responder: Client) -> None:
    accepted = {"loss": True, "repeats": False, "by": "anna", "reason": "They are tests."}
    body = {**f.losing().plans.get().body, "accepted": accepted}
    (row,) = reviewing.list_acceptances(Plan(body=body))
    assert (row.code, row.by, row.reason) == ("accepted-loss", "anna", "They are tests.")


def test_what_the_facts_foresee_is_asked_before_anything_is_sealed(responder: Client) -> None:
    assert asks(review(responder, f.at_review(strategy="full-refresh"))) == ["repeats"]
    assert asks(review(responder, f.at_review())) == []


@pytest.mark.parametrize(("what", "reason"), [((), REASON), (("loss",), "short"), (("everything",), REASON)])
def test_nothing_is_accepted_without_a_tick_and_a_reason(
    responder: Client, what: tuple[str, ...], reason: str
) -> None:
    of = f.to_accept()
    answer = accept(responder, of, *what, reason=reason)
    assert refusal(answer) == "bad_choice"
    assert shown(answer).all("textarea", name="reason")[0].text == reason
    of.refresh_from_db()
    assert "accepted" not in of.choices


def test_a_viewer_is_not_asked(client: Client) -> None:
    client.force_login(f.person("viewer"))
    assert asks(review(client, f.to_accept())) == []


def test_approvers_see_what_was_accepted_in_the_plan(responder: Client) -> None:
    assert review(responder, f.losing()).one("accepted-loss")
    assert not review(responder, f.planned(f.incident())).all(data_code="accepted-loss")
