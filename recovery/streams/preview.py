"""What a checkpoint shows before it is adopted, and which of its questions are answered already. Changes nothing."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.utils import timezone

from recovery import reach
from recovery.checkpoints.report import CheckpointReport
from recovery.errors import Denied, RepriseError
from recovery.eventlogs.seen import SeenRun
from recovery.models import Stream, Workspace
from recovery.people.roles import Actor, Right
from recovery.streams import tailing
from recovery.streams.actions import (
    RUNNERS,
    StreamDetails,
    check_places,
    check_recover,
    check_workspace,
    choose_name,
    find_adopted,
    read_plain,
    spelled_place,
    workspace_for,
)
from recovery.streams.sinks import Sink, check_named_sink, sink_by_log, sink_of
from recovery.streams.standing import StreamProgress, read_progress

LOOK_SECONDS = 3.0


class StreamNeed(StrEnum):
    """What helps with a stream beside its checkpoint, in the order of use."""

    SINK = "sink"
    EVENT_LOG = "event-log"
    PROGRAM = "program"
    RUNNER = "runner"
    OWNER = "owner"


class NeedAnswer(StrEnum):
    """How far a need is answered. FOUND: read, without anybody's word; UNREADABLE: named, and it cannot be read."""

    FOUND = "found"
    SAID = "said"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class LogFacts:
    """What event logs have of the query: `folder`, and its runs, the oldest first. `problem`: why a folder that was
    named could not be read."""

    folder: str = ""
    seen: tuple[SeenRun, ...] = ()
    problem: RepriseError | None = None

    @property
    def application_count(self) -> int:
        return len({run.log for run in self.seen})

    @property
    def newest_run(self) -> SeenRun | None:
        return self.seen[-1] if self.seen else None


@dataclass(frozen=True)
class SinkFacts:
    """`sink`: as somebody named it, or as the logs show (`is_read`). `problem`: why the one that was named cannot be
    read."""

    sink: Sink
    is_read: bool = False
    problem: RepriseError | None = None


@dataclass(frozen=True)
class Preview:
    """`known`: the stream that has this checkpoint already. `name`: what it would be called. `program`, `runner`,
    `owner`: as somebody says now, or said before."""

    place: str
    report: CheckpointReport
    standing: StreamProgress
    read_at: datetime
    seconds: float
    known: Stream | None
    workspace: str
    logs: LogFacts
    sink: SinkFacts
    name: str
    environment: str
    program: str = ""
    runner: str = RUNNERS[0]
    owner: str = ""


def preview_stream(*, checkpoint: str, said: StreamDetails, by: Actor) -> Preview:
    """Raises Denied, NotFound (`no_checkpoint`), Refused (`not_plain`, `adopted_elsewhere`, and as the storage's
    guard), WrongUse, Unreachable. What is said and cannot be read is named in its place, and ends nothing."""
    by.check(Right.RECOVER)
    place, began = spelled_place(checkpoint, "The checkpoint"), time.monotonic()
    known = find_adopted(place)
    if known is not None:
        check_recover(by, known.pipeline.environment, known.checkpoint)
        place = known.checkpoint
    workspace = workspace_for(said, known, by, is_look=True)
    if known is not None:
        check_workspace(known, workspace)
    check_places((place,), by)
    with reach.reading_in_sight(workspace, by):
        report = read_plain(place)
        standing = read_progress(place)
        logs = _logs_of(report.query_id or "", said, known, workspace, by)
        sink = _sink_of(place, said, known, logs, report, by)
    query_name = logs.newest_run.run.name if logs.newest_run else ""
    name = known.pipeline.name if known else choose_name(query_name, place)
    return Preview(
        place=place,
        report=report,
        standing=standing,
        read_at=timezone.now(),
        seconds=round(time.monotonic() - began, 1),
        known=known,
        workspace=workspace.name,
        logs=logs,
        sink=sink,
        name=said.name or name,
        environment=said.environment or (known.pipeline.environment if known else workspace.environment),
        program=_newest_word(said.program, known.program if known else ""),
        runner=said.runner or (known.runner if known else RUNNERS[0]),
        owner=_newest_word(said.owner, known.owner if known else ""),
    )


def _newest_word(said: str | None, kept: str) -> str:
    return kept if said is None else said


def _logs_of(
    query_id: str, said: StreamDetails, known: Stream | None, workspace: Workspace, by: Actor
) -> LogFacts:
    """In the first folder that tells of the query; one that a person named is read now, as far as that goes."""
    if named := _newest_word(said.event_log, known.event_log if known else ""):
        try:
            if said.event_log:
                named = spelled_place(named, "The event log")
                check_places((named,), by)
            tailing.catch_up(named, seconds=LOOK_SECONDS)
        except Denied:
            raise
        except RepriseError as problem:
            return LogFacts(named, problem=problem)
    for folder in [named] if named else list(workspace.event_logs):
        seen = tailing.runs_of(folder, [query_id])
        if seen:
            return LogFacts(folder, tuple(seen))
    return LogFacts(named)


def _sink_of(
    place: str,
    said: StreamDetails,
    known: Stream | None,
    logs: LogFacts,
    report: CheckpointReport,
    by: Actor,
) -> SinkFacts:
    named = _newest_word(said.sink, known.sink if known else "")
    if not named:
        return SinkFacts(_read_sink(place, logs), is_read=True)
    try:
        if said.sink and "/" in named:
            named = spelled_place(named, "The sink")
            check_places((named,), by)
        sink = sink_of(named)
        if said.sink:
            check_named_sink(sink, report)
        return SinkFacts(sink)
    except Denied:
        raise
    except RepriseError as problem:
        return SinkFacts(Sink(named, ""), problem=problem)


def _read_sink(place: str, logs: LogFacts) -> Sink:
    try:
        return sink_by_log(place, logs.seen)
    except RepriseError:
        return Sink("", "")


def list_answers(found: Preview) -> Mapping[StreamNeed, NeedAnswer]:
    """How far each need is answered, in the order of use."""

    def said(word: object) -> NeedAnswer:
        return NeedAnswer.SAID if word else NeedAnswer.MISSING

    return {
        StreamNeed.SINK: _sink_answer(found.sink),
        StreamNeed.EVENT_LOG: _log_answer(found.logs),
        StreamNeed.PROGRAM: said(found.program),
        StreamNeed.RUNNER: said(found.runner == "command"),
        StreamNeed.OWNER: said(found.owner),
    }


def _sink_answer(facts: SinkFacts) -> NeedAnswer:
    if facts.problem is not None:
        return NeedAnswer.UNREADABLE
    if not (facts.sink.place or facts.sink.dataset):
        return NeedAnswer.MISSING
    return NeedAnswer.FOUND if facts.is_read else NeedAnswer.SAID


def _log_answer(logs: LogFacts) -> NeedAnswer:
    if logs.problem is not None:
        return NeedAnswer.UNREADABLE
    if logs.newest_run is not None:
        return NeedAnswer.FOUND
    return NeedAnswer.SAID if logs.folder else NeedAnswer.MISSING
