"""Actors, and a log with five entries."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from recovery.audit import anchor, guard, log_operations
from recovery.audit.actions import append_entry
from recovery.audit.anchoring import SignedStatement
from recovery.audit.verifying import check_chain
from recovery.people.roles import SYSTEM, Actor, Role


@pytest.fixture
def auditor() -> Actor:
    return Actor(name="auditor", role=Role.AUDITOR, via="command", request_id="req-1")


@pytest.fixture
def viewer() -> Actor:
    return Actor(name="viewer", role=Role.VIEWER, via="page")


@pytest.fixture
def five_entries(db: None) -> None:
    for number in range(1, 6):
        append_entry(
            action="step.run", outcome="done", by=SYSTEM, target=f"step {number}", says=f"Ran step {number}."
        )


@pytest.fixture
def force(five_entries: None) -> Callable[[str], None]:
    """Run SQL behind the guard's back, as somebody who owns the database could."""

    def run(sql: str) -> None:
        guard.remove_triggers(connection)
        with connection.cursor() as cursor:
            cursor.execute(sql)
        guard.install_triggers(connection)

    return run


@pytest.fixture
def kept_outside(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path, db: None) -> Path:
    """A folder with keys, anchors and head of its own, also for a database in memory."""
    settings.REPRISE_HOME = settings.REPRISE_AUDIT_FOLDER = tmp_path
    settings.REPRISE_AUDIT_KEY = ""
    monkeypatch.setattr(anchor, "name_of", lambda _: "tests")
    return tmp_path


@pytest.fixture
def write(
    kept_outside: Path, django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[list[Any]]]
) -> Callable[[int], None]:
    """Append so many entries as a running console does: what comes after the commit comes too."""

    def run(count: int) -> None:
        for number in range(count):
            with django_capture_on_commit_callbacks(execute=True):
                append_entry(
                    action="recovery.open", outcome="done", by=SYSTEM, target=f"flow {number}", says=f"Entry {number}.",
                    reason="because", before={"n": number}, after={"n": number + 1},
                )  # fmt: skip

    return run


@pytest.fixture
def sign(
    kept_outside: Path, django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[list[Any]]]
) -> Callable[[], SignedStatement | None]:
    """Sign where the log stands, with the line in the file beside it."""

    def run() -> SignedStatement | None:
        with django_capture_on_commit_callbacks(execute=True):
            return log_operations.sign_chain()

    return run


@pytest.fixture
def signed_log(write: Callable[[int], None], sign: Callable[[], SignedStatement | None]) -> None:
    """Eight entries; the first three and the first six are signed, the last two were only seen."""
    write(3)
    sign()
    write(3)
    sign()
    write(2)


@contextmanager
def unguarded() -> Iterator[None]:
    """As somebody who owns the database: its triggers are off meanwhile."""
    guard.remove_triggers(connection)
    yield
    guard.install_triggers(connection)


def problems() -> list[dict[str, Any]]:
    """What a check of the whole log finds wrong."""
    found = check_chain()
    assert found["ok"] is (not found["problems"])
    return found["problems"]  # type: ignore[no-any-return]
