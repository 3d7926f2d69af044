"""An update over a flow that failed is never COMPLETED, whatever Spark says of its run as a whole."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.server import execution
from recovery.server.eventlog import QueryEvent
from recovery.server.execution import Execution
from recovery.server.models import Event, Pipeline, Update

PRINTED = (
    "org.apache.spark.SparkRuntimeException: [STREAMING_STATEFUL_OPERATOR_MISMATCH] no\n\tat a.B.c(D.scala:1)"
)


@pytest.mark.django_db(databases=["default", "pipelines"])
@pytest.mark.parametrize(
    ("exception", "stopped", "state"),
    [(PRINTED, False, "FAILED"), (None, False, "COMPLETED"), (PRINTED, True, "CANCELED")],
)
def test_a_run_that_completed_over_a_failed_query_has_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exception: str | None, stopped: bool, state: str
) -> None:
    monkeypatch.setattr(execution, "quiesce_run", lambda *_, **__: True)
    late = [
        QueryEvent("started", "S", "c.d.f", "r1"),
        QueryEvent("terminated", "S", "c.d.f", "r1", exception=exception),
    ]
    pipeline = Pipeline.objects.create(name="p", spec={}, creator="c", last_modified_ms=1)
    spec = {"storage": "/s", "catalog": "c", "schema": "d"}
    update = Update.objects.create(
        pipeline=pipeline, state="RUNNING", created_ms=2, spec=spec, stop_requested=stopped
    )
    tail = SimpleNamespace(catch_up=lambda: [ending.tell_query(event) for event in late])
    instance: Any = SimpleNamespace(
        home=tmp_path, need_driver=lambda: None, tail=tail, confinement=lambda: None
    )
    ending = Execution(instance, update)
    ending.hint = lambda exceptions: ""  # type: ignore[method-assign]
    ending.completed = True

    ending.settle(None)

    update.refresh_from_db()
    assert update.state == state
    last = Event.objects.filter(update_id=update.id).order_by("seq").last()
    assert last is not None
    classes = [link["class_name"] for link in last.body.get("error", {}).get("exceptions", [])]
    assert classes == (["org.apache.spark.SparkRuntimeException"] if state == "FAILED" else [])
