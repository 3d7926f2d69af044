"""Every page, for every role and for nobody: who gets it, who is told why not."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from recovery.models import AuditEntry, Flow, Recovery
from tests import factories

pytestmark = pytest.mark.django_db

ROLES = ("viewer", "responder", "approver", "auditor", "admin")
EVERYBODY = frozenset(ROLES)
RECOVER = frozenset({"responder", "admin"})
READERS = frozenset({"responder", "approver", "auditor", "admin"})

# address -> who may see it. {flow} and {recovery} are filled in.
GET: dict[str, frozenset[str]] = {
    "/": EVERYBODY,
    "/account": EVERYBODY,
    "/reauthenticate": EVERYBODY,
    "/approvals": EVERYBODY,
    "/approvals/{request}": EVERYBODY,
    "/flows/{flow}": EVERYBODY,
    "/flows/{flow}/checkpoint": EVERYBODY,
    "/flows/{flow}/events": EVERYBODY,
    "/flows/{flow}/code": EVERYBODY,
    "/flows/{flow}/recoveries": EVERYBODY,
    "/recoveries": EVERYBODY,
    "/recoveries/{recovery}/diagnose": EVERYBODY,
    "/recoveries/{recovery}/stop": EVERYBODY,
    "/recoveries/{recovery}/offset": EVERYBODY,
    "/recoveries/{recovery}/patch": EVERYBODY,
    "/recoveries/{recovery}/review": EVERYBODY,
    "/recoveries/{recovery}/run": EVERYBODY,
    "/recoveries/{recovery}/run/confirm": RECOVER,
    "/recoveries/{recovery}/break-glass": RECOVER,
    "/recoveries/{recovery}/log": EVERYBODY,
    "/recoveries/{recovery}/verify": EVERYBODY,
    "/recoveries/{recovery}/rollback": RECOVER,
    "/recoveries/{recovery}/cancel": RECOVER,
    "/audit": READERS,
    "/audit/1": READERS,
    "/audit/chain": READERS,
    "/audit/review": READERS,
    "/audit/recovery/{recovery}": READERS,
    "/audit/recovery/{recovery}/evidence.zip": frozenset({"auditor", "admin"}),
    "/audit/export": frozenset({"auditor", "admin"}),
    "/settings": frozenset({"admin"}),
    "/settings/notifications": frozenset({"admin"}),
    "/settings/notifications/new": frozenset({"admin"}),
    "/settings/notifications/{channel}": frozenset({"admin"}),
    "/settings/environments": frozenset({"admin"}),
    "/settings/environments/{environment}": frozenset({"admin"}),
    "/_components": frozenset({"admin"}),
}
POST: dict[str, frozenset[str]] = {
    "/flows/{flow}": RECOVER,
    "/recoveries/{recovery}/stop": RECOVER,
    "/recoveries/{recovery}/offset": RECOVER,
    "/recoveries/{recovery}/patch": RECOVER,
    "/recoveries/{recovery}/review": RECOVER,
    "/recoveries/{recovery}/run": RECOVER,
    "/recoveries/{recovery}/rollback": RECOVER,
    "/recoveries/{recovery}/cancel": RECOVER,
    "/recoveries/{recovery}/break-glass": RECOVER,
    "/approvals/{request}": frozenset({"approver"}),
    "/settings/environments/{environment}": frozenset({"admin"}),
    "/reauthenticate": EVERYBODY,
    "/account": EVERYBODY,
    "/settings/notifications": frozenset({"admin"}),
    "/settings/notifications/new": frozenset({"admin"}),
    "/settings/notifications/{channel}": frozenset({"admin"}),
    "/audit/1": frozenset({"approver", "auditor", "admin"}),
    "/audit/chain": READERS,
}


@pytest.fixture
def address(client: Client) -> Callable[[str], str]:
    """A planned recovery of a failed flow, and one audit entry to look at."""
    client.post("/sign-in", {"name": "nobody", "password": "wrong"})
    recovery = factories.planned()
    channel = factories.channel()
    other = factories.failed_flow(factories.pipeline(name="orders"))
    request = factories.asked(other).requests.get()
    return lambda path: path.format(
        flow=recovery.flow_id,
        recovery=recovery.pk,
        request=request.pk,
        environment="staging",
        channel=channel.pk,
    )


def test_the_table_names_every_page_of_the_console() -> None:
    from console.urls import urlpatterns

    without_right = {"sign-in", "sign-out", "theme"}
    routes = {
        "/"
        + re.sub(r"<int:(\w+)_id>", r"{\1}", str(p.pattern)).replace(
            "recovery/<str:label>", "recovery/{recovery}"
        )
        for p in urlpatterns
        if p.name not in without_right and p.name != "recovery"
    }
    shown = {
        "/audit/1": "/audit/<int:seq>",
        "/settings/environments/{environment}": "/settings/environments/<str:name>",
    }
    assert routes == {shown.get(path, path) for path in GET}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", GET)
def test_a_page_opens_for_the_roles_of_the_table_and_for_no_other(
    client: Client, address: Callable[[str], str], path: str, role: str
) -> None:
    client.force_login(factories.person(role))

    answer = client.get(address(path))

    assert answer.status_code == (200 if role in GET[path] else 403)


@pytest.mark.parametrize("path", GET)
def test_who_has_not_signed_in_is_led_to_the_sign_in_and_back(
    client: Client, address: Callable[[str], str], path: str
) -> None:
    answer = client.get(address(path))

    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in?next=%2F")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", POST)
def test_an_act_is_denied_to_every_role_without_its_right_and_changes_nothing(
    client: Client, address: Callable[[str], str], path: str, role: str
) -> None:
    target = address(path)
    before = list(Recovery.objects.values())
    client.force_login(factories.person(role))

    answer = client.post(target, {"name": "mine"})

    if role in POST[path]:
        assert answer.status_code != 403
    else:
        assert answer.status_code == 403
        assert list(Recovery.objects.values()) == before
        assert AuditEntry.objects.filter(actor=role, outcome="denied").count() == 1


def test_a_denied_page_says_in_one_sentence_why_and_writes_it_down(client: Client) -> None:
    client.force_login(factories.person("viewer"))

    answer = client.get("/audit")

    assert answer.status_code == 403
    assert "viewer has role viewer, which may not read the audit log." in answer.content.decode()
    entry = AuditEntry.objects.get(action="page.denied")
    assert (entry.actor, entry.outcome, entry.target) == ("viewer", "denied", "/audit")


@pytest.mark.parametrize(
    "path", ["/flows/999999", "/recoveries/999999/run", "/recoveries/R-999999", "/no-such", "/audit/99"]
)
def test_what_does_not_exist_is_a_calm_404_with_a_way_on(responder: Client, path: str) -> None:
    answer = responder.get(path)

    assert answer.status_code == 404
    assert "Go to Flows" in answer.content.decode()


def test_a_signed_in_account_without_a_role_may_see_nothing(client: Client) -> None:
    user = factories.person("viewer")
    user.person.delete()  # type: ignore[attr-defined]
    user.refresh_from_db()
    client.force_login(user)

    answer = client.get("/")

    assert answer.status_code == 403
    assert "no role in Reprise" in answer.content.decode()


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
