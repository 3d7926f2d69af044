"""The official SDK drives the server unchanged: a whole life of a pipeline, and its iterators' habits."""

import io
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config
from databricks.sdk.errors import NotFound, PermissionDenied, ResourceConflict, Unauthenticated
from databricks.sdk.service.pipelines import FileLibrary, PipelineLibrary, PipelineState, UpdateInfoState
from databricks.sdk.service.workspace import ImportFormat

from tests.contract.lab import PipelinesServer, until

CODE = b"""
from pyspark import pipelines as dp


@dp.materialized_view
def numbers():
    return spark.range(5)
"""


def client(url: str, token: str) -> WorkspaceClient:
    """The SDK with short patience; `auth_type` keeps it from looking for other sign-ins."""
    config = Config(host=url, token=token, auth_type="pat", retry_timeout_seconds=5, http_timeout_seconds=60)
    return WorkspaceClient(config=config)


@pytest.fixture(scope="module")
def sdk(pipelines_server: PipelinesServer) -> Iterator[WorkspaceClient]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOST", "TOKEN", "CLIENT_ID", "CLIENT_SECRET", "CONFIG_PROFILE"):
            patch.delenv(f"DATABRICKS_{name}", raising=False)
        patch.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield client(pipelines_server.url, pipelines_server.token)


@pytest.fixture(scope="module")
def pipeline_id(sdk: WorkspaceClient) -> str:
    sdk.workspace.mkdirs("/Users/sdk")
    sdk.workspace.upload("/Users/sdk/numbers.py", io.BytesIO(CODE), format=ImportFormat.RAW)
    library = PipelineLibrary(file=FileLibrary(path="/Users/sdk/numbers.py"))
    made = sdk.pipelines.create(
        name="sdk numbers", schema="sdk_db", libraries=[library], tags={"environment": "test"}
    )
    assert made.pipeline_id
    return made.pipeline_id


def wait(sdk: WorkspaceClient, pipeline_id: str, update_id: str) -> UpdateInfoState:
    final = (UpdateInfoState.COMPLETED, UpdateInfoState.FAILED, UpdateInfoState.CANCELED)

    def ended() -> UpdateInfoState | None:
        update = sdk.pipelines.get_update(pipeline_id, update_id).update
        return update.state if update and update.state in final else None

    found = until(ended, "the end of the update")
    assert isinstance(found, UpdateInfoState)
    return found


def test_the_sdk_creates_starts_watches_and_edits_a_pipeline(sdk: WorkspaceClient, pipeline_id: str) -> None:
    started = sdk.pipelines.start_update(pipeline_id)
    assert wait(sdk, pipeline_id, started.update_id) == UpdateInfoState.COMPLETED

    seen = sdk.pipelines.get(pipeline_id)
    assert seen.state == PipelineState.IDLE
    assert seen.health is not None
    assert seen.health.value == "HEALTHY"
    assert seen.latest_updates is not None
    assert seen.latest_updates[0].update_id == started.update_id
    assert seen.spec is not None
    assert seen.spec.storage is not None
    assert seen.spec.storage.startswith("file:/")
    assert seen.spec.tags == {"environment": "test"}

    updates = sdk.pipelines.list_updates(pipeline_id).updates
    assert updates is not None
    assert [update.update_id for update in updates] == [started.update_id]

    settings = seen.spec.as_dict() | {"expected_last_modified": seen.last_modified, "development": True}
    sdk.api_client.do("PUT", f"/api/2.0/pipelines/{pipeline_id}", body=settings)
    again = sdk.pipelines.get(pipeline_id)
    assert again.spec is not None
    assert again.spec.development is True
    with pytest.raises(ResourceConflict):
        sdk.api_client.do("PUT", f"/api/2.0/pipelines/{pipeline_id}", body=settings)


def test_the_sdk_stops_an_idle_pipeline_without_effect(sdk: WorkspaceClient, pipeline_id: str) -> None:
    sdk.pipelines.stop_and_wait(pipeline_id)
    assert sdk.pipelines.get(pipeline_id).state == PipelineState.IDLE


def test_the_event_log_pages_though_the_sdk_repeats_filter_and_order(
    sdk: WorkspaceClient, pipeline_id: str
) -> None:
    update_id = (sdk.pipelines.list_updates(pipeline_id).updates or [])[0].update_id
    query = f"update_id = '{update_id}' AND level in ('INFO', 'ERROR')"
    whole = list(sdk.pipelines.list_pipeline_events(pipeline_id, filter=query, max_results=250))
    paged = list(
        sdk.pipelines.list_pipeline_events(
            pipeline_id, filter=query, max_results=3, order_by=["timestamp asc"]
        )
    )
    assert len(whole) > 6
    assert [event.id for event in paged] == [event.id for event in reversed(whole)]
    assert {event.event_type for event in whole} >= {
        *("create_update", "user_action", "runtime_details", "update_progress"),
        *("flow_definition", "dataset_definition", "flow_progress"),
    }


def test_details_reach_a_client_that_reads_them_raw(sdk: WorkspaceClient, pipeline_id: str) -> None:
    answer = sdk.api_client.do("GET", f"/api/2.0/pipelines/{pipeline_id}/events", query={"max_results": 100})
    assert isinstance(answer, dict)
    defined = next(e for e in answer["events"] if e["event_type"] == "flow_definition")
    assert defined["origin"]["flow_name"] == "spark_catalog.sdk_db.numbers"
    details = defined["details"]["flow_definition"]
    assert details["output_dataset"] == "spark_catalog.sdk_db.numbers"
    assert details["flow_type"] == "MATERIALIZED_VIEW"
    assert details["once"] is False
    assert details["schema"] == [{"name": "id", "data_type": "long"}]


def test_pipelines_are_listed_by_name_in_pages(sdk: WorkspaceClient) -> None:
    made = {sdk.pipelines.create(name=f"paged {n}").pipeline_id for n in range(5)}
    listed = list(
        sdk.pipelines.list_pipelines(filter="name LIKE 'paged %'", max_results=2, order_by=["id desc"])
    )
    identifiers = [entry.pipeline_id or "" for entry in listed]
    assert set(identifiers) == made
    assert identifiers == sorted(identifiers, reverse=True)
    for pipeline in identifiers:
        sdk.pipelines.delete(pipeline)


def test_permissions_name_the_owner(sdk: WorkspaceClient, pipeline_id: str) -> None:
    granted = sdk.pipelines.get_permissions(pipeline_id).access_control_list or []
    levels = [
        p.permission_level.value for e in granted for p in e.all_permissions or [] if p.permission_level
    ]
    assert levels == ["IS_OWNER"]


def test_a_missing_pipeline_and_a_wrong_token_raise_the_sdks_own_errors(
    sdk: WorkspaceClient, pipelines_server: PipelinesServer
) -> None:
    with pytest.raises(NotFound, match="was not found"):
        sdk.pipelines.get("00000000-0000-0000-0000-000000000000")
    with pytest.raises((Unauthenticated, PermissionDenied)):
        client(pipelines_server.url, "wrong").pipelines.get("x")


def test_a_deleted_pipeline_is_gone_with_its_tables(sdk: WorkspaceClient, pipeline_id: str) -> None:
    table = sdk.pipelines.get(pipeline_id)
    assert table.spec is not None
    sdk.pipelines.delete(pipeline_id)
    with pytest.raises(NotFound):
        sdk.pipelines.get(pipeline_id)
