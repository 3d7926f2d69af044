"""Rehearsals for plans, seeds and verdicts: the flow's own query over a copy of its input, where only that can tell.

They lie below `<storage>/_rehearsals/` of the pipeline, which Spark and Reprise both reach. A rehearsal is removed when
what it was for is done; one that a crash left behind is removed by the next for the same flow and purpose.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from recovery.errors import Refused
from recovery.spark import scratch
from recovery.spark.api import Rehearsal, RehearsalRequest, Study, StudyRequest, rehearse

FOLDER = "_rehearsals"


def needed(study: Study, label: str) -> bool:
    """Whether only a rehearsal can tell what the code yields: it keeps state, and a batch could not be counted."""
    return bool(study.operators) and label not in study.rows


@contextmanager
def rehearsed(
    request: StudyRequest,
    *,
    storage: str,
    purpose: str,
    watermark_ms: int | None,
    conf: Mapping[str, str],
) -> Iterator[Rehearsal]:
    """Run the flow over what `request` names, from a watermark on; without input, for empty state of its shape.

    `conf`: settings of the old checkpoint's header. What the rehearsal left is there inside the block, and gone after
    it. Raises Unreachable, and Refused where the pipeline names no storage; what Spark or the code has against it is in
    `Rehearsal.problem`.
    """
    if not storage:
        raise Refused(
            "The pipeline names no storage root, so there is no place for a rehearsal.", code="no_storage"
        )
    place = f"{storage}/{FOLDER}/{request.flow.strip('`').replace('/', '_')}-{purpose}"
    scratch.clear(place)
    study = replace(request, table=None, by_file=False)
    try:
        yield rehearse(RehearsalRequest(study, place, watermark_ms, dict(conf) or None))
    finally:
        scratch.clear(place)
