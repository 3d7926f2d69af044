"""Where a plan said that new rows can never be compared, no one is sent to measure them again."""

from typing import Any

import pytest
from django.test import Client

from recovery.management.commands import _acting
from recovery.models import Plan, Recovery
from recovery.strategies.provable import ROWS_NOT_PROVABLE
from recovery.workflow import broker, selectors
from tests import factories as f
from tests.pages import Element
from tests.unit.pages.test_further_plan import ways
from tests.unit.pages.test_run import on

pytestmark = pytest.mark.django_db
TOLD = {
    "code": ROWS_NOT_PROVABLE,
    "severity": "warning",
    "says": "It depends on state.",
    "do": "Compare them.",
}
UNSEEN = {"kind": "unknown", "declared": "", "place": "/out"}


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is there, and whether it can be rolled back is asked elsewhere."""
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: None)
    monkeypatch.setattr(_acting, "rollback_refusal", lambda recovery: None)


def unmeasured(code: str, **body: Any) -> Recovery:
    """A proof of which one criterion alone is open, by a plan with this in its body."""
    recovery = f.not_proven()
    proof = f.measured()
    open_criterion = {"code": code, "says": "", "expected": {}, "measured": None, "ok": None, "why": ""}
    proof["criteria"] = [open_criterion if c["code"] == code else c for c in proof["criteria"]]
    Recovery.objects.filter(pk=recovery.pk).update(measured={**proof, "verified": False})
    plan = recovery.plans.get()
    Plan.objects.filter(pk=plan.pk).update(body={**plan.body, **body})
    return Recovery.objects.get(pk=recovery.pk)


def list_recommended(page: Element) -> list[str]:
    return [code for code in ways(page) if "Recommended" in page.one(code).text]


@pytest.mark.parametrize("body", [{"findings": [TOLD]}, {"sink": UNSEEN}], ids=["state", "sink"])
def test_an_end_without_proof_is_recommended_where_the_plan_foresaw_it(
    responder: Client, body: dict[str, Any]
) -> None:
    recovery = unmeasured("EVERY_ROW_ONCE", **body)
    page = on(responder, recovery, "verify")
    assert ways(page)[:2] == ["end-without-proof", "measure-again"]
    assert list_recommended(page) == ["end-without-proof"]
    assert page.one("bar-beyond-proof")
    assert "bin/manage execute" not in _acting.ended(recovery).text


def test_who_may_not_end_it_is_shown_the_same_way_and_cannot_press_it(client: Client) -> None:
    client.force_login(f.person("viewer"))
    page = on(client, unmeasured("EVERY_ROW_ONCE", findings=[TOLD]), "verify")
    assert page.one("bar-beyond-proof")
    assert page.primary() is None


@pytest.mark.parametrize(
    ("code", "body"),
    [("EVERY_ROW_ONCE", {}), ("EACH_FILE_ONCE", {"findings": [TOLD]})],
    ids=["not foreseen", "another criterion is open"],
)
def test_what_was_not_foreseen_is_measured_again(responder: Client, code: str, body: dict[str, Any]) -> None:
    recovery = unmeasured(code, **body)
    page = on(responder, recovery, "verify")
    assert list_recommended(page) == ["measure-again"]
    assert "bin/manage execute" in _acting.ended(recovery).text
