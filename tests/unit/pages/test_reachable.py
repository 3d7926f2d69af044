"""Pages that are refused or not there say so calmly. Who may see what: tests/unit/people/test_truth_table.py."""

import pytest
from django.test import Client

from recovery.models import AuditEntry, Flow
from recovery.people.roles import Right
from tests import factories
from tests.pages import shown

pytestmark = pytest.mark.django_db


def test_a_denied_page_says_in_one_sentence_why_and_writes_it_down(client: Client) -> None:
    client.force_login(factories.person("viewer"))

    answer = client.get("/audit")

    assert (answer.status_code, "denied" in shown(answer).codes) == (403, True)
    assert Right.READ_AUDIT in answer.content.decode()
    entry = AuditEntry.objects.get(action="page.denied")
    assert (entry.actor, entry.outcome, entry.target) == ("viewer", "denied", "/audit")


@pytest.mark.parametrize(
    "path",
    [
        "/flows/999999", "/recoveries/999999/run", "/recoveries/R-999999", "/recoveries/R-999999/run", "/no-such",
        "/audit/99",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_a_calm_404_with_a_way_on(responder: Client, path: str) -> None:
    answer = responder.get(path)

    assert answer.status_code == 404
    assert "Go to Flows" in answer.content.decode()


@pytest.mark.parametrize("page", ["run", "verify", "run/confirm", "report.json?x=1"])
def test_a_page_of_a_recovery_is_reached_by_its_label(responder: Client, page: str) -> None:
    recovery = factories.planned()
    answer = responder.get(f"/recoveries/{recovery.label}/{page}")
    assert (answer.status_code, answer["Location"]) == (302, f"/recoveries/{recovery.pk}/{page}")
    for unknown in (recovery.label, recovery.pk):
        assert responder.get(f"/recoveries/{unknown}/no-such", follow=True).status_code == 404


def test_a_signed_in_account_without_a_role_may_see_nothing(client: Client) -> None:
    user = factories.person("viewer")
    user.person.delete()  # type: ignore[attr-defined]
    user.refresh_from_db()
    client.force_login(user)

    answer = client.get("/")

    assert (answer.status_code, "no_role" in shown(answer).codes) == (403, True)


def test_a_page_is_never_kept_by_a_cache_and_its_policy_allows_nothing_inline(responder: Client) -> None:
    factories.incident()

    answer = responder.get("/?show=all")

    assert answer["Cache-Control"] == "no-store"
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    page = answer.content.decode()
    assert " style=" not in page
    assert "<style" not in page
    assert " onclick" not in page
    assert Flow.objects.count() == 3
