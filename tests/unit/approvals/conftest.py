"""No broker: the database, not the worker, is under test here."""

import pytest

from recovery.people.roles import Actor, Role
from recovery.workflow import broker, tasks
from tests.unit.approvals.people import Clock, actor


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    for task in (tasks.run_step, tasks.gather_facts, tasks.validate_patch, tasks.seal_plan, tasks.probe_step):
        monkeypatch.setattr(task, "delay", lambda *args: None)
    monkeypatch.setattr(broker, "check", lambda: None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def ada() -> Actor:
    return actor("ada", Role.RESPONDER)


@pytest.fixture
def ann() -> Actor:
    return actor("ann")


@pytest.fixture
def bob() -> Actor:
    return actor("bob")
