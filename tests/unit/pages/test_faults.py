"""What a page answers when it cannot be made: a database that is away is no fault of Reprise, and passes."""

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import DataError, InterfaceError, OperationalError
from django.test import Client


@pytest.mark.parametrize(
    ("problem", "status", "says"),
    [
        (OperationalError("connection refused"), 503, "The database does not answer"),
        (InterfaceError("the connection is closed"), 503, "The database does not answer"),
        (DataError("value out of range"), 500, "A fault in Reprise"),
        (ZeroDivisionError(), 500, "A fault in Reprise"),
    ],
)
def test_a_database_that_is_away_is_told_from_a_fault(
    problem: Exception, status: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(store: SessionStore) -> None:
        raise problem

    monkeypatch.setattr(SessionStore, "_get_session_from_db", fails)
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "somebody"
    answer = client.get("/")
    text = answer.content.decode()

    assert (answer.status_code, f"<h1>{says}</h1>" in text) == (status, True)
    assert answer.headers.get("Retry-After") == ("5" if status == 503 else None)
    assert f"<code>{answer.headers['X-Request-ID']}</code>" in text
    assert "may or may not have been done" in text
