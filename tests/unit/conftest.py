"""What every unit test stands on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.urls import set_urlconf
from whitenoise.base import WhiteNoise, scantree

from recovery.audit import anchor
from recovery.pipelines.transport import Transport
from tests.instances import instances

__all__ = ["instances"]


@pytest.fixture(autouse=True)
def _nothing_outlives_the_rollback() -> Iterator[None]:
    with without_anchor():
        yield


@contextmanager
def without_anchor() -> Iterator[None]:
    """Write no file that keeps the head of the audit log outside of the database, on PostgreSQL as on SQLite in memory:
    the log of a test is rolled back with it, and the next test's log begins again."""
    real = anchor.name_of

    def name_of(asked: BaseDatabaseWrapper) -> str:
        return "" if asked is connection or asked.alias == connection.alias else real(asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anchor, "name_of", name_of)
        yield


@pytest.fixture(scope="session", autouse=True)
def _reads_static_files_once() -> Iterator[None]:
    """Every client of Django makes the middleware again, and WhiteNoise reads the whole folder of static files for it.
    The same files with the same settings are kept from the client before."""
    real = WhiteNoise.update_files_dictionary
    kept: dict[Any, dict[str, Any]] = {}

    def update_files_dictionary(self: WhiteNoise, root: str, prefix: str) -> None:
        files = tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in scantree(root))
        settings = (
            self.max_age,
            self.allow_all_origins,
            self.charset,
            self.index_file,
            self.add_headers_function,
        )
        key = (type(self), root, prefix, settings, files)
        if key not in kept:
            before, self.files = self.files, {}
            real(self, root, prefix)
            kept[key], self.files = self.files, before
        self.files.update(kept[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoise, "update_files_dictionary", update_files_dictionary)
        yield


@pytest.fixture(autouse=True)
def _tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pipelines API that does not answer is asked again without the pause between, where a test names none."""
    monkeypatch.setitem(Transport.__init__.__kwdefaults__, "pause", lambda _seconds: None)


@pytest.fixture(autouse=True)
def _addresses_are_the_consoles() -> Iterator[None]:
    """The Pipelines API answers with addresses of its own, and keeps them for its thread until an answer is closed."""
    yield
    set_urlconf(None)
