"""Sessions that are over leave the database, with what was noted of them."""

from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.utils import timezone

from recovery.people.tasks import clear_sessions
from tests import factories

pytestmark = pytest.mark.django_db


def test_only_sessions_that_are_over_go() -> None:
    user = factories.person("viewer")
    for key, hours in (("over", -1), ("open", 1)):
        Session.objects.create(
            session_key=key, session_data="", expire_date=timezone.now() + timedelta(hours=hours)
        )
        UserSession.objects.create(user=user, session_key=key, ip="127.0.0.1", user_agent="")
    clear_sessions()
    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]
    assert list(UserSession.objects.values_list("session_key", flat=True)) == ["open"]
