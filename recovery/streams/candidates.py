"""Which streams could be adopted: checkpoints below some folders, matched with event logs by query id."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import itemgetter
from typing import Final

from django.conf import settings
from django.utils import timezone

from recovery import reach
from recovery.checkpoints import access
from recovery.errors import RepriseError
from recovery.eventlogs.seen import SeenRun
from recovery.eventlogs.values import RunState
from recovery.models import Stream, Workspace
from recovery.people.roles import Actor
from recovery.streams import tailing
from recovery.streams.actions import (
    StreamDetails,
    adopt_stream,
    check_places,
    check_recover,
    choose_name,
    spelled_place,
    workspace_of,
)
from recovery.streams.finding import FoundCheckpoint, Scan, ScanProblem, find_checkpoints
from recovery.streams.folders import is_same_place, real_place
from recovery.streams.places import leave_out_other_checkpoints
from recovery.streams.updates import alive_by_log

LOG_SECONDS: Final = 1800.0
"""So long event logs are read before what is known by then is matched."""


class SkipReason(StrEnum):
    """Why a query that was found is not adopted. SHARED: another folder holds the same query id, and no event log
    names this one. NO_CHECKPOINT: event logs name it, and none of the folders holds it.
    OVER_LIMIT: the next call adopts it."""

    NONE = ""
    ADOPTED = "adopted"
    SHARED = "query_id_shared"
    NO_QUERY = "no_query_id"
    NO_CHECKPOINT = "no_checkpoint"
    OVER_LIMIT = "over_limit"


@dataclass(frozen=True)
class StreamCandidate:
    """A checkpoint that was found. `state`: as its event log says, `unknown` where none does; `pipeline`: the id of the
    stream that has it already, or that was made of it. `skip`: why it is not adopted; `problem`: why it was refused."""

    place: str
    query_id: str
    name: str
    planned: int | None
    committed: int | None
    state: str = "unknown"
    application: str = ""
    event_log: str = ""
    pipeline: str = ""
    skip: SkipReason = SkipReason.NONE
    problem: ScanProblem | None = None

    def as_json(self) -> dict[str, object]:
        problem = {"code": self.problem.code, "says": self.problem.says} if self.problem else None
        return {
            "checkpoint": self.place, "query_id": self.query_id or None, "name": self.name, "state": self.state,
            "last_planned": self.planned, "last_committed": self.committed, "application": self.application or None,
            "event_log": self.event_log or None, "pipeline": self.pipeline or None, "skip": str(self.skip) or None,
            "problem": problem,
        }  # fmt: skip


@dataclass(frozen=True)
class Unmatched:
    """A query that event logs name and whose checkpoint is not below the roots."""

    query_id: str
    name: str
    state: str
    application: str
    event_log: str
    skip: SkipReason

    def as_json(self) -> dict[str, object]:
        return {
            "query_id": self.query_id, "name": self.name or None, "state": self.state,
            "application": self.application or None, "event_log": self.event_log, "skip": str(self.skip),
        }  # fmt: skip


@dataclass(frozen=True)
class ListedStreams:
    """Streams that are on the list: pipeline ids by real place, real places by query id."""

    pipelines: Mapping[str, str]
    places: Mapping[str, Collection[str]]


@dataclass(frozen=True)
class Listing:
    """What was found. `queries_without`: how many queries of the event logs have no checkpoint below the roots;
    `unmatched`: the first of them; `logs_are_whole`: all of the event logs was read."""

    candidates: tuple[StreamCandidate, ...]
    scan: Scan
    queries_without: int
    unmatched: tuple[Unmatched, ...]
    logs: int
    logs_are_whole: bool
    seconds: float


def list_candidates(*, roots: Sequence[str], said: StreamDetails, by: Actor) -> Listing:
    """Look, and change nothing but what was read of event logs. Raises Denied, WrongUse, Refused, NotFound,
    Unreachable."""
    check_recover(by, said.environment, ", ".join(roots))
    began, workspace = time.monotonic(), workspace_of(said, by, is_look=True)
    places = [spelled_place(root, "A root") for root in roots]
    folders = (
        [spelled_place(said.event_log, "The event log")] if said.event_log else list(workspace.event_logs)
    )
    check_places((*places, *folders), by)
    with reach.reading_in_sight(workspace, by):
        unread = [folder for folder in folders if not _read_whole(folder)]
        scan = _leave_out_unseen(find_checkpoints(places), by)
    index, listed, most = tailing.LogIndex(folders), _find_listed(), settings.REPRISE_ADOPT_MOST
    checkpoints = _distinct(scan.checkpoints)
    shared = _shared_ids(checkpoints, listed)
    found = [_candidate(real, c, index, folders, listed, shared) for real, c in checkpoints.items()]
    without = sorted(index.queries.difference(c.query_id for c in found))
    unmatched = tuple(_unmatched(query_id, index, folders, listed) for query_id in without[:most])
    seconds = round(time.monotonic() - began, 1)
    candidates = tuple(_limit_adoptions(_named(found), most))
    return Listing(candidates, scan, len(without), unmatched, index.logs, not unread, seconds)


def _leave_out_unseen(scan: Scan, by: Actor) -> Scan:
    """What this person does not see was not read, and is not named either."""
    unseen = reach.list_out_of_sight(by)
    problems = (p for p in scan.problems if not any(access.is_below(p.place, place) for place in unseen))
    return replace(scan, problems=tuple(problems))


def _read_whole(folder: str) -> bool:
    until = time.monotonic() + LOG_SECONDS
    while time.monotonic() < until:
        if tailing.catch_up(folder, seconds=60.0):
            return True
    return False


def _find_listed() -> ListedStreams:
    rows = Stream.objects.filter(pipeline__gone=False, pipeline__workspace__removed_at=None)
    pipelines: dict[str, str] = {}
    places: dict[str, set[str]] = defaultdict(set)
    for checkpoint, pipeline_id, query_ids in rows.values_list(
        "checkpoint", "pipeline__pipeline_id", "query_ids"
    ):
        real = real_place(checkpoint)
        pipelines[real] = pipeline_id
        for query_id in query_ids:
            places[query_id].add(real)
    return ListedStreams(pipelines, places)


def _distinct(found: Sequence[FoundCheckpoint]) -> dict[str, FoundCheckpoint]:
    """Each folder once, by its real place, however many roots and links lead to it."""
    distinct: dict[str, FoundCheckpoint] = {}
    for checkpoint in found:
        distinct.setdefault(real_place(checkpoint.place), checkpoint)
    return distinct


def _shared_ids(found: Mapping[str, FoundCheckpoint], listed: ListedStreams) -> set[str]:
    """Query ids that more than one folder holds, those of streams on the list among them."""
    places: dict[str, set[str]] = defaultdict(set)
    for real, checkpoint in found.items():
        query_id = checkpoint.standing.query_id
        places[query_id] |= {real, *listed.places.get(query_id, ())}
    return {query_id for query_id, held in places.items() if len(held) > 1}


def _candidate(
    real: str,
    found: FoundCheckpoint,
    index: tailing.LogIndex,
    folders: Sequence[str],
    listed: ListedStreams,
    shared: Collection[str],
) -> StreamCandidate:
    standing = found.standing
    query_id, pipeline = standing.query_id, listed.pipelines.get(real, "")
    seen, folder = _find_newest_run(index, folders, query_id, found.place)
    skip = SkipReason.NONE
    if pipeline:
        skip = SkipReason.ADOPTED
    elif not query_id:
        skip = SkipReason.NO_QUERY
    elif query_id in shared and not _is_named(index, folders, query_id, found.place):
        skip = SkipReason.SHARED
    return StreamCandidate(
        found.place, query_id, choose_name(seen.run.name if seen else "", found.place), standing.planned,
        standing.committed, _state(seen), seen.app.app_id if seen else "", folder, pipeline, skip,
    )  # fmt: skip


def _unmatched(
    query_id: str, index: tailing.LogIndex, folders: Sequence[str], listed: ListedStreams
) -> Unmatched:
    seen, folder = _find_newest_run(index, folders, query_id)
    skip = SkipReason.ADOPTED if query_id in listed.places else SkipReason.NO_CHECKPOINT
    name, application = (seen.run.name, seen.app.app_id) if seen else ("", "")
    return Unmatched(query_id, name, _state(seen), application, folder, skip)


def _limit_adoptions(found: Iterable[StreamCandidate], most: int) -> Iterator[StreamCandidate]:
    """Those beyond the first that can be adopted wait for the next call."""
    left = most
    for candidate in found:
        if candidate.skip is SkipReason.NONE:
            left -= 1
        is_over = candidate.skip is SkipReason.NONE and left < 0
        yield replace(candidate, skip=SkipReason.OVER_LIMIT) if is_over else candidate


def _find_newest_run(
    index: tailing.LogIndex, folders: Sequence[str], query_id: str, checkpoint: str = ""
) -> tuple[SeenRun | None, str]:
    """The newest run of a query, and the folder of its log. One that names another checkpoint is taken only where no
    other run is there."""
    newest = []
    for folder in folders if query_id else ():
        seen = index.runs_of(folder, [query_id])
        own = leave_out_other_checkpoints(checkpoint, seen) if checkpoint else seen
        newest += [(bool(own), run.run.started_ms, run, folder) for run in (own or seen)[-1:]]
    return max(newest, key=itemgetter(0, 1))[2:] if newest else (None, "")


def _is_named(index: tailing.LogIndex, folders: Sequence[str], query_id: str, checkpoint: str) -> bool:
    """Whether a run of a query names this folder. A run that had no batch yet names none."""
    runs = (seen.run for folder in folders for seen in index.runs_of(folder, [query_id]))
    return any(run.checkpoint and is_same_place(run.checkpoint, checkpoint) for run in runs)


def _state(seen: SeenRun | None) -> str:
    if seen is None:
        return "unknown"
    if seen.run.state is not RunState.RUNNING:
        return {RunState.FAILED: "failed", RunState.ENDED: "ended"}.get(seen.run.state, "stopped")
    return "running" if alive_by_log([seen], timezone.now()) else "silent"


def _named(found: Sequence[StreamCandidate]) -> list[StreamCandidate]:
    """Two of one name are distinguished by the folder above."""
    times = Counter(c.name for c in found)
    return [c if times[c.name] == 1 else replace(c, name=_longer(c)) for c in found]


def _longer(candidate: StreamCandidate) -> str:
    parts = [p for p in candidate.place.split("/") if p]
    return " ".join([candidate.name, *parts[-2:]])[:200]


def adopt_candidates(
    *, listing: Listing, said: StreamDetails, by: Actor
) -> tuple[list[StreamCandidate], list[ScanProblem]]:
    """Adopt those that nothing speaks against, each by the door of one stream and with its own audit entry.

    (all of them, with the pipelines that were made; what was refused.) A refused one leaves its place to one beyond the
    limit: else the same ones would be refused at each call, and the rest never be reached.
    """
    left_places = 0
    done: list[StreamCandidate] = []
    refused: list[ScanProblem] = []
    for candidate in listing.candidates:
        if candidate.skip is SkipReason.OVER_LIMIT and left_places:
            left_places -= 1
            candidate = replace(candidate, skip=SkipReason.NONE)
        if candidate.skip is not SkipReason.NONE:
            done.append(candidate)
            continue
        mine = replace(said, name=candidate.name, event_log=candidate.event_log or said.event_log)
        try:
            stream = adopt_stream(checkpoint=candidate.place, said=mine, by=by, is_one_of_many=True)
        except RepriseError as error:
            problem = ScanProblem(candidate.place, error.code, error.sentence)
            refused.append(problem)
            left_places += 1
            done.append(replace(candidate, problem=problem))
        else:
            done.append(replace(candidate, pipeline=stream.pipeline.pipeline_id))
    return done, refused


def workspaces_of(found: Collection[StreamCandidate]) -> list[int]:
    """Workspaces of the streams that were adopted, to be polled once."""
    rows = Workspace.objects.filter(pipelines__pipeline_id__in=[c.pipeline for c in found if c.pipeline])
    return list(rows.order_by("pk").values_list("pk", flat=True).distinct())
