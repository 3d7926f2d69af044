"""The pipeline's source as pages need it: as the workspace holds it now, and as the last good update read it."""

from dataclasses import dataclass, field
from typing import Any

from recovery.models import Flow
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.workspaces import client_for
from recovery.workflow.deployed import read_code


@dataclass(frozen=True)
class WorkspaceSource:
    """Text by workspace path. `good` is empty where the API cannot tell what the last good update read."""

    now: dict[str, str]
    good: dict[str, str] = field(default_factory=dict)
    good_update: dict[str, Any] = field(default_factory=dict)


def read_source(flow: Flow) -> WorkspaceSource:
    """Ask the workspace. Raises Unreachable, Refused (no source listed), NotFound."""
    client = client_for(flow.pipeline.workspace)
    spec = client.get_pipeline(flow.pipeline.pipeline_id).get("spec") or {}
    now = read_code(client, spec)[1]
    update, good = last_good(client, flow.pipeline.pipeline_id)
    return WorkspaceSource(now, {**now, **good} if good else {}, update)


def last_good(client: PipelinesClient, pipeline_id: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The newest update that completed, and its source; both empty where there is none."""
    for update in client.list_updates(pipeline_id, limit=25):
        if update.get("state") == "COMPLETED" and not update.get("validate_only"):
            files = client.update_source(pipeline_id, update["update_id"]) or {}
            return dict(update), {path: text.decode("utf-8", "replace") for path, text in files.items()}
    return {}, {}
