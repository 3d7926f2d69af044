"""Whether what runs is what was reviewed: the code, and the settings that it reads. People read a plan and vote on it;
between its patch and an update there may lie hours in which a step stood still and somebody repaired its cause.

Asked right before the plan's own code runs, and before anything is measured with it. What a plan changes is in place
then: every file is the sealed one, or as its patch left it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from recovery.contracts.plan import PlanBody
from recovery.errors import Refused
from recovery.pipelines.client import PipelinesClient
from recovery.plans.drift import compare_reviewed
from recovery.workflow import fingerprints
from recovery.workflow.deployed import read_code, read_sha256

WAY_ON = (
    "Put it back as it was reviewed, then resume. To keep the change, end or roll back this recovery, open another "
    "one and seal a plan with it."
)


def require_workspace_unchanged(
    contents: PlanBody, client: PipelinesClient, pipeline_id: str, *, so: str
) -> None:
    """Raise Refused, with what differs and what `so` did not happen, unless the workspace is as the plan left it."""
    spec = client.get_pipeline(pipeline_id).get("spec") or {}
    _, code = read_code(client, spec)
    require_unchanged(contents, spec, code, client, so=so)


def require_unchanged(
    contents: PlanBody,
    spec: Mapping[str, Any],
    code: Mapping[str, str],
    client: PipelinesClient,
    *,
    so: str,
) -> None:
    """As `require_workspace_unchanged`, of settings and source that were read already."""
    now = fingerprints.of_code(code)
    # what a patch has put back may be where no listing of the pipeline looks
    for path in contents.reviewed_code:
        elsewhere = path not in now and path not in contents.preconditions.code
        if elsewhere and (sha256 := read_sha256(client, path)):
            now[path] = sha256
    if drift := compare_reviewed(contents, code=now, settings=fingerprints.of_settings(spec)):
        raise Refused(f"{' '.join(d.says for d in drift)} {so} {WAY_ON}", code="not_as_reviewed")


def require_reviewed_code_ran(
    contents: PlanBody, client: PipelinesClient, pipeline_id: str, update_ids: Iterable[str]
) -> None:
    """Raise Refused when an update has read another code than the plan's, or ran in a session with other settings;
    silent where the workspace keeps no copy.

    A file may be edited, and put back, between the look and the update's own reading.
    """
    wanted, planned = contents.reviewed_code, contents.preconditions.settings.get("session")
    for update_id in update_ids:
        session = client.update_row_settings(pipeline_id, update_id)
        if (
            None not in (planned, session)
            and planned != fingerprints.of_settings({"configuration": session})["session"]
        ):
            raise Refused(
                f"Update {update_id} ran with session settings that are not the plan's, so what it wrote is not "
                "measured. Roll back if that is still possible, or end without proof.",
                code="ran_unreviewed",
            )
        read = client.update_source(pipeline_id, update_id) or {}
        other = [
            path
            for path, content in sorted(read.items())
            if path in wanted and hashlib.sha256(content).hexdigest() != wanted[path]
        ]
        if other:
            raise Refused(
                f"Update {update_id} ran with a version of {', '.join(other)} that was never reviewed, so what it "
                "wrote is not measured. Roll back if that is still possible, or end without proof.",
                code="ran_unreviewed",
            )
