"""stop: nothing of the pipeline runs. Under a plan it first proves that nothing has moved since the seal."""

import time
from collections.abc import Mapping
from typing import Any

from recovery.errors import Refused
from recovery.models import Step
from recovery.pipelines.workspaces import client_for
from recovery.plans.drift import compare
from recovery.verification.evidence import data_files
from recovery.workflow.gather import ACTIVE, look, other_fingerprints
from recovery.workflow.steps.base import Context, PlanVoid, Probed, saw

SECONDS = 120


def run(context: Context) -> Mapping[str, Any]:
    """The early stop asks the API to stop; a plan's stop only proves that it still is stopped."""
    if context.step.plan is None:
        return _stop(context)
    known = {context.body["dataset"]: context.body["table_place"], **context.body["other_tables"]}
    scene = look(context.flow, known=known)
    if drift := compare(context.body["preconditions"], scene.preconditions()):
        raise PlanVoid(drift)
    context.log(
        f"Still stopped: no update is active. Checkpoint, code and table are as sealed in {context.plan.hash[:8]}."
    )
    return {
        "proved": ["checkpoint", "code", "sink", "active_update"],
        "others": other_fingerprints(scene),
        "newest_update": scene.last_update,
        "sink_files": list(data_files(scene.sink)),
    }


def _stop(context: Context) -> Mapping[str, Any]:
    client, begun = context.client, time.monotonic()
    active = _active(context)
    if active is None:
        context.log("No update was active: the pipeline was stopped already.")
        return {"was": "idle", "seconds": 0.0}
    context.watch.guard()
    client.stop(context.pipeline_id)
    context.log(f"Stop of update {active} accepted. Accepted is not yet stopped.")
    while _active(context) is not None:
        context.watch.guard()
        if time.monotonic() - begun > SECONDS - 10:
            raise Refused(
                f"Update {active} is still active {SECONDS - 10} s after the stop was accepted. "
                "Look at the Pipelines API server, then stop again."
            )
        time.sleep(0.2)
    update = client.get_update(context.pipeline_id, active)
    seconds = round(time.monotonic() - begun, 1)
    context.log(f"Read back: update {active} is {update.get('state')}, no update is active. {seconds} s.")
    return {"was": "running", "update_id": active, "ended": update.get("state"), "seconds": seconds}


def _active(context: Context) -> str | None:
    return active_update(context.client.get_pipeline(context.pipeline_id))


def active_update(answer: Mapping[str, Any]) -> str | None:
    """The id of the update that is not yet ended, from a get-pipeline answer."""
    return next(
        (u["update_id"] for u in answer.get("latest_updates") or [] if u.get("state") in ACTIVE), None
    )


def probe(step: Step) -> Probed:
    """Stopping twice does no harm; proven done when nothing is active."""
    flow = step.recovery.flow
    active = active_update(client_for(flow.pipeline.workspace).get_pipeline(flow.pipeline.pipeline_id))
    if step.plan is not None:
        return Probed("again", [saw(True, "This step only reads: running it again changes nothing.")])
    if active is None:
        return Probed(
            "done", [saw(True, "The Pipelines API says that no update is active.")], {"was": "unknown"}
        )
    return Probed("not_done", [saw(True, f"Update {active} is still active.")])
