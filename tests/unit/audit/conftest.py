"""Actors, and a log with five entries."""

from collections.abc import Callable

import pytest
from django.db import connection

from recovery.audit import guard
from recovery.audit.actions import record
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
        record(
            action="step.run", outcome="done", by=SYSTEM, target=f"step {number}", says=f"Ran step {number}."
        )


@pytest.fixture
def force(five_entries: None) -> Callable[[str], None]:
    """Run SQL behind the guard's back, as somebody who owns the database could."""

    def run(sql: str) -> None:
        guard.remove(connection)
        with connection.cursor() as cursor:
            cursor.execute(sql)
        guard.install(connection)

    return run
