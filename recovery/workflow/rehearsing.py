"""Rehearsals for plans, seeds and verdicts: the flow's own query over a copy of its input, where only that can tell.

They lie below `<storage>/_rehearsals/` of the pipeline, which Spark and Reprise both reach. A rehearsal is removed when
what it was for is done; one that a crash left behind is removed by the next for the same flow and purpose.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from recovery.errors import Refused
from recovery.pipelines.locks import wait_for_rehearsal_folder
from recovery.spark import scratch
from recovery.spark.api import Rehearsal, RehearsalRequest, Replay, Study, StudyRequest, rehearse
from recovery.strategies.base import Counts
from recovery.workflow.inputs import CountRequest
from recovery.workflow.studied import counts

FOLDER = "_rehearsals"


def needs_rehearsal(study: Study, label: str) -> bool:
    """Whether only a rehearsal can tell what the code yields: it keeps state, and a batch could not be counted."""
    return bool(study.operators) and label not in study.rows


def count_or_rehearse(
    told: Study,
    wanted: CountRequest,
    apart: CountRequest,
    request: Callable[[CountRequest], StudyRequest],
    *,
    storage: str,
    watermark_ms: int | None,
    conf: Mapping[str, str],
) -> Counts:
    """What the code yields; where it keeps state that a batch cannot stand for, as its own query writes it.

    `apart`: what was never read, alone; rehearsed where rows came late, to tell whether those are among them.
    """

    def rehearsal(label: str, at_ms: int | None, of: CountRequest = wanted) -> Rehearsal | None:
        if label not in of.sets or not needs_rehearsal(told, label):
            return None
        with rehearse_flow(
            request(of.only(label)),
            storage=storage,
            purpose=f"forecast-{label}",
            watermark_ms=at_ms,
            conf=conf,
        ) as found:
            return None if found.problem else found

    on, anew = rehearsal("waiting", watermark_ms), rehearsal("everything", None)
    found = counts(told)
    if anew is not None and not anew.why:
        found = replace(found, everything=anew.rows)
    if on is None:
        return found
    unread = rehearsal("unread", watermark_ms, apart) if on.late and not on.why and not on.later else None
    return replace(
        found,
        waiting=on.rows,
        rehearsed=True,
        rehearsed_late=on.late,
        rehearsed_later=on.later,
        unread_late=None if unread is None else unread.late,
        rehearsed_why=on.why,
    )


def place_of(storage: str, flow: str, purpose: str) -> str:
    """The folder of a rehearsal."""
    return f"{storage}/{FOLDER}/{flow.strip('`').replace('/', '_')}-{purpose}"


@contextmanager
def rehearse_flow(
    request: StudyRequest,
    *,
    storage: str,
    purpose: str,
    watermark_ms: int | None,
    conf: Mapping[str, str],
    replay: Replay | None = None,
) -> Iterator[Rehearsal]:
    """Run the flow over what `request` names, from a watermark on; without input, for empty state of its shape.

    `conf`: settings of the old checkpoint's header; `replay`: of what its state is built before. What the rehearsal
    left is there inside the block, and gone after it. Raises Unreachable, and Refused where the pipeline names no
    storage; what Spark or the code has against it is in `Rehearsal.problem`.
    """
    if not storage:
        raise Refused(
            "The pipeline names no storage root, so there is no place for a rehearsal.", code="no_storage"
        )
    place = place_of(storage, request.flow, purpose)
    study = replace(request, table=None, by_file=False)
    with wait_for_rehearsal_folder(place):  # two plans of one flow may be made at once
        scratch.clear_scratch(place)
        try:
            yield rehearse(RehearsalRequest(study, place, watermark_ms, dict(conf) or None, replay))
        finally:
            scratch.clear_scratch(place)
