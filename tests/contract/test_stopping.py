"""However an update ends, nothing of it is left running."""

import os
import signal
import time

import pytest

from tests.contract.lab import Api, Stream, alive, runner_pids, until

LONG = """
from pyspark import pipelines as dp


@dp.materialized_view
def heavy():
    return spark.range(0, 10**13, 1, 2).selectExpr("count_if(hash(id) = 7) AS n")
"""


@pytest.fixture(scope="module")
def stream(api: Api) -> Stream:
    """A stream with so much before it that it has to be stopped."""
    stream = Stream(api, "long", one_by_one=True)
    for number in range(300):
        stream.arrive({"id": number, "word": "w"})
    return stream


def begin(api: Api, stream: Stream) -> str:
    """Start an update and wait until its batches come."""
    before = len(stream.batches())
    update_id = api.start(stream.id)
    until(lambda: len(stream.batches()) > before + 2, "a batch")
    return update_id


def quiet(stream: Stream) -> bool:
    """Whether no batch comes any more, watched for longer than several batches take."""
    before = stream.batches()
    time.sleep(3)  # the one thing that can only be seen by waiting: that nothing happens
    return stream.batches() == before


def test_a_stop_ends_as_canceled_and_leaves_nothing_running(api: Api, stream: Stream) -> None:
    update_id = begin(api, stream)
    runners = runner_pids(update_id)
    assert runners

    second = api.send("POST", f"/pipelines/{stream.id}/updates", json={})
    assert (second.status_code, second.json()["error_code"]) == (409, "RESOURCE_CONFLICT")
    text = f"An active update '{update_id}' already exists for pipeline '{stream.id}'."
    assert second.json()["message"] == text
    assert second.json()["details"][0]["metadata"]["update_id"] == update_id
    assert api.call("GET", f"/pipelines/{stream.id}")["state"] == "RUNNING"

    asked = time.monotonic()
    assert api.call("POST", f"/pipelines/{stream.id}/stop") == {}
    assert api.finish(stream.id, update_id) == "CANCELED"
    assert time.monotonic() - asked < 10
    assert api.call("GET", f"/pipelines/{stream.id}")["state"] == "IDLE"
    assert not any(alive(pid) for pid in runners)
    assert quiet(stream)

    end = api.events(stream.id, update_id)[-1]
    assert end["details"]["update_progress"] == {"state": "CANCELED", "cancellation_cause": "USER_ACTION"}
    statuses = api.statuses(stream.id, update_id)
    assert [told[-1] for told in statuses.values()] == ["STOPPED", "STOPPED"]
    assert not any("COMPLETED" in told for told in statuses.values())


def test_a_killed_runner_leaves_nothing_running(api: Api, stream: Stream) -> None:
    update_id = begin(api, stream)
    for pid in runner_pids(update_id):
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    assert api.finish(stream.id, update_id) == "FAILED"
    assert time.monotonic() - killed < 10
    assert "was killed by signal 9" in api.last_error(stream.id, update_id)
    assert quiet(stream)
    assert api.call("GET", f"/pipelines/{stream.id}")["state"] == "IDLE"


def test_a_stop_reaches_a_batch_job(api: Api) -> None:
    api.put_code("/Users/tester/heavy.py", LONG)
    spec = {
        "name": "heavy",
        "schema": "heavy_db",
        "libraries": [{"file": {"path": "/Users/tester/heavy.py"}}],
    }
    pipeline_id = str(api.call("POST", "/pipelines", json=spec)["pipeline_id"])
    update_id = api.start(pipeline_id)
    until(lambda: "RUNNING" in api.statuses(pipeline_id, update_id).get("heavy", []), "the job")
    asked = time.monotonic()
    api.call("POST", f"/pipelines/{pipeline_id}/stop")
    assert api.finish(pipeline_id, update_id) == "CANCELED"
    assert time.monotonic() - asked < 10
    assert api.statuses(pipeline_id, update_id)["heavy"][-1] == "STOPPED"


def test_a_stop_right_after_the_start_is_kept(api: Api, stream: Stream) -> None:
    before = stream.batches()
    update_id = api.start(stream.id)
    api.call("POST", f"/pipelines/{stream.id}/stop")
    assert api.finish(stream.id, update_id) == "CANCELED"
    assert runner_pids(update_id) == []
    assert stream.batches() == before


def test_a_pipeline_goes_on_after_a_stop(api: Api) -> None:
    stream = Stream(api, "goes_on", one_by_one=True, view=False)
    for number in range(12):
        stream.arrive({"id": number, "word": "w"})
    update_id = begin(api, stream)
    api.call("POST", f"/pipelines/{stream.id}/stop")
    assert api.finish(stream.id, update_id) == "CANCELED"
    _, state = api.run(stream.id)
    assert state == "COMPLETED"
    assert len(stream.batches()) == 12
