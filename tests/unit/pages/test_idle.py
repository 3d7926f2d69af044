"""A session that nobody uses ends, and so does one that has lived its life; a page that polls uses nothing."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.test import Client
from django.utils import timezone

from recovery.models import AuditEntry
from tests import factories as f
from tests.pages import asked

pytestmark = pytest.mark.django_db
POLL = {"HX-Request": "true", "HX-Current-URL": "/recoveries"}


@pytest.fixture
def here(client: Client) -> Client:
    client.post("/sign-in", {"name": f.person("responder").username, "password": f.PASSWORD})
    assert client.get("/recoveries").status_code == 200
    return client


def unused_for(**delta: float) -> None:
    UserSession.objects.update(last_seen_at=timezone.now() - timedelta(**delta))


@pytest.mark.parametrize("headers", [{}, POLL])
def test_after_two_hours_without_use_one_signs_in_again(here: Client, headers: dict[str, str]) -> None:
    unused_for(minutes=119)
    assert here.get("/recoveries", headers=POLL).status_code == 200
    unused_for(minutes=121)
    answer = here.get("/recoveries", headers=headers)
    goal = answer["HX-Redirect"] if headers else answer["Location"]
    assert goal.startswith("/sign-in?next=%2Frecoveries")
    assert here.get("/recoveries").status_code == 302
    ended = AuditEntry.objects.get(action="session.end")
    assert (ended.actor, ended.target, "120 min" in ended.says) == ("responder", "responder", True)


def test_use_keeps_a_session_and_polling_does_not(here: Client) -> None:
    unused_for(minutes=100)
    here.get("/recoveries", headers=POLL)
    unused = timezone.now() - UserSession.objects.get().last_seen_at
    assert unused > timedelta(minutes=99)
    here.get("/recoveries")
    assert timezone.now() - UserSession.objects.get().last_seen_at < timedelta(minutes=1)


def test_a_used_session_ends_with_its_life(here: Client) -> None:
    UserSession.objects.update(created_at=timezone.now() - timedelta(hours=8, seconds=1))
    assert here.get("/recoveries").status_code == 302
    assert " 8 h " in AuditEntry.objects.get(action="session.end").says


def test_an_act_in_a_session_that_is_over_is_not_done(here: Client) -> None:
    unused_for(minutes=121)
    answer = here.post("/account", {"name": "mine"})
    assert answer["Location"].startswith("/sign-in")
    assert not AuditEntry.objects.filter(action="token.create").exists()


def test_how_long_is_a_setting_and_the_list_shows_no_session_that_is_over(
    here: Client, settings: Any
) -> None:
    settings.REPRISE_IDLE_MINUTES = 5
    other = Client()
    other.post("/sign-in", {"name": "responder", "password": f.PASSWORD})
    other.get("/account")
    both = asked(here, "/account").all("button", name="end_others")
    UserSession.objects.exclude(session_key=here.session.session_key).update(
        last_seen_at=timezone.now() - timedelta(minutes=6)
    )
    alone = asked(here, "/account").all("button", name="end_others")
    assert (len(both), len(alone)) == (1, 0)
    assert other.get("/account").status_code == 302
