"""Where a proof did not find rows, or found some too often, the first way on adds them, or deletes what repeats, once:
with the number, by a plan that is seen before."""

from collections.abc import Callable

import pytest
from django.test import Client

from recovery.workflow import broker, selectors
from tests import factories as f
from tests.pages import Element
from tests.unit.pages.test_run import on

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is there, and whether it can be rolled back is asked elsewhere."""
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: None)


def ways(page: Element) -> list[str]:
    known = (
        "top-up",
        "deduplicate",
        "ask-owner",
        "measure-again",
        "rollback",
        "not-undoable",
        "end-without-proof",
        "never-skipped",
    )
    return [code for code in page.codes if code in known]


def test_the_missing_rows_are_the_first_way_on_and_the_bar_plans_them(responder: Client) -> None:
    of = f.rows_missing()
    page = on(responder, of, "verify")
    assert ways(page)[:3] == ["top-up", "ask-owner", "measure-again"]
    assert page.one("bar-plans-missing-rows")
    assert (page.primary() or {}).get("value") == "top-up"
    assert "2 missing rows" in page.one("top-up").text


@pytest.mark.parametrize(
    ("kind", "key"), [("files", ("customer_id",)), ("kafka", ("customer_id",)), ("delta", ())]
)
def test_no_way_on_adds_rows_where_a_table_or_its_key_does_not_let_it(
    kind: str, key: tuple[str, ...]
) -> None:
    client = Client()
    client.force_login(f.person("responder"))
    assert ways(on(client, f.rows_missing(kind=kind, key=key), "verify"))[0] == "ask-owner"


def test_planning_them_opens_a_further_plan_and_changes_nothing_yet(
    responder: Client, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    of = f.rows_missing()

    answer = responder.post(f"/recoveries/{of.pk}/verify", {"act": "top-up"})

    assert answer["Location"] == f"/recoveries/{of.pk}/review"
    of.refresh_from_db()
    assert (of.state, of.chosen.strategy, of.chosen.sealing.status) == ("diagnosing", "top-up", "working")
    assert of.plans.filter(voided_at=None).count() == 1
    asked = on(responder, of, "cancel")
    assert asked.one("give-up-further")
    answer = responder.post(f"/recoveries/{of.pk}/cancel", {"reason": "Not now."})
    assert answer["Location"] == f"/recoveries/{of.pk}/verify"
    of.refresh_from_db()
    assert of.state == "needs_attention"
    assert ways(on(responder, of, "verify"))[0] == "top-up"


def test_another_act_on_the_proof_is_refused(responder: Client) -> None:
    assert responder.post(f"/recoveries/{f.rows_missing().pk}/verify", {"act": "x"}).status_code == 400


@pytest.mark.parametrize("missing", [0, 2])
def test_rows_that_are_there_too_often_are_deleted_before_any_is_added(
    responder: Client, missing: int, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    of = f.rows_repeated(missing=missing)
    page = on(responder, of, "verify")
    assert ways(page)[:3] == ["deduplicate", "ask-owner", "measure-again"]
    assert page.one("bar-plans-repeated-rows")
    assert (page.primary() or {}).get("value") == "deduplicate"
    assert "3 repeated rows" in page.one("deduplicate").text

    answer = responder.post(f"/recoveries/{of.pk}/verify", {"act": "deduplicate"})

    assert answer["Location"] == f"/recoveries/{of.pk}/review"
    of.refresh_from_db()
    assert (of.state, of.chosen.strategy) == ("diagnosing", "deduplicate")
