"""What the definitions of all known flows say against one of them: a checkpoint or a file table that is not its own."""

from collections.abc import Sequence
from typing import Final

from recovery.checkpoints.location_checks import find_shared_locations
from recovery.checkpoints.queryids import find_shared_ids, read_query_id
from recovery.checkpoints.report import Finding
from recovery.checkpoints.sinklog import several_writers
from recovery.errors import Refused, RepriseError
from recovery.models import Flow
from recovery.pipelines.losses import is_of_files
from recovery.workflow.places import checkpoint_of

ASKED: Final = 50
"""So many checkpoints are asked for their query id at most."""


def find_shared_storage(flow: Flow, place: str, *, file_table: bool) -> tuple[Finding, ...]:
    """Blockers for what other flows of the workspace share with this one. Asks the inventory; of storage it reads the
    query ids of those flows alone that may have this one's.

    `place`: where the flow's checkpoint lies; `file_table`: whether its table keeps a log of batches by their numbers
    alone. A flow that the code no longer has stays in the inventory as unknown, and is not asked.
    """
    workspace = flow.pipeline.workspace
    known = Flow.objects.filter(pipeline__workspace=workspace, pipeline__gone=False, streaming=True)
    # a condition says why it is not known how a flow is that the code has
    known = known.exclude(pk=flow.pk).exclude(state="unknown", condition="")
    others = list(known.select_related("pipeline"))
    places = {_called(flow): place}
    for one in others:
        try:
            there = checkpoint_of(one)
        except Refused:
            continue  # it has no place yet, or none that can be reached
        if find_shared_locations({"this": place, "that": there}):
            places[_called(one)] = there
    found = find_shared_locations(places)
    if file_table and flow.dataset:
        tables = {_called(one): one.dataset for one in (flow, *others)}
        found += [f for f in [several_writers(flow.dataset, tables)] if f]
    return (*found, *_find_twins(flow, place, others))


def _find_twins(flow: Flow, place: str, others: Sequence[Flow]) -> list[Finding]:
    """Flows whose checkpoints have this one's query id: by their newest progress, or of this pipeline and without any;
    what the checkpoint itself has decides."""
    own = _read_id(place)
    if own is None:
        return []
    told = {one.pk: str((one.last_progress or {}).get("id") or "") for one in others}
    may_be = [
        one
        for one in others
        if told[one.pk] == own or (not told[one.pk] and one.pipeline_id == flow.pipeline_id)
    ]
    ids: dict[str, str | None] = {_called(flow): own}
    for one in may_be[:ASKED]:
        try:
            there = checkpoint_of(one)
        except Refused:
            continue
        if not find_shared_locations({"this": place, "that": there}):
            ids[_called(one)] = _read_id(there)
    return find_shared_ids(ids)


def _read_id(place: str) -> str | None:
    try:
        return read_query_id(place)
    except RepriseError:
        return None  # who looks at the checkpoint itself says that it cannot be reached


def _called(flow: Flow) -> str:
    return f"{flow.short} ({flow.pipeline.name})"


def writes_files(flow: Flow) -> bool:
    """Is the flow's table one of files, as its newest progress names the sink (`FileSink[...]`)?"""
    return is_of_files(flow.last_progress)
