"""An update's event log has an end, whatever is said of it; what is left out is counted, and last batches are in."""

from types import SimpleNamespace
from typing import Any

import pytest

from recovery.pipelines import events as said
from recovery.server import events
from recovery.server.driver import SparkDead
from recovery.server.execution import Execution, Failure, failure_of_lost_spark
from recovery.server.flow_events import FlowLog
from recovery.server.models import Pipeline, Update
from recovery.server.room import EventLogRoom
from recovery.server.tracking import Track
from recovery.server.updates import fail_left_active


def update_event(error: dict[str, Any], kind: str = "update_progress") -> dict[str, Any]:
    return {"event_type": kind, "error": error}


@pytest.mark.parametrize(
    ("code", "is_cut"),
    [(-9, True), (-15, True), (None, True), (-6, False), (-11, False), (1, False), (7, False)],
)
def test_a_runner_that_was_killed_is_cut_off_and_one_that_crashed_has_failed(
    code: int | None, is_cut: bool
) -> None:
    assert ended(Execution.silent_end, code) is is_cut


def ended(end: Any, *args: Any, flow: str = "RUNNING", reported: Failure | None = None) -> bool:
    """Is an update that ends this way called cut off? `flow`: the status of its flow."""
    log: Any = SimpleNamespace(tracks={"f": Track("f", streaming=True, status=flow)}, room=EventLogRoom())
    flows = SimpleNamespace(any_failed=lambda: FlowLog.any_failed(log))
    execution = SimpleNamespace(runner=None, flows=flows, reported=reported)
    failure: Failure = end(execution, *args)
    return said.was_cut([update_event(failure.error)])


def reported(phase: str, class_name: str, message: str, java: str = "") -> Failure:
    """What the runner says that it died of."""
    update = SimpleNamespace(spec={"catalog": "c", "schema": "s", "storage": "/s"})
    link = {"class_name": class_name, "message": message, "stack": [], "java": java}
    unbound: Any = Execution.reported_failure
    failure: Failure = unbound(
        SimpleNamespace(update=update), {"exceptions": [link], "flow": None, "phase": phase}
    )
    return failure


CONNECT = "pyspark.errors.exceptions.connect.SparkConnectGrpcException"
UNAVAILABLE = "<_MultiThreadedRendezvous of RPC that terminated with: status = StatusCode.UNAVAILABLE>"


@pytest.mark.parametrize(
    ("told", "is_cut"),
    [
        (("run", CONNECT, UNAVAILABLE), True),
        (("connect", "pyspark.errors.exceptions.base.RetriesExceeded", "[RETRIES_EXCEEDED] x"), True),
        (("run", CONNECT, "[DIVIDE_BY_ZERO] Division by zero.", "java.lang.ArithmeticException: x"), False),
        (("run", CONNECT, UNAVAILABLE, "org.apache.spark.SparkException: x"), False),  # Spark's own words
        (("define", CONNECT, UNAVAILABLE), False),  # people's code may ask servers of its own
        (("define", "ValueError", "no"), False),
        (("run", "ValueError", UNAVAILABLE), False),
    ],
)
def test_a_failure_before_spark_ended_stays_one_unless_it_says_no_more_than_that(
    told: tuple[str, ...], is_cut: bool
) -> None:
    failure = reported(*told)
    assert ended(Execution.ended_with, SparkDead("Spark ended."), failure) is is_cut
    assert ended(Execution.ended_with, SparkDead("Spark ended."), reported=failure) is is_cut
    assert "Spark ended." in failure.sentence or is_cut


@pytest.mark.parametrize(
    ("flow", "is_cut"), [("RUNNING", True), ("", True), ("COMPLETED", True), ("FAILED", False)]
)
def test_an_update_of_which_a_flow_had_failed_is_not_called_cut_off(flow: str, is_cut: bool) -> None:
    assert ended(Execution.silent_end, -9, flow=flow) is is_cut
    assert ended(Execution.ended_with, SparkDead("Spark ended."), flow=flow) is is_cut


def test_only_the_updates_own_event_says_that_it_was_cut_off() -> None:
    error = failure_of_lost_spark("Spark ended.").error
    assert said.was_cut([update_event(error)])
    assert not said.was_cut([update_event(error, "flow_progress")]), "a flow's error may be anybody's words"
    assert not said.was_cut([update_event(events.simple_error("Spark ended."))])
    assert not said.was_cut([])


@pytest.mark.django_db(databases=["default", "pipelines"])
@pytest.mark.parametrize(
    ("statuses", "is_cut"),
    [([], True), (["RUNNING"], True), (["FAILED"], False), (["FAILED", "RUNNING"], True)],
)
def test_an_update_that_a_former_server_left_is_cut_off_unless_a_flow_of_it_had_failed(
    statuses: list[str], is_cut: bool
) -> None:
    pipeline = Pipeline.objects.create(name="p", spec={}, creator="c", last_modified_ms=1)
    left = Update.objects.create(pipeline=pipeline, state="RUNNING", created_ms=2, spec={})
    for status in statuses:
        told, origin = {"status": status}, {"flow_name": "f"}
        events.store_event(pipeline, "flow_progress", "x", told, update_id=left.id, origin=origin)
    fail_left_active()
    found = [event.body for event in pipeline.events.filter(update_id=left.id)]
    assert said.was_cut(found) is is_cut


def test_server_and_console_mean_the_same_class() -> None:
    assert events.CUT == said.CUT
