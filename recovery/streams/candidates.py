"""Which streams could be adopted: checkpoints below some folders, matched with event logs by query id."""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from django.utils import timezone

from recovery import reach
from recovery.errors import RepriseError
from recovery.eventlogs.seen import Seen
from recovery.eventlogs.values import RunState
from recovery.models import Stream, Workspace
from recovery.people.roles import Actor, Right
from recovery.streams import tailing
from recovery.streams.actions import (
    Said,
    adopt_stream,
    called_after,
    check_places,
    spelled_place,
    workspace_of,
)
from recovery.streams.finding import FoundCheckpoint, Scan, ScanProblem, find_checkpoints
from recovery.streams.updates import alive_by_log

LOG_SECONDS: Final = 1800.0
"""So long event logs are read before what is known by then is matched."""


class Skip(StrEnum):
    """Why a checkpoint that was found is not adopted. SHARED: another folder holds the same query id, and no event log
    tells which of them the query writes to."""

    NONE = ""
    ADOPTED = "adopted"
    SHARED = "query_id_shared"
    NO_QUERY = "no_query_id"


@dataclass(frozen=True)
class Candidate:
    """A checkpoint that was found. `state`: as its event log says, `unknown` where none does; `pipeline`: the id of the
    stream that has it already, or that was made of it. `skip`: why it is not adopted."""

    place: str
    query_id: str
    name: str
    planned: int | None
    committed: int | None
    state: str = "unknown"
    application: str = ""
    event_log: str = ""
    pipeline: str = ""
    skip: Skip = Skip.NONE

    def as_json(self) -> dict[str, object]:
        return {
            "checkpoint": self.place, "query_id": self.query_id or None, "name": self.name, "state": self.state,
            "last_planned": self.planned, "last_committed": self.committed, "application": self.application or None,
            "event_log": self.event_log or None, "pipeline": self.pipeline or None, "skip": str(self.skip) or None,
        }  # fmt: skip


@dataclass(frozen=True)
class Listing:
    """What was found. `queries_without`: query ids of the event logs whose checkpoint was not found below the roots;
    `logs_are_whole`: all of the event logs was read."""

    candidates: tuple[Candidate, ...]
    scan: Scan
    queries_without: int
    logs: int
    logs_are_whole: bool
    seconds: float


def list_candidates(*, roots: Sequence[str], said: Said, by: Actor) -> Listing:
    """Look, and change nothing but what was read of event logs. Raises Denied, WrongUse, Refused, NotFound,
    Unreachable."""
    by.check(Right.RECOVER, said.environment)
    began, workspace = time.monotonic(), workspace_of(said, by, is_look=True)
    places = [spelled_place(root, "A root") for root in roots]
    folders = (
        [spelled_place(said.event_log, "The event log")] if said.event_log else list(workspace.event_logs)
    )
    check_places((*places, *folders), by)
    with reach.reading(workspace):
        unread = [folder for folder in folders if not _read_whole(folder)]
        scan = find_checkpoints(places)
    index = tailing.LogIndex(folders)
    known = dict(_known(scan.checkpoints))
    shared = {i for i, n in Counter(c.standing.query_id for c in scan.checkpoints).items() if n > 1}
    found = [_candidate(c, index, folders, known, shared) for c in scan.checkpoints]
    without = index.queries.difference(c.query_id for c in found)
    seconds = round(time.monotonic() - began, 1)
    return Listing(tuple(_named(found)), scan, len(without), index.logs, not unread, seconds)


def _read_whole(folder: str) -> bool:
    until = time.monotonic() + LOG_SECONDS
    while time.monotonic() < until:
        if tailing.catch_up(folder, seconds=60.0):
            return True
    return False


def _known(found: Collection[FoundCheckpoint]) -> list[tuple[str, str]]:
    rows = Stream.objects.filter(checkpoint__in=[c.place for c in found], pipeline__gone=False)
    return list(rows.values_list("checkpoint", "pipeline__pipeline_id"))


def _candidate(
    found: FoundCheckpoint,
    index: tailing.LogIndex,
    folders: Sequence[str],
    known: dict[str, str],
    shared: Collection[str],
) -> Candidate:
    standing = found.standing
    query_id, pipeline = standing.query_id, known.get(found.place, "")
    seen, folder = _newest(index, folders, query_id)
    names_it = seen is not None and tailing.plain_place(seen.run.checkpoint) == tailing.plain_place(
        found.place
    )
    skip = Skip.NONE
    if pipeline:
        skip = Skip.ADOPTED
    elif not query_id:
        skip = Skip.NO_QUERY
    elif query_id in shared and not names_it:
        skip = Skip.SHARED
    return Candidate(
        found.place, query_id, (seen.run.name if seen else "") or called_after(found.place), standing.planned,
        standing.committed, _state(seen), seen.app.app_id if seen else "", folder, pipeline, skip,
    )  # fmt: skip


def _newest(index: tailing.LogIndex, folders: Sequence[str], query_id: str) -> tuple[Seen | None, str]:
    """The newest run of a query, and the folder of its log."""
    runs = [
        (seen[-1], folder) for folder in folders if query_id and (seen := index.runs_of(folder, [query_id]))
    ]
    return max(runs, key=lambda one: one[0].run.started_ms) if runs else (None, "")


def _state(seen: Seen | None) -> str:
    if seen is None:
        return "unknown"
    if seen.run.state is not RunState.RUNNING:
        return {RunState.FAILED: "failed", RunState.ENDED: "ended"}.get(seen.run.state, "stopped")
    return "running" if alive_by_log([seen], timezone.now()) else "silent"


def _named(found: Sequence[Candidate]) -> list[Candidate]:
    """Two of one name are distinguished by the folder above."""
    times = Counter(c.name for c in found)
    return [c if times[c.name] == 1 else replace(c, name=_longer(c)) for c in found]


def _longer(candidate: Candidate) -> str:
    parts = [p for p in candidate.place.split("/") if p]
    return " ".join([candidate.name, *parts[-2:]])[:200]


def adopt_candidates(*, listing: Listing, said: Said, by: Actor) -> tuple[list[Candidate], list[ScanProblem]]:
    """Adopt those that nothing speaks against, each by the door of one stream and with its own audit entry.

    (all of them, with the pipelines that were made; what was refused.)
    """
    done: list[Candidate] = []
    refused: list[ScanProblem] = []
    for candidate in listing.candidates:
        if candidate.skip is not Skip.NONE:
            done.append(candidate)
            continue
        mine = replace(said, name=candidate.name, event_log=candidate.event_log or said.event_log)
        try:
            stream = adopt_stream(checkpoint=candidate.place, said=mine, by=by, is_one_of_many=True)
        except RepriseError as error:
            refused.append(ScanProblem(candidate.place, error.code, error.sentence))
            done.append(candidate)
        else:
            done.append(replace(candidate, pipeline=stream.pipeline.pipeline_id))
    return done, refused


def workspaces_of(found: Collection[Candidate]) -> list[int]:
    """Workspaces of the streams that were adopted, to be polled once."""
    rows = Workspace.objects.filter(pipelines__pipeline_id__in=[c.pipeline for c in found if c.pipeline])
    return list(rows.order_by("pk").values_list("pk", flat=True).distinct())
