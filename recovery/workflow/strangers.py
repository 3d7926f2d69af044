"""A stream that somebody else starts during its recovery: batches of theirs are none of the plan's. Reads only.

A pipeline's update is known to its API. A plain stream is started by schedulers and people who ask no one, so what its
checkpoint holds is compared with what this recovery has left there.
"""

from dataclasses import dataclass

from recovery import reach
from recovery.checkpoints import read_fingerprint
from recovery.contracts import codec
from recovery.contracts.results import SeedResult, UpdateResult
from recovery.errors import Refused
from recovery.models import Flow, Plan, Step
from recovery.streams.standing import read_progress
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import Context


@dataclass(frozen=True)
class ForeignBatches:
    """`wanted`: the last committed batch that this recovery has left, `committed`: that of now; `is_seeded`: it has put
    a checkpoint into place."""

    wanted: int | None
    committed: int | None
    is_seeded: bool


def refuse_foreign_batches(context: Context) -> None:
    """Raises Refused (`batch_by_others`) before the first start of a plan's code, where the checkpoint of a plain
    stream is no longer as the plan's steps left it."""
    if not context.flow.pipeline.workspace.has_streams:
        return
    foreign = find_foreign_batches(context.flow, context.plan, context.step)
    if foreign is None:
        return
    label = context.recovery.label
    says = (
        f"a batch after {foreign.committed} was begun."
        if foreign.wanted == foreign.committed
        else f"batch {foreign.wanted} was the last one, now it is {foreign.committed}."
    )
    raise Refused(
        f"Something else has started this stream since {label} "
        f"{'put the checkpoint into place' if foreign.is_seeded else 'was planned'}: {says} Nothing was started. "
        f"Disable what starts it and stop the stream. Then roll {label} back; if it can no longer be, end it without "
        f"proof (bin/manage skip {label} --reason …).",
        code="batch_by_others",
    )


def find_foreign_batches(flow: Flow, plan: Plan, step: Step) -> ForeignBatches | None:
    """Of a plain stream before the first start of a plan's code (`step`: its rerun); None: the checkpoint is as the
    plan's steps left it, or this was started before. Reads the checkpoint."""
    if codec.read(UpdateResult, step.result).updates:
        return None
    place = checkpoint_of(flow)
    seed = Step.objects.filter(plan=plan, kind="seed", state="done").first()
    with reach.reading(flow.pipeline.workspace):
        standing = read_progress(place)
        if seed is None:
            planned = plan.contents.preconditions.checkpoint
            is_same, wanted = read_fingerprint(place) == planned.fingerprint, planned.last_committed
    if seed is not None:
        seeded = codec.read(SeedResult, seed.result)
        wanted = seeded.last_committed
        is_noted = seeded.last_planned is not None or wanted is None  # older versions did not
        is_same = (standing.query_id, standing.committed) == (seeded.query_id, wanted)
        is_same = is_same and (standing.planned == seeded.last_planned or not is_noted)
    return None if is_same else ForeignBatches(wanted, standing.committed, seed is not None)
