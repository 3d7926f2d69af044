"""What a page answers when it cannot be made: a database that is away is no fault of Reprise, and passes."""

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import DataError, InterfaceError, OperationalError
from django.test import Client

from tests.pages import shown


@pytest.mark.parametrize(
    ("problem", "status", "code"),
    [
        (OperationalError("connection refused"), 503, "database-away"),
        (InterfaceError("the connection is closed"), 503, "database-away"),
        (DataError("value out of range"), 500, "fault"),
        (ZeroDivisionError(), 500, "fault"),
    ],
)
def test_a_database_that_is_away_is_told_from_a_fault(
    problem: Exception, status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(store: SessionStore) -> None:
        raise problem

    monkeypatch.setattr(SessionStore, "_get_session_from_db", fails)
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "somebody"
    answer = client.get("/")
    text = answer.content.decode()

    assert (answer.status_code, shown(answer).codes) == (status, [code, "maybe-done"])
    assert answer.headers.get("Retry-After") == ("5" if status == 503 else None)
    assert f"<code>{answer.headers['X-Request-ID']}</code>" in text
