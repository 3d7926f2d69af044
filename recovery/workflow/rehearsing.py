"""Rehearsals for plans, seeds and verdicts: the flow's own query over a copy of its input, where only that can tell.

They lie below `<storage>/_rehearsals/` of the pipeline, which Spark and Reprise both reach. A rehearsal is removed when
what it was for is done; one that a crash left behind is removed by the next of the same recovery and purpose.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from recovery.errors import Refused
from recovery.spark import scratch
from recovery.spark.api import Rehearsal, RehearsalRequest, rehearse
from recovery.workflow.gather import Scene, request_for
from recovery.workflow.inputs import Counted

FOLDER = "_rehearsals"


def place_of(scene: Scene, purpose: str) -> str:
    """Where the rehearsal of one flow for one purpose lies. Raises Refused where the pipeline names no storage."""
    if not scene.storage:
        raise Refused(
            "The pipeline names no storage root, so there is no place for a rehearsal.", code="no_storage"
        )
    return f"{scene.storage}/{FOLDER}/{scene.flow.dataset}-{scene.flow.short}-{purpose}"


@contextmanager
def rehearsed(
    scene: Scene,
    files: Mapping[str, str],
    wanted: Counted,
    *,
    purpose: str,
    watermark_ms: int | None,
    key: tuple[str, ...] = (),
) -> Iterator[Rehearsal]:
    """Run the flow with the code `files` over what `wanted` names, from a watermark on; without input, for its state.

    What it left is there inside the block, and gone after it. Raises Unreachable; what Spark or the code has against it
    is in `Rehearsal.problem`.
    """
    place = place_of(scene, purpose)
    scratch.clear(place)
    study = replace(request_for(scene, files, wanted, key), table=None, by_file=False)
    request = RehearsalRequest(study, place, watermark_ms, dict(scene.checkpoint.conf) or None)
    try:
        yield rehearse(request)
    finally:
        scratch.clear(place)
