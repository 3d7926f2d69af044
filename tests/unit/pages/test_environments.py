"""The rules of environments: what an admin may write, and that a rule nobody can read locks nobody out."""

from typing import Any

import pytest
from django.utils import timezone

from recovery.approvals import selectors
from recovery.models import AuditEntry, EnvironmentRule
from tests import factories
from tests.unit.pages.reading import plain, signed_in

pytestmark = pytest.mark.django_db

RULE = {
    "version": "0", "votes": "3", "expiry_hours": "4", "waiting_minutes": "5", "groups": "data 1: ann, bob\nops 1: cat",
    "freezes": "Fri 18:00 - Mon 08:00 Europe/Berlin weekend", "break_glass": "on", "break_glass_minutes": "30",
    "strategies": ["continue", "revert"],
}  # fmt: skip


def test_an_admin_changes_a_rule_and_before_and_after_are_in_the_log() -> None:
    client = signed_in(factories.person("admin"))
    answer = client.post("/settings/environments/production", RULE)
    assert answer["Location"] == "/settings/environments"
    rule = selectors.rule_for("production")
    assert (rule.votes, rule.expiry_hours, rule.waiting_minutes, rule.break_glass) == (3, 4, 5, True)
    assert rule.strategies == ("continue", "revert")
    assert [g.name for g in rule.groups] == ["data", "ops"]
    entry = AuditEntry.objects.get(action="environment.rule")
    assert (entry.before["votes"], entry.after["votes"]) == (2, 3)
    shown = plain(client.get("/settings/environments"))
    assert "1 of ann, bob" in shown
    assert "by admin" in shown
    page = client.get("/settings/environments/production").content.decode()
    assert "data 1: ann, bob" in page
    assert 'value="revert" checked' in page
    assert 'value="repair" checked' not in page


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"votes": "0"}, "at least 1 other person"),
        ({"votes": "many"}, "Votes needed: Enter a whole number."),
        ({"requester_may_vote": "on"}, "cannot approve what you asked for"),
        ({"groups": "just names"}, "is no group"),
        ({"freezes": "on Fridays"}, "is no freeze window"),
        ({"freezes": "0026-12-20 00:00 - 0027-01-04 06:00 UTC weekend"}, "years 2000 to 9998"),
        ({"waiting_minutes": "240"}, "no plan could ever run"),
        ({"strategies": []}, "At least one strategy"),
        ({"version": "4"}, "meanwhile"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_and_what_was_typed_stays(
    change: dict[str, Any], says: str
) -> None:
    client = signed_in(factories.person("admin"))
    answer = client.post("/settings/environments/production", {**RULE, **change})
    assert answer.status_code == 422
    assert says in plain(answer).replace("&#x27;", "'")
    assert "weekend" in answer.content.decode() or "Fridays" in answer.content.decode()
    assert not EnvironmentRule.objects.exists()


def test_a_kept_freeze_window_that_nobody_can_read_leaves_every_page_and_the_form_reachable() -> None:
    """As an older version kept one of the year 26: held as frozen, until somebody writes it anew."""
    row = factories.asked(factories.incident("staging"))
    kept = "26-12-20 00:00 - 27-01-04 06:00 UTC holidays"
    EnvironmentRule.objects.create(
        environment="staging", votes=1, expiry_hours=24, freezes=[kept], version=1,
        changed_by="root", changed_at=timezone.now(),
    )  # fmt: skip
    admin, responder = signed_in(factories.person("admin")), signed_in(factories.person("responder"))
    assert kept in admin.get("/settings/environments/staging").content.decode()
    assert kept in plain(admin.get("/settings/environments"))
    for page in ("review", "run", "break-glass"):
        assert responder.get(f"/recoveries/{row.pk}/{page}").status_code < 500
    anew = {
        **RULE,
        "version": "1",
        "freezes": "2026-12-20 00:00 - 2027-01-04 06:00 UTC holidays",
        "groups": "",
    }
    assert admin.post("/settings/environments/staging", anew).status_code == 302
    assert [str(w) for w in selectors.rule_for("staging").freezes] == [anew["freezes"]]


def test_an_environment_that_is_not_there_is_a_calm_404() -> None:
    assert signed_in(factories.person("admin")).get("/settings/environments/moon").status_code == 404
