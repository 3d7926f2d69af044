"""A forgotten password: a link by mail, the same answer for everybody, rarely, once, and audited."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.utils import timezone

from recovery.errors import Unreachable
from recovery.models import AuditEntry, Invitation
from recovery.people import password_reset, tasks
from recovery.people.actions import invite_person
from recovery.people.identity import actor_for_user
from recovery.workflow import broker
from tests import factories as f

pytestmark = pytest.mark.django_db
NEW = "another four calm words"


@pytest.fixture(autouse=True)
def post_office(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "mail.example", "reprise@corp.example"
    settings.REPRISE_PUBLIC_URL = "https://reprise.corp.example"
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(tasks.send_link, "delay", lambda *args: tasks.send_link(*args))


@pytest.fixture
def ada() -> User:
    user = f.person("responder", "ada")
    user.email = "ada@corp.example"
    user.save()
    return user


def ask(client: Client, email: str, capture: Any) -> Any:
    with capture(execute=True):
        return client.post("/forgotten", {"email": email})


def link() -> str:
    found = re.search(r"https://reprise.corp.example(/invitation/\S+)", mail.outbox[-1].body)
    assert found
    return found[1]


def test_a_link_comes_by_mail_sets_the_password_once_and_ends_open_sessions(
    client: Client, ada: User, django_capture_on_commit_callbacks: Any
) -> None:
    assert 'href="/forgotten"' in client.get("/sign-in").content.decode()
    open_one = Client()
    open_one.force_login(ada)
    assert (
        "on its way" in ask(client, " Ada@corp.example ", django_capture_on_commit_callbacks).content.decode()
    )
    assert mail.outbox[0].to == ["ada@corp.example"]
    assert ada.username in mail.outbox[0].body
    there = link()
    assert client.post(there, {"password": NEW, "again": NEW})["Location"] == "/sign-in"
    assert client.post(there, {"password": NEW, "again": NEW}).status_code == 404
    assert open_one.get("/")["Location"].startswith("/sign-in")
    assert client.post("/sign-in", {"name": "ada", "password": NEW}).status_code == 302
    assert [e.code for e in AuditEntry.objects.order_by("seq")][:2] == [
        "person.forgot.done",
        "person.joined.done",
    ]
    assert there.rpartition("/")[2] not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    "why", ["unknown", "switched off", "a service account", "no password", "no role", "two people's", "empty"]
)
def test_everybody_else_reads_the_same_and_gets_nothing(
    client: Client, ada: User, why: str, django_capture_on_commit_callbacks: Any
) -> None:
    told = ask(client, ada.email, django_capture_on_commit_callbacks).content
    mail.outbox.clear()
    email = {"unknown": "eve@corp.example", "empty": ""}.get(why, ada.email)
    if why == "switched off":
        User.objects.update(is_active=False)
    elif why == "a service account":
        ada.person.service = True  # type: ignore[attr-defined]
        ada.person.save()  # type: ignore[attr-defined]
    elif why == "no password":
        ada.set_unusable_password()
        ada.save()
    elif why == "no role":
        ada.person.delete()  # type: ignore[attr-defined]
    elif why == "two people's":
        f.person("viewer", "twin")
        User.objects.update(email=ada.email)
    answer = ask(client, email, django_capture_on_commit_callbacks)
    assert (answer.status_code, answer.content) == (200, told)
    assert mail.outbox == []
    denied = AuditEntry.objects.order_by("-seq")[0]
    assert (denied.code, denied.target) == ("person.forgot.denied", email)


def test_the_page_itself_looks_nobody_up(client: Client, ada: User, django_assert_num_queries: Any) -> None:
    for email in (ada.email, "eve@corp.example"):
        with django_assert_num_queries(2):  # the savepoint in which the worker's wake-up is kept
            client.post("/forgotten", {"email": email})


@pytest.mark.parametrize("email", ["ada@corp.example", "eve@corp.example"])
def test_after_three_links_an_hour_one_waits_whether_the_address_is_known_or_not(
    client: Client, ada: User, email: str, django_capture_on_commit_callbacks: Any
) -> None:
    asked = [ask(client, email, django_capture_on_commit_callbacks).status_code for _ in range(4)]
    assert asked == [200, 200, 200, 429]


def test_a_newer_link_ends_the_older_one_and_never_an_invitation(
    client: Client, ada: User, django_capture_on_commit_callbacks: Any
) -> None:
    admin = actor_for_user(f.person("admin"), via="page")
    invited = invite_person(person=ada.person, by=admin)  # type: ignore[attr-defined]
    ask(client, ada.email, django_capture_on_commit_callbacks)
    older = link()
    ask(client, ada.email, django_capture_on_commit_callbacks)
    assert client.get(older).status_code == 404
    assert client.get(link()).status_code == 200
    assert client.get(f"/invitation/{invited}").status_code == 200


def test_a_link_is_good_for_an_hour(
    client: Client, ada: User, django_capture_on_commit_callbacks: Any
) -> None:
    ask(client, ada.email, django_capture_on_commit_callbacks)
    until = Invitation.objects.get().expires_at - timezone.now()
    assert 3590 < until.total_seconds() <= 3600


def test_without_a_mail_server_there_is_no_such_page_and_no_way_to_it(client: Client, settings: Any) -> None:
    settings.EMAIL_HOST = ""
    assert client.get("/forgotten").status_code == 404
    assert client.post("/forgotten", {"email": "ada@corp.example"}).status_code == 404
    assert "/forgotten" not in client.get("/sign-in").content.decode()


def test_without_a_broker_everybody_reads_that_it_cannot_be_done_now(
    client: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise Unreachable("The broker does not answer.")

    monkeypatch.setattr(broker, "check", away)
    for email in (ada.email, "eve@corp.example"):
        assert client.post("/forgotten", {"email": email}).status_code == 503


def test_a_mail_that_was_not_taken_leaves_no_link(ada: User, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    password_reset.send_link(email=ada.email, place="192.0.2.7")
    assert Invitation.objects.get().ended_at is not None
    assert [e.code for e in AuditEntry.objects.order_by("seq")] == [
        "person.forgot.done",
        "person.forgot.failed",
    ]
    assert "from 192.0.2.7" in AuditEntry.objects.get(outcome="done").says
