"""rollback: undo what can be undone: the new version is renamed away, the source is written back."""

import hashlib
from collections.abc import Mapping
from typing import Any

from recovery.checkpoints import placing
from recovery.errors import Refused
from recovery.models import Recovery, Step
from recovery.pipelines.workspaces import client_for
from recovery.sinks.live import files as sink_files
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import Context, Probed, saw
from recovery.workflow.steps.stop import active_update

SECONDS = 300


def refusal(recovery: Recovery) -> str | None:
    """Why this recovery can no longer be rolled back, in one sentence; None when it can. Reads only."""
    done = {s.kind: s for s in recovery.steps.filter(state="done", plan__isnull=False)}
    if recovery.state == "rolled_back":
        return f"{recovery.label} is rolled back already."
    if not ({"seed", "patch"} & set(done)):
        return "Nothing was changed that could be undone."
    flow = recovery.flow
    if active_update(client_for(flow.pipeline.workspace).get_pipeline(flow.pipeline.pipeline_id)):
        return "An update is running. Stop it first."
    if "seed" in done:
        place = checkpoint_of(flow)
        return placing.undo_refusal(place, recovery=recovery.label, sink_head=_head(done["seed"]))
    rerun = recovery.steps.filter(kind="rerun").first()
    if rerun and rerun.result.get("update_id") and rerun.state == "done":
        return "The update has run with the changed code; what it committed stays. Patch the code by a new recovery."
    return None


def _head(step: Step) -> int | None:
    table = step.plan.body["table_place"] if step.plan else None
    return sink_files.read(table).head if table else None


def run(context: Context) -> Mapping[str, Any]:
    """First the checkpoint (so that no update can start on the seed with the old code), then the source."""
    reason = refusal(context.recovery)
    if reason:
        raise Refused(reason)
    done = {s.kind: s for s in context.recovery.steps.filter(state="done", plan__isnull=False)}
    if "seed" in done:
        context.watch.guard()
        placing.undo(
            checkpoint_of(context.flow), recovery=context.recovery.label, sink_head=_head(done["seed"])
        )
        context.log(
            f"Version {done['seed'].result['version']} renamed away; the old version is in use again."
        )
    written = []
    if "patch" in done:
        for change in context.body["patch"]:
            written.append(_write_back(context, change))
    return {"checkpoint": "seed" in done, "files": written}


def _write_back(context: Context, change: Mapping[str, Any]) -> str:
    now = hashlib.sha256(context.client.export(change["path"])).hexdigest()
    if now not in (change["after_sha256"], change["before_sha256"]):
        raise Refused(
            f"{change['path']} was edited since the recovery wrote it; it was left alone. Mend it by hand."
        )
    if now != change["before_sha256"]:
        context.watch.guard()
        context.client.import_file(change["path"], change["before"].encode())
        context.log(f"{change['path']} written back.")
    return str(change["path"])


def probe(step: Step) -> Probed:
    """Rolled back when the seed's version is gone; running it again only finishes what is left."""
    reason = refusal(step.recovery)
    return Probed("not_done", [saw(None, reason or "What is left to undo can still be undone.")])
