"""seed: put the next checkpoint version into place: with the old one's progress and no state, or mended.

Crash order is in checkpoints.placing: undo record, prepared directory, read back, one rename.
"""

from collections.abc import Mapping
from typing import Any

from recovery.checkpoints import inspect, placing, repair
from recovery.checkpoints import seed as seeding
from recovery.checkpoints.placing import Prepared
from recovery.checkpoints.report import CheckpointReport
from recovery.errors import Refused
from recovery.models import Step
from recovery.sinks.live import reading as sinks
from recovery.workflow import repairing
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import Context, Probed, saw

SECONDS = 600


def run(context: Context) -> Mapping[str, Any]:
    """Prepare, read back, rename. Refused when the checkpoint is no longer the planned one."""
    place, label = checkpoint_of(context.flow), context.recovery.label
    if not placing.probe(place, recovery=label).in_place:
        placing.clean(place, recovery=label)
    # beside its table, as when it was planned: a batch that only the table has finished counts as done
    report = inspect(place, sink=context.body["table_place"])
    planned = context.body["preconditions"]["checkpoint"]
    if report.fingerprint != planned["fingerprint"]:
        raise Refused(
            f"The checkpoint is no longer as planned (version {report.version}, batch {report.last_committed}). "
            "It was left alone. Seal a new plan."
        )
    context.watch.guard()
    make = _repaired if context.step.args.get("action") == "repair" else _seeded
    prepared = make(context, place, report)
    context.log(
        f"Undo record written. Prepared from version {report.version}, batch {report.last_committed}."
    )
    version = placing.publish(place, prepared, guard=context.watch.guard)
    context.log(f"Renamed to version {version}. Version {report.version} is untouched.")
    return {**_read_back(context, place, version), "from_version": report.version}


def _seeded(context: Context, place: str, report: CheckpointReport) -> Prepared:
    plan = seeding.plan_seed(report)
    return seeding.prepare(
        place,
        plan,
        recovery=context.recovery.label,
        fence=context.step.fence,
        guard=context.watch.guard,
    )


def _repaired(context: Context, place: str, report: CheckpointReport) -> Prepared:
    """Lay the repair out again from what is there now; it must be the one that was sealed."""
    args, body = context.step.args, context.body
    plan = repairing.preview(
        place,
        table=body["table_place"],
        sink=sinks.read(body["table_place"], query_id=report.query_id),
        query_id=args["query_id"],
        operators=args["operators"],
        inputs=body["inputs"],
    )
    if [m.as_dict() for m in plan.mendings] != args["mendings"]:
        raise Refused(
            "What can be mended is no longer what the plan says. The checkpoint was left alone. Seal a new plan."
        )
    for mending in plan.mendings:
        context.log(f"{mending.file}: {mending.how}")
    return repair.prepare(
        place,
        plan,
        recovery=context.recovery.label,
        fence=context.step.fence,
        guard=context.watch.guard,
    )


def _read_back(context: Context, place: str, version: int | None) -> dict[str, Any]:
    now = inspect(place)
    wanted = context.step.args.get("offsets") or [
        p["after"]["offset_json"] for p in context.body["positions"]
    ]
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
    seen = placing.probe(place, recovery=step.recovery.label)
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
