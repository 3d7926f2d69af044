"""Validates a patch with the Pipelines API's own `validate_only`, in a scratch pipeline, not in place.

The API validates what a pipeline's source *is*; to validate what it *would be*, the source is copied
with the patch under a scratch root, a scratch pipeline is made over it, asked, and both are removed.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Any

from recovery.contracts.choices import ValidationAnswer
from recovery.errors import Refused, Unreachable
from recovery.models import Flow
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.events import ENDED, failure_of
from recovery.pipelines.workspaces import client_for, questions_service
from recovery.spark.api import study
from recovery.workflow.deployed import read_code
from recovery.workflow.lineends import laid_over
from recovery.workflow.studied import code_request

SECONDS = 120
SETTINGS = frozenset(
    {
        "budget_policy_id", "catalog", "channel", "clusters", "configuration", "edition", "environment", "photon",
        "schema", "serverless", "target",
    }
)  # fmt: skip
"""What decides whether a graph is valid. All else stays away: a copy that is continuous would run, one that a bundle
deployed may not be deleted, and whom it notifies need not know."""


def validate(flow: Flow, patch: Mapping[str, str]) -> ValidationAnswer:
    """Whether the source would be valid with the patch. Raises Unreachable when no one could say."""
    client = client_for(flow.pipeline.workspace)
    spec = client.get_pipeline(flow.pipeline.pipeline_id).get("spec") or {}
    libraries, files = read_code(client, spec)
    if flow.pipeline.workspace.has_streams:
        return _studied(flow, spec, libraries, laid_over(files, patch))
    root = (spec.get("root_path") or common_folder(libraries)).rstrip("/")
    scratch = f"{root}.reprise-validation-{uuid.uuid4().hex[:8]}"
    moved = {path: scratch + path[len(root) :] if path.startswith(root + "/") else None for path in files}
    if stray := [p for p in (*patch, *libraries) if not moved.get(p)]:
        raise Refused(
            f"{stray[0]} is outside the pipeline's root {root}, so it cannot be validated separately."
        )
    texts = laid_over(files, patch)
    try:
        for path, target in moved.items():
            if target:
                client.import_file(target, texts[path].encode())
        return _ask(client, flow, spec, [moved[p] for p in libraries], scratch)
    finally:
        client.delete_path(scratch, recursive=True)


def _studied(
    flow: Flow, spec: Mapping[str, Any], libraries: tuple[str, ...], files: Mapping[str, str]
) -> ValidationAnswer:
    """Of a plain program: whether Spark can analyse the query that it would start. Nothing is started."""
    asked = questions_service(flow.pipeline.workspace, flow.pipeline.environment)
    answer = study(code_request(asked, flow.name, spec, libraries, files), timeout=SECONDS)
    if answer.operators is None:
        says = answer.problem or "Spark cannot analyse it."
        return ValidationAnswer(status="invalid", says=says, update_id="")
    says = "Spark can analyse the query that the program starts."
    return ValidationAnswer(status="valid", says=says, update_id="")


def common_folder(paths: tuple[str, ...]) -> str:
    """The folder that holds all paths."""
    parts = [p.split("/")[:-1] for p in paths]
    same = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        same.append(names[0])
    return "/".join(same)


def _ask(
    client: PipelinesClient, flow: Flow, spec: Mapping[str, Any], libraries: list[str | None], scratch: str
) -> ValidationAnswer:
    copy = {name: value for name, value in spec.items() if name in SETTINGS}
    copy |= {
        "name": f"{flow.pipeline.name} (validation {scratch[-8:]})",
        "root_path": scratch,
        "libraries": [{"file": {"path": path}} for path in libraries],
        "tags": {"reprise": "validation"},
    }
    pipeline_id = client.create_pipeline(copy)
    try:
        update_id = client.start_update(pipeline_id, validate_only=True)
        state = _wait(client, pipeline_id, update_id)
        if state == "COMPLETED":
            says = "validate_only: the graph is valid."
            return ValidationAnswer(status="valid", says=says, update_id=update_id)
        causes = failure_of(list(client.events(pipeline_id, filter=f"update_id = '{update_id}'")), None)
        says = causes[-1].message.strip()[:2000] if causes else f"the update ended as {state}"
        return ValidationAnswer(status="invalid", says=says.replace(scratch, ""), update_id=update_id)
    finally:
        client.delete_pipeline(pipeline_id)


def _wait(client: PipelinesClient, pipeline_id: str, update_id: str) -> str:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        state = str(client.get_update(pipeline_id, update_id).get("state"))
        if state in ENDED:
            return state
        time.sleep(0.2)
    raise Unreachable(f"The validation did not end within {SECONDS} s. Check the Pipelines API server.")
