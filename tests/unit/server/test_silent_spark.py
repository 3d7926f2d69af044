"""A driver that runs and does not answer: its update ends, nothing of it goes on, and it is not begun again unasked."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from recovery.pipelines import events as said
from recovery.server import events, execution
from recovery.server.driver import Driver, RunKey, SparkDead, SparkSilent, watch_answers
from recovery.server.execution import Execution, Failure, failure_of_lost_spark
from recovery.server.gateway import Gateway
from recovery.server.instance import ServerInstance
from recovery.server.jvm import JvmSilent, answer_within
from recovery.server.models import Event, Pipeline, Update
from recovery.server.stopping import quiesce_run


def silence(*_: Any, **__: Any) -> Any:
    with answer_within(0.0):
        raise JvmSilent(1)


class Silent:
    """A driver whose JVM runs; each call into it fails as py4j's would."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.gateway = Gateway(process, 0, "", Path("/nowhere"))
        self.connect = SimpleNamespace(sessionManager=silence, executionManager=silence)
        self.holder = self.graph_execution = self.active_queries = self.flow_failures = silence

    alive = Driver.alive
    kill = Driver.kill


@pytest.fixture
def driver() -> Any:
    with subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE) as process:
        yield Silent(process)
        process.kill()


def test_silence_is_told_from_an_end() -> None:
    with pytest.raises(SparkSilent), watch_answers():
        raise JvmSilent(1)
    with pytest.raises(SparkDead) as ended, watch_answers():
        raise Py4JNetworkError("gone")
    assert not isinstance(ended.value, SparkSilent)


def test_what_does_not_answer_is_never_called_quiet(driver: Any) -> None:
    with pytest.raises(SparkSilent):
        quiesce_run(driver, RunKey("S", "", "/s"), seconds=1)


@pytest.mark.django_db(databases=["default", "pipelines"])
@pytest.mark.parametrize(
    ("before", "stopped", "state", "class_name"),
    [
        (None, False, "FAILED", events.SILENT),
        (Failure("People's code failed."), False, "FAILED", "PipelineException"),
        (None, True, "CANCELED", None),
    ],
)
def test_an_update_whose_spark_is_silent_ends_with_the_driver(
    tmp_path: Path, driver: Any, before: Failure | None, stopped: bool, state: str, class_name: str | None
) -> None:
    instance: Any = SimpleNamespace(
        home=tmp_path, driver=driver, need_driver=lambda: driver, tail=None, confinement=lambda: None
    )
    instance.kill_driver = lambda: ServerInstance.kill_driver(instance)
    pipeline = Pipeline.objects.create(name="p", spec={}, creator="c", last_modified_ms=1)
    spec = {"storage": "/s", "catalog": "c", "schema": "d"}
    update = Update.objects.create(
        pipeline=pipeline, state="RUNNING", created_ms=2, spec=spec, stop_requested=stopped
    )
    ending = Execution(instance, update)
    ending.hint = lambda exceptions: ""  # type: ignore[method-assign]
    ending.settle(before)
    assert not driver.alive(), "the next update could run beside what is left of this one"
    update.refresh_from_db()
    assert update.state == state
    found = [event.body for event in Event.objects.filter(update_id=update.id)]
    assert not said.was_cut(found)
    error = found[-1].get("error")
    assert (error and error["exceptions"][0]["class_name"]) == class_name


def test_what_ran_beside_it_is_cut_off_by_the_drivers_end() -> None:
    error = failure_of_lost_spark("Spark's driver has ended.").error
    assert error["exceptions"][0]["class_name"] == events.CUT
    assert (
        execution.failure_of_silent_spark(SparkSilent("x")).error["exceptions"][0]["class_name"]
        == events.SILENT
    )
