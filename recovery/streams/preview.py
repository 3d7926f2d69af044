"""What a checkpoint tells before it is adopted, and which of its questions are answered already. Changes nothing."""

import time
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from recovery import reach
from recovery.checkpoints.report import CheckpointReport
from recovery.errors import RepriseError
from recovery.eventlogs.seen import Seen
from recovery.models import Stream
from recovery.people.roles import Actor, Right
from recovery.streams import tailing
from recovery.streams.actions import (
    Said,
    called_after,
    check_places,
    read_plain,
    spelled_place,
    workspace_of,
)
from recovery.streams.sinks import Sink, sink_by_log, sink_of
from recovery.streams.standing import Standing, standing_of

LOOK_SECONDS = 3.0


@dataclass(frozen=True)
class LogFacts:
    """What event logs have of the query: `folder`, how many applications, the newest run. `problem`: why a folder that
    was named could not be read."""

    folder: str = ""
    applications: int = 0
    newest: Seen | None = None
    problem: RepriseError | None = None


@dataclass(frozen=True)
class Preview:
    """`known`: the stream that has this checkpoint already. `sink`: as somebody named it, or as the logs show
    (`sink_is_read`). `name`: what it would be called."""

    place: str
    report: CheckpointReport
    standing: Standing
    read_at: datetime
    seconds: float
    known: Stream | None
    logs: LogFacts
    sink: Sink
    sink_is_read: bool
    name: str
    environment: str


def preview_stream(*, checkpoint: str, said: Said, by: Actor) -> Preview:
    """Raises Denied, NotFound (`no_checkpoint`), Refused (`not_plain`, and as the storage's guard), WrongUse,
    Unreachable."""
    by.check(Right.RECOVER)
    place, began = spelled_place(checkpoint, "The checkpoint"), time.monotonic()
    workspace = workspace_of(said, by, is_look=True)
    named = [p for p in (said.event_log, said.sink) if p and "/" in p]
    check_places((place, *named), by)
    known = Stream.objects.filter(
        checkpoint=place, pipeline__workspace_id=workspace.pk, pipeline__gone=False
    ).first()
    with reach.reading(workspace):
        report = read_plain(place)
        standing = standing_of(place)
        folders = (
            [said.event_log] if said.event_log else [known.event_log] if known and known.event_log else []
        )
        logs = _logs_of(report.query_id or "", folders or list(workspace.event_logs), is_named=bool(folders))
        told = said.sink or (known.sink if known else "")
        sink, is_read = (sink_of(told), False) if told else (_sink_by(logs), True)
    name = (
        known.pipeline.name if known else (logs.newest.run.name if logs.newest else "") or called_after(place)
    )
    environment = known.pipeline.environment if known else workspace.environment
    seconds = round(time.monotonic() - began, 1)
    return Preview(
        place,
        report,
        standing,
        timezone.now(),
        seconds,
        known,
        logs,
        sink,
        is_read,
        said.name or name,
        environment,
    )


def _logs_of(query_id: str, folders: list[str], *, is_named: bool) -> LogFacts:
    """In the first folder that tells of the query; one that a person named is read now, as far as that goes."""
    for folder in folders:
        if is_named:
            try:
                tailing.catch_up(folder, seconds=LOOK_SECONDS)
            except RepriseError as problem:
                return LogFacts(folder, problem=problem)
        seen = tailing.runs_of(folder, [query_id])
        if seen:
            return LogFacts(folder, len({s.log for s in seen}), seen[-1])
    return LogFacts(folders[0]) if folders and is_named else LogFacts()


def _sink_by(logs: LogFacts) -> Sink:
    try:
        return sink_by_log(logs.newest.run.batches[-1:] if logs.newest else ())
    except RepriseError:
        return Sink("", "")
