"""What every unit test stands on."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.urls import set_urlconf

from recovery.audit import anchor
from recovery.pipelines.transport import Transport
from tests.instances import instances

__all__ = ["instances"]


@pytest.fixture(autouse=True)
def _nothing_outlives_the_rollback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a test is rolled back with it, and the next one's begins anew; so the files that keep its head
    outside of the database are left unwritten, on PostgreSQL as on SQLite in memory."""
    real = anchor.name_of

    def name_of(asked: BaseDatabaseWrapper) -> str:
        return "" if asked is connection or asked.alias == connection.alias else real(asked)

    monkeypatch.setattr(anchor, "name_of", name_of)


@pytest.fixture(autouse=True)
def _tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pipelines API that does not answer is asked again without the pause between, where a test names none."""
    monkeypatch.setitem(Transport.__init__.__kwdefaults__, "pause", lambda _seconds: None)


@pytest.fixture(autouse=True)
def _addresses_are_the_consoles() -> Iterator[None]:
    """The Pipelines API answers with addresses of its own, and keeps them for its thread until an answer is closed."""
    yield
    set_urlconf(None)
