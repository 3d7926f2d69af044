"""A stream that somebody else starts during its recovery: batches of theirs are none of the plan's. Reads only.

A pipeline's update is known to its API. A plain stream is started by schedulers and people who ask no one, so what its
checkpoint holds is compared with what this recovery has left there.
"""

from recovery import reach
from recovery.checkpoints import read_fingerprint
from recovery.contracts import codec
from recovery.contracts.results import SeedResult, UpdateResult
from recovery.errors import Refused
from recovery.streams.standing import standing_of
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import Context


def refuse_foreign_batches(context: Context) -> None:
    """Raises Refused (`batch_by_others`) before the first start of a plan's code, where the checkpoint of a plain
    stream is no longer as the plan's steps left it."""
    if (
        not context.flow.pipeline.workspace.has_streams
        or codec.read(UpdateResult, context.step.result).updates
    ):
        return
    place = checkpoint_of(context.flow)
    seed = context.recovery.steps.filter(plan=context.plan, kind="seed", state="done").first()
    with reach.reading(context.flow.pipeline.workspace):
        if seed is None:
            planned = context.contents.preconditions.checkpoint
            is_same = read_fingerprint(place) == planned.fingerprint
            wanted = planned.last_committed
        else:
            seeded = codec.read(SeedResult, seed.result)
            wanted = seeded.last_committed
        standing = standing_of(place)
    if seed is not None:
        is_same = (standing.query_id, standing.committed) == (seeded.query_id, wanted)
        is_noted = seeded.last_planned is not None or wanted is None  # older versions did not
        is_same = is_same and (standing.planned == seeded.last_planned or not is_noted)
    if is_same:
        return
    raise Refused(
        f"Something else has started this stream since {context.recovery.label} "
        f"{'put the checkpoint into place' if seed else 'was planned'}: batch {wanted} was the last one, now it is "
        f"{standing.committed}. Nothing was started. Keep what starts it from doing so, stop it, then end this "
        "recovery without proof and look at the stream again.",
        code="batch_by_others",
    )
