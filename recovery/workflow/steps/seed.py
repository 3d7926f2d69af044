"""seed: put the next checkpoint version into place, with the old one's progress and no state.

Crash order is in checkpoints.seed: undo record, prepared directory, read back, one rename.
"""

from collections.abc import Mapping
from typing import Any

from recovery.checkpoints import inspect
from recovery.checkpoints import seed as seeding
from recovery.errors import Refused
from recovery.models import Step
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import Context, Probed, saw

SECONDS = 600


def run(context: Context) -> Mapping[str, Any]:
    """Prepare, read back, rename. Refused when the checkpoint is no longer the planned one."""
    place, label = checkpoint_of(context.flow), context.recovery.label
    if seeding.probe(place, recovery=label).published is None:
        seeding.clean(place, recovery=label)
    report = inspect(place)
    planned = context.body["preconditions"]["checkpoint"]
    if report.fingerprint != planned["fingerprint"]:
        raise Refused(
            f"The checkpoint is no longer as planned (version {report.version}, batch {report.last_committed}). "
            "It was left alone. Seal a new plan."
        )
    plan = seeding.plan_seed(report)
    context.watch.guard()
    prepared = seeding.prepare(
        place, plan, recovery=label, fence=context.step.fence, guard=context.watch.guard
    )
    context.log(
        f"Undo record written. Prepared from version {report.version}, batch {report.last_committed}."
    )
    version = seeding.publish(place, prepared, guard=context.watch.guard)
    context.log(f"Renamed to version {version}. Version {report.version} is untouched.")
    return {**_read_back(context, place, version), "from_version": report.version}


def _read_back(context: Context, place: str, version: int) -> dict[str, Any]:
    now = inspect(place)
    wanted = [p["after"]["offset_json"] for p in context.body["positions"]]
    found = [s.offset_json for s in now.sources]
    if now.version != version or found != wanted or now.blockers:
        raise Refused(
            f"Version {now.version} reads back with offsets {found}, planned were {wanted}. Roll back, then seal anew."
        )
    context.log(f"Read back: intact, next batch {(now.last_committed or 0) + 1}, offsets as planned.")
    return {
        "version": version,
        "query_id": now.query_id,
        "last_committed": now.last_committed,
        "offsets": found,
    }


def probe(step: Step) -> Probed:
    """Decided from disk alone: only the rename makes anything visible to Spark."""
    place = checkpoint_of(step.recovery.flow)
    seen = seeding.probe(place, recovery=step.recovery.label)
    evidence = [dict(line) for line in seen.evidence]
    if seen.published is not None:
        report = inspect(place)
        evidence.append(saw(report.version == seen.published, f"Spark's newest version is {report.version}."))
        return Probed(
            "done",
            evidence,
            {
                "version": seen.published,
                "from_version": seen.published - 1,
                "query_id": report.query_id,
                "last_committed": report.last_committed,
                "offsets": [s.offset_json for s in report.sources],
            },
        )
    return Probed("unclear" if seen.unclear else "not_done", evidence)
