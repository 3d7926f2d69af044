"""A database that takes no writes for a while (a full disk, a standby) leaves no update without an end."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connections

from recovery.server import events, execution
from recovery.server.driver import SparkDead
from recovery.server.execution import Execution
from recovery.server.models import Event, Pipeline, Update
from recovery.server.updates import fail_left_active, request_stop

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
        home=tmp_path,
        tail=None,
        confinement=lambda: None,
        need_driver=find_no_driver,
        finish=lambda _: None,
        ending=False,
    )
    pipeline = Pipeline.objects.create(name="p", spec={}, creator="c", last_modified_ms=1)
    spec = {"storage": "/s", "catalog": "c", "schema": "d"}
    update = Update.objects.create(pipeline=pipeline, state="RUNNING", created_ms=2, spec=spec)
    return Execution(instance, update)


def find_no_driver() -> None:
    raise SparkDead("Spark's driver has ended.")


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


def read_end(ended: Execution) -> tuple[str, str | None]:
    """State and class of the error, as the console reads both."""
    ended.update.refresh_from_db()
    error = Event.objects.filter(update_id=ended.update.id).latest("seq").body.get("error")
    return ended.update.state, error["exceptions"][0]["class_name"] if error else None


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
    assert read_end(ending) == ("FAILED", events.CUT)
    assert len(refused_once) == 1


def test_an_update_that_someone_has_stopped_is_never_cut_off(
    ending: Execution, refused_once: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The console would start it again."""
    monkeypatch.setattr(connections, "close_all", lambda: None)
    change_database(ALLOW)
    Update.objects.filter(id=ending.update.id).update(stop_requested=True)
    change_database(REFUSE)
    ending.live()
    assert read_end(ending) == ("CANCELED", None)


@pytest.mark.parametrize("is_left", [True, False])
def test_an_update_that_may_still_run_is_not_started_again(
    ending: Execution, refused_once: list[float], monkeypatch: pytest.MonkeyPatch, is_left: bool
) -> None:
    """Two would write into one table."""
    monkeypatch.setattr(connections, "close_all", lambda: None)
    monkeypatch.setattr(ending.instance, "need_driver", lambda: None)
    monkeypatch.setattr(execution, "quiesce_run", lambda driver, run, *, seconds: not is_left)
    ending.live()
    assert read_end(ending) == ("FAILED", "PipelineException" if is_left else events.CUT)


def test_a_server_that_ends_leaves_the_end_to_the_next_one(
    ending: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections["pipelines"], "close_if_unusable_or_obsolete", lambda: None)
    change_database(REFUSE)
    ending.instance.ending = True
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


def test_a_stop_that_is_refused_can_be_asked_for_again(
    ending: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[dict[str, Any]] = []
    teller = SimpleNamespace(tell=heard.append)
    monkeypatch.setattr(ending.instance, "execution", lambda _: teller, raising=False)

    def refuse_event(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database or disk is full")

    with monkeypatch.context() as full:
        full.setattr(events, "store_event", refuse_event)
        with pytest.raises(OperationalError):
            request_stop(ending.instance, ending.pipeline, user="ada")
    request_stop(ending.instance, ending.pipeline, user="ada")
    assert heard == [{"kind": "stop"}]


@pytest.mark.parametrize(
    ("options", "is_stopped", "state", "healthy"),
    [
        ({}, False, "FAILED", False),
        ({"validate_only": True}, False, "FAILED", True),
        ({}, True, "CANCELED", True),
    ],
)
def test_the_next_server_writes_the_end_as_the_one_before_would_have(
    ending: Execution, options: dict[str, Any], is_stopped: bool, state: str, healthy: bool
) -> None:
    """One that someone has stopped is not started again, and a dry run says nothing of a pipeline's health."""
    Pipeline.objects.update(healthy=True)
    Update.objects.update(options=options, stop_requested=is_stopped)
    fail_left_active()
    assert read_end(ending) == (state, None if is_stopped else events.CUT)
    assert Pipeline.objects.get().healthy is healthy
