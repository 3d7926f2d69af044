"""Signing in: audited either way, slow to guess, and never a way to another site."""

from typing import Any

import pytest
from django.core.cache.backends.locmem import LocMemCache
from django.test import Client

from recovery.models import AuditEntry
from recovery.people import limits
from tests import factories as f
from tests.pages import refusal, shown

pytestmark = pytest.mark.django_db


class HeldCache(LocMemCache):
    """A cache in which another process holds every lock."""

    def add(self, key: str, *args: Any, **kwargs: Any) -> bool:
        return False if key.endswith("lock") else super().add(key, *args, **kwargs)


def sign_in(client: Client, name: str = "responder", password: str = f.PASSWORD, **more: str) -> int:
    return client.post("/sign-in", {"name": name, "password": password, **more}).status_code


def test_a_good_sign_in_leads_to_the_page_that_was_wanted_and_is_audited(client: Client) -> None:
    f.person("responder")

    answer = client.post(
        "/sign-in", {"name": "responder", "password": f.PASSWORD, "next": "/recoveries?show=open"}
    )

    assert answer["Location"] == "/recoveries?show=open"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.outcome, entry.actor, entry.role) == (
        "session.sign_in",
        "done",
        "responder",
        "responder",
    )
    assert entry.request_id.startswith("req-")


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://example.org/",
        "//example.org",
        "http:///example.org",
        "javascript:alert(1)",
        "\\\\example.org",
        "",
    ],
)
def test_a_sign_in_never_leads_to_another_site(client: Client, elsewhere: str) -> None:
    f.person("responder")

    answer = client.post("/sign-in", {"name": "responder", "password": f.PASSWORD, "next": elsewhere})

    assert answer["Location"] == "/"


@pytest.mark.parametrize(("name", "password"), [("responder", "not-this-one"), ("nobody", f.PASSWORD)])
def test_a_refused_sign_in_does_not_say_which_of_the_two_was_wrong(
    client: Client, name: str, password: str
) -> None:
    f.person("responder")

    answer = client.post("/sign-in", {"name": name, "password": password})

    assert (answer.status_code, refusal(answer)) == (422, "wrong-password")
    assert password not in answer.content.decode()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.outcome, entry.target) == ("session.refused", "denied", name)


def test_guessing_is_stopped_after_ten_tries_even_with_the_right_password(client: Client) -> None:
    f.person("responder")
    for _ in range(10):
        assert sign_in(client, password="guess") == 422

    answer = client.post("/sign-in", {"name": "responder", "password": f.PASSWORD})

    assert (answer.status_code, refusal(answer)) == (422, "too-many-for-name")
    f.person("viewer")
    assert sign_in(client, name="viewer") == 302


def test_people_who_share_an_address_all_get_in(client: Client) -> None:
    """Behind a proxy that is not named everybody has one address; only refused tries count against it."""
    f.person("responder")
    assert {sign_in(client) for _ in range(limits.LIMITS["address"][0] + 1)} == {302}


def test_a_lock_that_somebody_holds_keeps_nobody_out(client: Client, settings: Any) -> None:
    """A process that ends while it counts leaves its lock behind; a busy machine holds it for long."""
    f.person("responder")
    settings.CACHES = {"default": {"BACKEND": "tests.unit.pages.test_session.HeldCache"}}
    assert sign_in(client) == 302


def test_a_service_account_cannot_sign_in(client: Client) -> None:
    user = f.person("responder", "svc-deploy")
    user.person.service = True  # type: ignore[attr-defined]
    user.person.save()  # type: ignore[attr-defined]

    assert sign_in(client, name="svc-deploy") == 422


def test_signing_out_ends_the_session_and_only_by_a_form(responder: Client) -> None:
    assert responder.get("/sign-out").status_code == 405

    assert responder.post("/sign-out")["Location"] == "/sign-in"

    assert responder.get("/").status_code == 302
    assert AuditEntry.objects.get().action == "session.sign_out"


def test_a_form_without_its_token_is_refused_in_plain_words() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(f.person("responder"))

    answer = client.post("/sign-out")

    assert (answer.status_code, "stale-form" in shown(answer).codes) == (403, True)


def test_a_polling_part_of_a_person_whose_session_ended_takes_the_page_to_the_sign_in(client: Client) -> None:
    answer = client.get(
        "/?part=list", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/?show=all"}
    )

    assert answer.status_code == 204
    assert answer["HX-Redirect"] == "/sign-in?next=http%3A%2F%2Ftestserver%2F%3Fshow%3Dall"


@pytest.mark.parametrize(
    ("theme", "attribute"), [("dark", 'data-theme="dark"'), ("light", 'data-theme="light"')]
)
def test_a_person_may_choose_the_colours(client: Client, theme: str, attribute: str) -> None:
    client.post("/theme", {"theme": theme, "next": "/sign-in"})

    assert attribute in client.get("/sign-in").content.decode()

    client.post("/theme", {"theme": "system"})
    assert "data-theme" not in client.get("/sign-in").content.decode()
