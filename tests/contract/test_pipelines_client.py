"""Our client, inventory and diagnosis against the real server and a stream that Spark really runs."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from recovery.contracts.diagnosis import StatefulOperators
from recovery.diagnosis import diagnose_failure
from recovery.errors import NotFound, Refused
from recovery.models import Flow, Pipeline, Workspace
from recovery.pipelines import events as log
from recovery.pipelines import starters
from recovery.pipelines.client import ActiveUpdate, ApiDenied, ApiError, PipelinesClient
from recovery.pipelines.find import find_flow, find_pipeline
from recovery.pipelines.inventory import refresh
from recovery.pipelines.itself import ATTEMPTS
from tests.contract.lab import Api, PipelinesServer, Stream, until

MISMATCH = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"


@pytest.fixture(scope="module")
def client(pipelines_server: PipelinesServer) -> Iterator[PipelinesClient]:
    with closing(PipelinesClient(url=pipelines_server.url, token=pipelines_server.token)) as client:
        yield client


@pytest.fixture(scope="session")  # not "module": tests with a database are run apart from those without
def stream(api: Api) -> Stream:
    """One good update, then the failure: the stateful step was taken out."""
    stream = Stream(api, "clients")
    api.lasting.add(stream.id)
    stream.arrive({"id": 1, "word": "a"}, {"id": 2, "word": "b"})
    assert api.run(stream.id)[1] == "COMPLETED"
    stream.write_code(deduplicate=False)
    stream.arrive({"id": 3, "word": "c"})
    assert api.run(stream.id)[1] == "FAILED"
    return stream


def test_a_pipeline_is_made_changed_listed_and_deleted(client: PipelinesClient) -> None:
    client.import_file("/Users/tester/made/p.py", b"from pyspark import pipelines as dp\n")
    spec = {
        "name": "made",
        "schema": "made_db",
        "root_path": "/Users/tester/made",
        "libraries": [{"file": {"path": "/Users/tester/made/p.py"}}],
    }
    pipeline_id = client.create_pipeline(spec)
    assert pipeline_id in [p["pipeline_id"] for p in client.list_pipelines()]
    assert [p["name"] for p in client.list_pipelines("name LIKE '%made%'")] == ["made"]
    answer = client.get_pipeline(pipeline_id)
    assert answer["spec"]["storage"].startswith("file:")
    client.edit_pipeline(pipeline_id, {**answer["spec"], "tags": {"environment": "staging"}})
    assert client.get_pipeline(pipeline_id)["spec"]["tags"] == {"environment": "staging"}
    client.stop(pipeline_id)
    client.delete_pipeline(pipeline_id)
    with pytest.raises(NotFound, match="was not found"):
        client.get_pipeline(pipeline_id)


def test_one_setting_of_a_pipeline_is_changed_and_given_back_and_nothing_else_is_lost(
    client: PipelinesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.import_file("/Users/tester/held/p.py", b"from pyspark import pipelines as dp\n")
    spec = {
        "name": "held", "schema": "held_db", "libraries": [{"file": {"path": "/Users/tester/held/p.py"}}],
        "configuration": {ATTEMPTS: "3", "shop.path": "/in"}, "tags": {"environment": "staging"},
    }  # fmt: skip
    pipeline_id = client.create_pipeline(spec)
    before = client.get_pipeline(pipeline_id)["spec"]
    (retries,) = starters.known(client, pipeline_id).awake

    starters.put(client, retries, retries.paused())

    held = client.get_pipeline(pipeline_id)["spec"]
    assert held == {**before, "configuration": {ATTEMPTS: "0", "shop.path": "/in"}}
    assert starters.known(client, pipeline_id).starters == ()
    starters.put(client, retries, retries.setting)
    assert client.get_pipeline(pipeline_id)["spec"] == before

    read = client.get_pipeline
    monkeypatch.setattr(client, "get_pipeline", lambda of: {**read(of), "last_modified": 1})
    with pytest.raises(Refused, match="changed by someone else at the same moment"):
        starters.put(client, retries, retries.paused())
    assert read(pipeline_id)["spec"] == before
    client.delete_pipeline(pipeline_id)


def test_source_is_written_and_read_back_byte_for_byte(client: PipelinesClient) -> None:
    content = "# ünïcode\r\nx = 1".encode()
    client.import_file("/Users/tester/deep/er/a.py", content)
    assert client.export("/Users/tester/deep/er/a.py") == content
    client.import_file("/Users/tester/deep/er/a.py", b"y = 2\n")
    assert client.export("/Users/tester/deep/er/a.py") == b"y = 2\n"
    assert client.get_status("/Users/tester/deep/er/a.py")["object_type"] == "FILE"
    assert [o["path"] for o in client.list_dir("/Users/tester/deep")] == ["/Users/tester/deep/er"]
    with pytest.raises(ApiError, match="already exists"):
        client.import_file("/Users/tester/deep/er/a.py", b"z", overwrite=False)
    client.delete_path("/Users/tester/deep", recursive=True)
    with pytest.raises(NotFound):
        client.export("/Users/tester/deep/er/a.py")


def test_a_wrong_token_is_denied(pipelines_server: PipelinesServer) -> None:
    with (
        closing(PipelinesClient(url=pipelines_server.url, token="rp_wrong")) as stranger,
        pytest.raises(ApiDenied),
    ):
        stranger.list_pipelines()


def test_the_failure_is_read_from_the_events_and_explained(client: PipelinesClient, stream: Stream) -> None:
    failed, good = client.list_updates(stream.id, limit=2)
    assert (failed["state"], good["state"]) == ("FAILED", "COMPLETED")
    events = list(client.events(stream.id, filter=f"update_id = '{failed['update_id']}'", limit=None))
    flow = next(name for name in log.definitions(events) if name.endswith(".rows_flow"))
    assert log.statuses(events)[flow].status == "FAILED"
    found = diagnose_failure(causes=log.failure_of(events, flow))
    assert found.condition == MISMATCH
    assert found.operators == StatefulOperators(checkpoint=("dedupe",), code=())
    assert found.title.startswith("The code no longer has the dropDuplicates step")


def test_events_page_by_page_are_the_events_at_once(
    client: PipelinesClient, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [e["id"] for e in client.events(stream.id, filter="level in ('INFO', 'ERROR')", limit=None)]
    monkeypatch.setattr("recovery.pipelines.client.EVENTS_PAGE", 7)
    paged = client.events(
        stream.id, filter="level in ('INFO', 'ERROR')", order_by="timestamp desc", limit=None
    )
    assert [e["id"] for e in paged] == whole
    assert len(whole) > 14


def test_the_source_of_an_update_is_what_it_read(client: PipelinesClient, stream: Stream) -> None:
    failed, good = client.list_updates(stream.id, limit=2)
    old = client.update_source(stream.id, good["update_id"])
    new = client.update_source(stream.id, failed["update_id"])
    assert old is not None
    assert new is not None
    assert b"dropDuplicates" in old[stream.path]
    assert b"dropDuplicates" not in new[stream.path]
    assert client.update_source(stream.id, "00000000-0000-0000-0000-000000000000") is None


def test_a_second_start_names_the_active_update(client: PipelinesClient, stream: Stream) -> None:
    update_id = client.start_update(stream.id, validate_only=True)
    with pytest.raises(ActiveUpdate) as caught:
        client.start_update(stream.id)
    assert caught.value.update_id == update_id
    until(lambda: client.get_update(stream.id, update_id)["state"] == "COMPLETED", "the validation")


@pytest.mark.django_db
def test_the_inventory_sees_the_failing_flow(
    pipelines_server: PipelinesServer,
    client: PipelinesClient,
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONTRACT_TOKEN", pipelines_server.token)
    workspace = Workspace.objects.create(
        name="real", url=pipelines_server.url, token_ref="env:CONTRACT_TOKEN"
    )
    refresh(workspace_id=workspace.pk)
    workspace.refresh_from_db()
    assert workspace.poll_error == ""
    pipeline = find_pipeline("clients")
    flow = find_flow(pipeline, None)
    catalog = f"spark_catalog.{stream.schema}"
    assert (flow.name, flow.short, flow.dataset) == (f"{catalog}.rows_flow", "rows_flow", f"{catalog}.rows")
    assert (flow.state, flow.condition, flow.history, flow.last_batch) == (
        "failed",
        MISMATCH,
        ["ok", "failed"],
        0,
    )
    assert flow.last_progress["sources"][0]["endOffset"] == {"logOffset": 0}
    assert flow.failing_since is not None
    assert flow.error[-1]["message"]
    assert (pipeline.environment, pipeline.spec["schema"]) == ("development", stream.schema)
    view = Flow.objects.get(pipeline=pipeline, short="counts")
    assert (view.streaming, view.state, view.inputs) == (False, "empty", [f"{catalog}.rows"])

    def known() -> tuple[Any, ...]:
        """Of this pipeline: those of other tests move meanwhile."""
        mine = Pipeline.objects.filter(pk=pipeline.pk).values("updates")
        return list(mine), list(Flow.objects.filter(pipeline=pipeline).order_by("pk").values())

    before = known()
    assert before[1]
    refresh(workspace_id=workspace.pk)
    assert known() == before
