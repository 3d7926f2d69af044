"""A database that takes no writes for a while (a full disk, a standby) leaves no update without an end."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import IntegrityError, connections

from recovery.server import events
from recovery.server.execution import Execution
from recovery.server.models import Event, Pipeline, Update

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])
ALTER = "SET CONSTRAINTS ALL IMMEDIATE;"  # a table with pending events cannot be altered
TRIGGER = "CREATE TRIGGER refused BEFORE UPDATE ON pipelines_server_update"
ON_POSTGRESQL = (
    f"{ALTER} CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE {{}}; END$$;"
)
REFUSE = {
    "sqlite": "PRAGMA query_only = on",
    "postgresql": f"{ON_POSTGRESQL.format('disk_full')} {TRIGGER} EXECUTE FUNCTION refuse()",
}
ALLOW = {
    "sqlite": "PRAGMA query_only = off",
    "postgresql": f"{ALTER} DROP TRIGGER refused ON pipelines_server_update; DROP FUNCTION refuse",
}
BREAK_RULE = {
    "sqlite": f"{TRIGGER} BEGIN SELECT RAISE(FAIL, 'rule'); END",
    "postgresql": f"{ON_POSTGRESQL.format('check_violation')} {TRIGGER} EXECUTE FUNCTION refuse()",
}


@pytest.fixture
def ending(tmp_path: Path) -> Execution:
    """An update whose driver is gone: nothing is left to be stopped."""
    instance: Any = SimpleNamespace(
        home=tmp_path, tail=None, confinement=lambda: None, need_driver=lambda: None, finish=lambda _: None
    )
    pipeline = Pipeline.objects.create(name="p", spec={}, creator="c", last_modified_ms=1)
    spec = {"storage": "/s", "catalog": "c", "schema": "d"}
    update = Update.objects.create(pipeline=pipeline, state="RUNNING", created_ms=2, spec=spec)
    return Execution(instance, update)


def change_database(statement: dict[str, str]) -> None:
    connection = connections["pipelines"]
    with connection.cursor() as cursor:
        cursor.execute(statement[connection.vendor])


@pytest.fixture
def refused_once(ending: Execution, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Writes are refused until the execution waits for the first time; its waits."""
    waits: list[float] = []

    def is_server_ending(*, seconds: float) -> bool:
        waits.append(seconds)
        change_database(ALLOW)
        return False

    monkeypatch.setattr(ending, "is_server_ending", is_server_ending)
    monkeypatch.setattr(ending, "hint", lambda exceptions: "")
    # the test's own transaction would end with the connection
    monkeypatch.setattr(connections["pipelines"], "close_if_unusable_or_obsolete", lambda: None)
    change_database(REFUSE)
    return waits


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELED"])
def test_an_end_that_is_refused_is_written_later_as_it_was(
    ending: Execution, refused_once: list[float], state: str
) -> None:
    ending.finish(state, None)
    ending.update.refresh_from_db()
    assert (ending.update.state, len(refused_once)) == (state, 1)


def test_an_update_whose_events_are_refused_is_cut_off_and_may_be_started_again(
    ending: Execution, refused_once: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "close_all", lambda: None)
    ending.live()
    ending.update.refresh_from_db()
    error = Event.objects.filter(update_id=ending.update.id).latest("seq").body["error"]
    assert (ending.update.state, error["exceptions"][0]["class_name"]) == ("FAILED", events.CUT)
    assert len(refused_once) == 1


def test_a_server_that_ends_leaves_the_end_to_the_next_one(
    ending: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections["pipelines"], "close_if_unusable_or_obsolete", lambda: None)
    change_database(REFUSE)
    ending.tell({"kind": "shutdown"})
    ending.finish("COMPLETED", None)
    change_database(ALLOW)
    ending.update.refresh_from_db()
    assert ending.update.state == "RUNNING"


def test_a_row_that_breaks_a_rule_is_a_bug_and_not_written_again(
    ending: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pipeline may be gone: to try for ever would keep a thread for each such update."""
    monkeypatch.setattr(ending, "is_server_ending", lambda *, seconds: pytest.fail("it waits to try again"))
    change_database(BREAK_RULE)
    with pytest.raises(IntegrityError):
        ending.finish("COMPLETED", None)
