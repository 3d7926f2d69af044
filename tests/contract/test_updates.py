"""Updates of a real stream: good ones, the failure that this product is about, selections and resets."""

import json
from datetime import datetime

import pytest

from tests.contract.lab import NO_RETRY, Api, Stream

MISMATCH = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"


@pytest.fixture(scope="module")
def stream(api: Api) -> Stream:
    """A stream with two good updates behind it."""
    stream = Stream(api, "good")
    stream.arrive({"id": 1, "word": "a"}, {"id": 2, "word": "b"})
    assert api.run(stream.id)[1] == "COMPLETED"
    stream.arrive({"id": 2, "word": "b"}, {"id": 3, "word": "a"})
    assert api.run(stream.id)[1] == "COMPLETED"
    return stream


def newest(api: Api, stream: Stream) -> str:
    return str(api.call("GET", f"/pipelines/{stream.id}/updates")["updates"][0]["update_id"])


def flow_ids(api: Api, stream: Stream, update_id: str) -> set[str]:
    events = api.events(stream.id, update_id)
    mine = [e for e in events if e["origin"].get("flow_name", "").endswith(stream.flow)]
    return {event["origin"]["flow_id"] for event in mine}


def test_a_good_update_tells_its_states_and_its_flows_in_order(api: Api, stream: Stream) -> None:
    update_id = newest(api, stream)
    events = api.events(stream.id, update_id)
    states = [
        e["details"]["update_progress"]["state"] for e in events if e["event_type"] == "update_progress"
    ]
    assert states == ["QUEUED", "INITIALIZING", "SETTING_UP_TABLES", "RUNNING", "COMPLETED"]
    good = ["QUEUED", "STARTING", "RUNNING", "COMPLETED"]
    assert api.statuses(stream.id, update_id) == {stream.flow: good, "counts": good}
    assert len({event["id"] for event in events}) == len(events)


def test_an_update_does_not_wait_for_spark_to_notice_its_end(api: Api) -> None:
    """Spark's own loop sleeps for this time before it sees that a flow has ended, and again before it says so."""
    stream = Stream(api, "ends_at_once", view=False)
    spec = api.call("GET", f"/pipelines/{stream.id}")["spec"]
    spec["configuration"]["spark.sql.pipelines.execution.streamstate.pollingInterval"] = "60"
    api.call("PUT", f"/pipelines/{stream.id}", json=spec)
    stream.arrive({"id": 1, "word": "a"})
    update_id, state = api.run(stream.id)
    assert state == "COMPLETED", api.last_error(stream.id, update_id)
    events = api.events(stream.id, update_id)
    flow, update = [datetime.fromisoformat(e["timestamp"]) for e in events if "_progress" in e["event_type"]][
        -2:
    ]
    assert api.statuses(stream.id, update_id)[stream.flow][-1] == "COMPLETED"
    assert (update - flow).total_seconds() < 60


def test_the_flow_says_where_it_writes_and_its_checkpoint_lies_where_the_api_says(
    api: Api, stream: Stream
) -> None:
    events = api.events(stream.id, newest(api, stream))
    defined = {e["origin"]["flow_name"]: e for e in events if e["event_type"] == "flow_definition"}
    flow = defined[f"spark_catalog.{stream.schema}.{stream.flow}"]
    assert flow["details"]["flow_definition"]["output_dataset"] == f"spark_catalog.{stream.schema}.rows"
    assert flow["details"]["flow_definition"]["flow_type"] == "APPEND"
    assert flow["origin"]["dataset_name"] == f"spark_catalog.{stream.schema}.rows"
    view = defined[f"spark_catalog.{stream.schema}.counts"]["details"]["flow_definition"]
    assert view["input_datasets"] == [f"spark_catalog.{stream.schema}.rows"]
    assert stream.batches() == [0, 1]


def test_each_batch_is_told_with_its_offsets(api: Api, stream: Stream) -> None:
    events = api.events(stream.id, newest(api, stream))
    (batch,) = [e for e in events if e["event_type"] == "stream_progress"]
    assert batch["origin"]["batch_id"] == 1
    progress = json.loads(batch["details"]["stream_progress"]["progress_json"])
    assert progress["batchId"] == 1
    assert progress["sources"][0]["startOffset"] == {"logOffset": 0}
    assert progress["sources"][0]["endOffset"] == {"logOffset": 1}


def test_a_flow_keeps_its_id_from_update_to_update(api: Api, stream: Stream) -> None:
    updates = [u["update_id"] for u in api.call("GET", f"/pipelines/{stream.id}/updates")["updates"]]
    assert len(flow_ids(api, stream, updates[0]) | flow_ids(api, stream, updates[1])) == 1


def test_a_removed_operator_fails_the_update_with_the_real_cause(api: Api) -> None:
    stream = Stream(api, "broken")
    stream.arrive({"id": 1, "word": "a"})
    good, state = api.run(stream.id)
    assert state == "COMPLETED"
    stream.write_code(deduplicate=False)
    stream.arrive({"id": 2, "word": "b"})
    failed, state = api.run(stream.id)
    assert state == "FAILED"

    assert api.statuses(stream.id, failed)[stream.flow][-1] == "FAILED"
    assert "COMPLETED" not in api.statuses(stream.id, failed)[stream.flow]
    assert api.statuses(stream.id, failed)["counts"][-1] == "SKIPPED"
    (event,) = [
        e
        for e in api.events(stream.id, failed)
        if e["details"].get("flow_progress", {}).get("status") == "FAILED"
    ]
    chain = event["error"]["exceptions"]
    assert event["level"] == "ERROR"
    assert [link["class_name"].rsplit(".", 1)[-1] for link in chain] == [
        "StreamingQueryException",
        "SparkRuntimeException",
    ]
    assert all(MISMATCH in link["message"] for link in chain)
    assert 0 < len(chain[-1]["stack"]) <= 20
    assert MISMATCH in api.last_error(stream.id, failed)
    seen = api.call("GET", f"/pipelines/{stream.id}")
    assert (seen["state"], seen["health"]) == ("IDLE", "UNHEALTHY")

    before = api.call("GET", f"/x-reprise/pipelines/{stream.id}/updates/{good}/source")["files"]
    after = api.call("GET", f"/x-reprise/pipelines/{stream.id}/updates/{failed}/source")["files"]
    assert [file["path"] for file in before] == [file["path"] for file in after] == [stream.path]
    assert before[0]["sha256"] != after[0]["sha256"]

    validated, state = api.run(stream.id, validate_only=True)
    assert state == "COMPLETED"
    assert api.statuses(stream.id, validated) == {}


def test_a_checkpoint_reset_begins_an_empty_version_and_keeps_the_old_one(api: Api) -> None:
    stream = Stream(api, "reset", view=False)
    stream.arrive({"id": 1, "word": "a"})
    first, _ = api.run(stream.id)
    stream.write_code(deduplicate=False)
    stream.arrive({"id": 2, "word": "b"})
    old = {file: file.read_bytes() for file in (stream.checkpoint / "0").rglob("*") if file.is_file()}

    unknown, state = api.run(stream.id, reset_checkpoint_selection=["spark_catalog.nowhere.ghost"])
    assert state == "FAILED"
    says = "should not contain flow spark_catalog.nowhere.ghost, which does not exist in the graph."
    assert says in api.last_error(stream.id, unknown)
    assert not (stream.checkpoint / "1").exists()

    name = f"spark_catalog.{stream.schema}.{stream.flow}"
    reset, state = api.run(stream.id, reset_checkpoint_selection=[name])
    assert state == "COMPLETED"
    assert stream.batches(1) == [0]
    assert {file: file.read_bytes() for file in old} == old
    assert flow_ids(api, stream, reset) != flow_ids(api, stream, first)
    assert "reset_checkpoint_selection" not in api.update(stream.id, reset)


def test_a_selection_runs_only_its_tables(api: Api, stream: Stream) -> None:
    update_id, state = api.run(stream.id, refresh_selection=["counts"])
    assert state == "COMPLETED"
    assert api.statuses(stream.id, update_id) == {
        stream.flow: ["EXCLUDED"],
        "counts": ["QUEUED", "STARTING", "RUNNING", "COMPLETED"],
    }
    update_id, state = api.run(stream.id, refresh_selection=["nothing"])
    assert state == "FAILED"
    assert f"spark_catalog.{stream.schema}.nothing" in api.last_error(stream.id, update_id)


def test_a_full_refresh_of_one_table_reads_everything_again(api: Api) -> None:
    stream = Stream(api, "full")
    stream.arrive({"id": 1, "word": "a"})
    first, _ = api.run(stream.id)
    update_id, state = api.run(stream.id, full_refresh_selection=[f"{stream.schema}.rows"])
    assert state == "COMPLETED"
    assert stream.batches(1) == [0]
    assert flow_ids(api, stream, update_id) != flow_ids(api, stream, first)


BROKEN = {
    "syntax": ("def a(:\n", "SyntaxError", None),
    "name": (
        "from pyspark import pipelines as dp\n@dp.materialized_view\ndef a():\n    return nothing\n",
        "NameError",
        "a",
    ),
    "table": (
        "from pyspark import pipelines as dp\n@dp.materialized_view\ndef a():\n    return spark.read.table('away')\n",
        "AnalysisException",
        "a",
    ),
    "empty": ("x = 1\n", "AnalysisException", None),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_code_that_cannot_work_fails_its_validation_and_touches_nothing(api: Api, case: str) -> None:
    code, kind, flow = BROKEN[case]
    path = f"/Users/tester/broken_{case}/code.py"
    api.put_code(path, code)
    spec = {"name": f"broken {case}", "schema": "broken_db", "libraries": [{"file": {"path": path}}]}
    pipeline_id = str(api.call("POST", "/pipelines", json=spec)["pipeline_id"])
    update_id, state = api.run(pipeline_id, validate_only=True)
    assert state == "FAILED"
    end = api.events(pipeline_id, update_id)[-1]
    assert kind in "".join(link["class_name"] for link in end["error"]["exceptions"])
    statuses = api.statuses(pipeline_id, update_id)
    assert statuses == ({flow: ["FAILED"]} if flow else {})
    assert not (api.server.home / "storage" / pipeline_id).exists()


def test_sql_and_helper_modules_work_and_names_can_be_anything(api: Api) -> None:
    api.put_code("/Users/tester/mixed/helper.py", "LIMIT = 4\n")
    api.put_code(
        "/Users/tester/mixed/defs/first.py",
        "from pyspark import pipelines as dp\nfrom helper import LIMIT\n"
        "@dp.materialized_view(name='base')\ndef whatever():\n    return spark.range(LIMIT)\n",
    )
    api.put_code(
        "/Users/tester/mixed/defs/second.sql",
        "CREATE MATERIALIZED VIEW total AS SELECT sum(id) s FROM base;\n",
    )
    spec = {
        "name": "mixed",
        "target": "mixed_db",
        "root_path": "/Users/tester/mixed",
        "libraries": [{"glob": {"include": "/Users/tester/mixed/defs/**"}}],
        "configuration": NO_RETRY,
    }
    pipeline_id = str(api.call("POST", "/pipelines", json=spec)["pipeline_id"])
    update_id, state = api.run(pipeline_id)
    assert state == "COMPLETED", api.last_error(pipeline_id, update_id)
    assert set(api.statuses(pipeline_id, update_id)) == {"base", "total"}
    files = api.call("GET", f"/x-reprise/pipelines/{pipeline_id}/updates/{update_id}/source")["files"]
    assert [file["path"].rsplit("/", 1)[-1] for file in files] == ["first.py", "second.sql", "helper.py"]


def test_two_pipelines_run_at_once(api: Api) -> None:
    """More than once: each of them looks for what it has left while the other's queries end."""
    streams = [Stream(api, name, view=False) for name in ("left", "right")]
    for number in range(3):
        for stream in streams:
            stream.arrive({"id": number, "word": stream.schema})
        started = [(stream.id, api.start(stream.id)) for stream in streams]
        assert [api.finish(*update) for update in started] == ["COMPLETED", "COMPLETED"]


def test_a_pipeline_without_source_fails_with_a_sentence(api: Api) -> None:
    spec = {"name": "no source", "libraries": [{"file": {"path": "/Users/tester/away.py"}}]}
    pipeline_id = str(api.call("POST", "/pipelines", json=spec)["pipeline_id"])
    update_id, state = api.run(pipeline_id)
    assert state == "FAILED"
    assert "/Users/tester/away.py of this pipeline is not in the workspace" in api.last_error(
        pipeline_id, update_id
    )
