"""Adopted streams, asked for in the words of the Pipelines API: so whatever knows pipelines knows plain streams too.

What is answered is read from event logs, checkpoints, program files and the rows that people's starts left; what starts
and stops is the commands that an admin wrote down, or a person. A poll takes what the logs say; a recovery, which must
know, asks the running command as well (`is_exact`).
"""

import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from recovery import reach, trace
from recovery.checkpoints.outcome import half_swapped
from recovery.errors import NotFound, Refused, RepriseError
from recovery.eventlogs.seen import EarlyEnd, SeenRun
from recovery.eventlogs.values import Run, RunState, is_row_setting
from recovery.models import Pipeline, Plan, Stream, StreamStart, Workspace
from recovery.pipelines.client import PROGRAMS, PipelinesClient
from recovery.pipelines.errors import ActiveUpdate
from recovery.pipelines.events import CHECKPOINT_IS_GONE
from recovery.pipelines.folding import SILENT
from recovery.pipelines.standstill import StandstillProof
from recovery.streams import commands, files, noting, running, tailing
from recovery.streams.new_tables import list_table_beginnings
from recovery.streams.places import CheckpointOwners
from recovery.streams.settling import RequestedStart, StartOutcome, judge_start
from recovery.streams.standing import StreamProgress, read_progress
from recovery.streams.started_runs import cut_run, is_of_start, list_updates_of_other_runs, match_runs
from recovery.streams.updates import (
    StreamStatus,
    StreamUpdate,
    alive_by_log,
    build_early_failure,
    events_of,
    find_standstill_doubt,
    is_growing,
    is_writing,
    newest_first,
)

LOOK_SECONDS: Final = 4.0
PROOF_SECONDS: Final = 20.0
"""So long the logs are read before a standstill is proven: what they do not tell in time proves nothing."""
LOST: Final = timedelta(minutes=1)
"""A start command that nothing has begun to run for so long is not run any more."""
CANNOT_RUN: Final = 126
"""Exit code of a command that could not be run."""
MOST_IDS: Final = 20
STARTS: Final = 20
ACTIVE: Final = ("RUNNING", "WAITING_FOR_RESOURCES")
RUNNING_NOW: Final = "running-now"
"""Id of the update of a stream that runs, and of which no log tells."""
STOPPED_NOW: Final = "stopped-now"
"""Likewise of one that does not run, by its running command."""
START_NOW: Final = "Start the stream now"
"""So begins the line of a step's log that asks a person."""
_OF_UPDATE: Final = re.compile(r"update_id = '([^']{1,200})'")


@dataclass(frozen=True)
class StreamSnapshot:
    """A stream as it was read: its row, where its checkpoint is, its updates, and the runs that its logs have.
    `is_read`: all that its logs hold by now. `is_contradicted`: its running command reports no run, and its event log,
    which has no end, still grows; it counts as running then."""

    stream: Stream
    standing: StreamProgress
    status: StreamStatus
    seen: tuple[SeenRun, ...] = ()
    is_read: bool = True
    is_contradicted: bool = False

    @property
    def pipeline(self) -> Pipeline:
        return self.stream.pipeline


class StreamsClient(PipelinesClient):
    """The streams of one workspace. Raises as `PipelinesClient`; a stream that is not there is NotFound."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._polled: dict[str, StreamSnapshot] | None = None
        self._files: dict[int, tuple[str, ...]] = {}
        self._owners = CheckpointOwners()

    def __repr__(self) -> str:
        return f"StreamsClient({self._workspace.name})"

    def close(self) -> None:
        """Nothing is snapshot open."""

    # What is read

    def list_pipelines(self, filter: str | None = None) -> list[dict[str, Any]]:
        """Every adopted stream. What their logs and checkpoints say is read here, for the questions that follow."""
        streams = list(self._streams())
        folders = {s.event_log for s in streams if s.event_log} | set(self._workspace.event_logs)
        with self._reading():
            for folder in sorted(folders):
                self._quietly_catch_up(folder)
            index = tailing.LogIndex(folders)
            self._polled = {
                s.pipeline.pipeline_id: self._take_snapshot(s, is_exact=False, index=index) for s in streams
            }
        noting.note_signs(streams, {snapshot.stream.pk: snapshot.seen for snapshot in self._polled.values()})
        return [self._answer(snapshot) for snapshot in self._polled.values()]

    def get_pipeline(self, pipeline_id: str) -> dict[str, Any]:
        return self._answer(self._find_snapshot(pipeline_id))

    def list_updates(self, pipeline_id: str, limit: int = 25) -> list[dict[str, Any]]:
        return [told.as_update() for told in self._find_snapshot(pipeline_id).status.updates[:limit]]

    def get_update(self, pipeline_id: str, update_id: str) -> dict[str, Any]:
        return self._find_update(pipeline_id, update_id).as_update()

    def events(
        self,
        pipeline_id: str,
        *,
        filter: str | None = None,
        order_by: str | None = None,
        limit: int | None = 250,
    ) -> Iterator[dict[str, Any]]:
        snapshot, wanted = self._find_snapshot(pipeline_id), _OF_UPDATE.search(filter or "")
        told = [t for t in snapshot.status.updates if wanted is None or t.update_id == wanted[1]]
        flow = snapshot.pipeline.flows.first() if self._polled is None else None
        dataset = flow.dataset if flow else str(snapshot.pipeline.spec.get("x-reprise-dataset") or "")
        name, key = snapshot.pipeline.name, snapshot.pipeline.pipeline_id
        with self._reading():
            stream, history = snapshot.stream, snapshot.status.updates
            began = list_table_beginnings(told, history=history, since=stream.adopted_at, table=stream.sink)
        found = [
            event
            for one in reversed(told)
            for event in events_of(
                one, pipeline_id=key, flow=name, dataset=dataset, began_table=one.update_id in began
            )
        ]
        return iter((found if order_by == "timestamp asc" else found[::-1])[:limit])

    def update_row_settings(self, pipeline_id: str, update_id: str) -> Mapping[str, str] | None:
        """By its event log; None before a batch of it was seen there."""
        snapshot = self._find_snapshot(pipeline_id)
        run = next((told.run for told in snapshot.status.updates if told.update_id == update_id), None)
        seen = next((one for one in snapshot.seen if run is not None and one.run.run_id == run.run_id), None)
        if seen is None or seen.run.changed_row_settings is None:
            return None
        return seen.app.row_settings_of(seen.run)

    def update_source(self, pipeline_id: str, update_id: str) -> dict[str, bytes] | None:
        """The program as it was when a recovery started it; of other runs no one kept it."""
        start = StreamStart.objects.filter(
            stream__pipeline__pipeline_id=pipeline_id, update_id=update_id
        ).first()
        if start is None or not start.source:
            return None
        return {path: text.encode() for path, text in start.source.items()}

    def list_jobs(self) -> list[dict[str, Any]]:
        raise Refused(
            "What starts a plain stream (a scheduler, a restart policy, a watchdog) is not looked for, and not paused: "
            "keep it from starting until the recovery has ended.",
            code="starters_not_seen",
        )

    # The program's files

    def get_status(self, path: str) -> dict[str, Any]:
        self.export(path)
        return {"path": path, "object_type": "FILE"}

    def list_dir(self, path: str) -> list[dict[str, Any]]:
        """The files of the programs with this root: no others are anybody's business."""
        root, programs = path.rstrip("/"), defaultdict[str, list[str]](list)
        for stream in self._streams().exclude(program=""):
            if stream.pipeline.spec.get("root_path") == root:
                for name in self._files_of(stream):
                    programs[name].append(stream.program)
        return [{"path": name, "object_type": "FILE", PROGRAMS: of} for name, of in programs.items()]

    def export(self, path: str) -> bytes:
        self._check_program(path)
        with self._reading():
            return files.read_file(path)

    def import_file(self, path: str, content: bytes, overwrite: bool = True) -> None:
        """Raises Refused for what is no file of an adopted program: nothing else is written."""
        self._check_program(path)
        with self._reading():
            files.write_file(path, content)

    def _files_of(self, stream: Stream) -> tuple[str, ...]:
        """Paths of a program's files, asked once by each client."""
        if stream.pk not in self._files:
            with self._reading():
                self._files[stream.pk] = tuple(files.program_files(stream.program, stream.arguments))
        return self._files[stream.pk]

    def _check_program(self, path: str) -> None:
        """Raises NotFound for what is neither a file of an adopted program nor a module beside one."""
        for stream in self._streams().exclude(program=""):
            if path == stream.program:
                return
            try:
                listed = self._files_of(stream)
            except RepriseError:
                listed = (stream.program,)  # its program is gone; what is asked for may be that of another
            folders = {folder for name in listed if (folder := name.rpartition("/")[0])}
            is_beside = any(path.startswith(f"{folder}/") for folder in folders) and path.endswith(".py")
            if path in listed or (is_beside and ".." not in path.split("/")):
                return
        raise NotFound(f"{path} is no file of an adopted program.")

    # What acts

    def start_update(self, pipeline_id: str, **body: Any) -> str:
        """Start the stream by its command, or wait for a person who does; one that still runs after a start of this
        plan is looked at instead. Raises ActiveUpdate for any other that runs."""
        snapshot = self._find_snapshot(pipeline_id)
        if not snapshot.standing.query_id:
            raise Refused(_say_no_checkpoint(snapshot.stream.checkpoint), code="no_checkpoint")
        active = next((t for t in snapshot.status.updates if t.state in ACTIVE), None)
        is_look = snapshot.status.alive is True and _goes_on_from_us(snapshot, timezone.now())
        if not is_look and active is not None:
            raise ActiveUpdate(
                f"{snapshot.pipeline.name} is already running, so nothing was started.",
                update_id=active.update_id,
            )
        by_command = snapshot.stream.has_start_command
        start = StreamStart(
            stream=snapshot.stream,
            update_id=f"start-{uuid.uuid4()}",
            request_id=trace.current()[:64],
            asked_at=timezone.now(),
            by_hand=not by_command,
            is_look=is_look,
            batch_before=snapshot.standing.committed,
            query_id=snapshot.standing.query_id,
            source=self._source(snapshot.stream),
        )
        if by_command and not is_look:
            start.folder = commands.prepare_start(snapshot.stream.start)
        start.save()  # before the command runs: a worker that ends then leaves what tells of it
        if start.folder:
            commands.launch_start(start.folder)
        return start.update_id

    def prove_standstill(self, pipeline_id: str) -> StandstillProof:
        """Raises Refused for a stream of which neither a log nor a command tells: one that waits for input leaves its
        checkpoint as quiet as one that has ended, and a checkpoint must not be changed below it."""
        snapshot = self._find_snapshot(pipeline_id, seconds=PROOF_SECONDS)
        name, alive = snapshot.pipeline.name, snapshot.status.alive
        if snapshot.is_contradicted:
            raise Refused(_say_log_grows(name), code="log_still_grows")
        if alive:
            raise Refused(f"{name} is running. Stop it first.", code="still_active")
        if alive is False and snapshot.stream.has_running_command:
            is_open = any(seen.run.state is RunState.RUNNING for seen in snapshot.seen[-1:])
            return StandstillProof.RUNNING_COMMAND_ALONE if is_open else StandstillProof.RUNNING_COMMAND
        is_silent = bool(snapshot.status.updates) and snapshot.status.updates[0].state == SILENT
        why = find_standstill_doubt(snapshot.seen, snapshot.standing.committed, is_read=snapshot.is_read)
        has_ended = bool(snapshot.seen) and snapshot.seen[-1].run.state is not RunState.RUNNING
        if not why and alive is False and has_ended:
            return StandstillProof.LOG_ENDED
        if not why and is_silent:
            return StandstillProof.NO_SIGN_OF_LIFE
        raise Refused(
            f"{f'{why} So it' if why else 'It'} is not known whether {name} runs. Adopt it again with --event-log, "
            "or, as an admin, with --running.",
            code="standstill_unknown",
        )

    def asks_of_people(self, pipeline_id: str, update_id: str) -> str:
        start = StreamStart.find_by_hand(update_id)
        if start is None:
            return ""
        return (
            f"{START_NOW} where you usually start it: nothing is started from here. This step goes on by itself once "
            "the event log shows how that run ended or that it waits for input, or once batch "
            f"{start.next_batch} is committed in {start.stream.checkpoint}."
        )

    def asks_to_stop(self, pipeline_id: str) -> str:
        snapshot = self._find_snapshot(pipeline_id)
        if snapshot.is_contradicted:
            return _say_log_grows(snapshot.pipeline.name)
        if snapshot.stream.has_stop_command:
            return ""
        return (
            "Stop the stream now where you usually stop it, and keep it stopped: nothing is stopped from here. This "
            "step waits about two minutes; then stop again."
        )

    def stop(self, pipeline_id: str) -> None:
        """Run the stop command where the stream may run; by hand a person does it, and what is seen then tells."""
        snapshot = self._find_snapshot(pipeline_id)
        if snapshot.stream.has_stop_command and snapshot.status.alive is not False:
            try:
                commands.stop(snapshot.stream.stop)
            except commands.CommandFailed:
                if not snapshot.is_contradicted:  # else the driver may be dead: that leaves nothing to stop
                    raise

    def edit_pipeline(self, pipeline_id: str, spec: Mapping[str, Any]) -> None:
        raise Refused("A plain stream has no settings that could be changed here.", code="no_settings")

    def create_pipeline(self, spec: Mapping[str, Any]) -> str:
        raise Refused("A plain stream is adopted, not made: bin/manage adopt CHECKPOINT.", code="no_settings")

    # Helpers

    def _reading(self) -> AbstractContextManager[None]:
        return reach.reading(self._workspace)

    def _streams(self) -> Any:
        rows = Stream.objects.filter(pipeline__workspace=self._workspace)
        return rows.select_related("pipeline").order_by("pk")

    def _find_snapshot(self, pipeline_id: str, *, seconds: float = LOOK_SECONDS) -> StreamSnapshot:
        if self._polled is not None:
            if pipeline_id not in self._polled:
                raise NotFound(f"There is no stream {pipeline_id[:80]!r}.")
            return self._polled[pipeline_id]
        stream = self._streams().filter(pipeline__pipeline_id=pipeline_id).first()
        if stream is None:
            raise NotFound(f"There is no stream {pipeline_id[:80]!r}.")
        with self._reading():
            is_read = not stream.event_log or self._quietly_catch_up(stream.event_log, seconds)
            return replace(self._take_snapshot(stream, is_exact=True), is_read=is_read)

    def _quietly_catch_up(self, folder: str, seconds: float = LOOK_SECONDS) -> bool:
        """Whether all was read. A folder of logs that cannot be read leaves what is known as it is, which grows old."""
        try:
            return tailing.catch_up(folder, seconds=seconds)
        except RepriseError:
            return False

    def _find_update(self, pipeline_id: str, update_id: str) -> StreamUpdate:
        found = next(
            (t for t in self._find_snapshot(pipeline_id).status.updates if t.update_id == update_id), None
        )
        if found is None:
            raise NotFound(f"There is no update {update_id[:80]!r}.")
        return found

    def _take_snapshot(
        self, stream: Stream, *, is_exact: bool, index: tailing.LogIndex | None = None
    ) -> StreamSnapshot:
        try:
            standing = read_progress(stream.checkpoint)
        except RepriseError:
            if is_exact:
                raise
            standing = StreamProgress()
        self._note_query(stream, standing.query_id)
        asked = tailing if index is None else index
        seen = self._owners.list_runs(stream, index)
        early_ends = asked.early_ends_of(stream.event_log, stream.query_ids, seen) if seen else []
        runs, is_contradicted = None, False
        if is_exact and stream.has_running_command and running.may_run():
            runs = commands.is_running(stream.running)
            is_contradicted = not runs and is_growing(seen, timezone.now())
        status = self._judge_status(stream, standing, seen, early_ends, True if is_contradicted else runs)
        return StreamSnapshot(stream, standing, status, tuple(seen), is_contradicted=is_contradicted)

    def _note_query(self, stream: Stream, query_id: str) -> None:
        if query_id and query_id not in stream.query_ids:
            stream.query_ids = [*stream.query_ids, query_id][-MOST_IDS:]
            Stream.objects.filter(pk=stream.pk).update(query_ids=stream.query_ids)

    def _judge_status(
        self,
        stream: Stream,
        standing: StreamProgress,
        seen: list[SeenRun],
        early_ends: Sequence[EarlyEnd],
        by_command: bool | None,
    ) -> StreamStatus:
        """`by_command`: does the stream run, by its running command, which was asked now? None: by the logs, and by
        what the command answered last."""
        now = timezone.now()
        noted = noting.noted_answer(stream, seen, now) if by_command is None else None
        by_command = noted.alive if noted is not None else by_command
        alive = alive_by_log(seen, now) if by_command is None else by_command
        starts = list(stream.starts.order_by("-asked_at")[:STARTS])
        claimed = match_runs(starts, seen)
        told = [
            # what the command answered before a start tells nothing of it
            self._update_of_start(
                s,
                cut_run(claimed.get(s.pk), s, starts),
                standing,
                None if _is_older(noted, s) else alive,
                now,
            )
            for s in starts
        ]
        told += list_updates_of_other_runs(starts, claimed, seen, by_command, now)
        told += [
            build_early_failure(end)
            for end in early_ends
            if not any(is_of_start(end, start) for start in starts)
        ]
        if alive and not any(t.state in ACTIVE for t in told):
            since = starts[0].ended_at if starts and starts[0].ended_at else stream.running_since or now
            told.append(StreamUpdate(RUNNING_NOW, "RUNNING", int(since.timestamp() * 1000)))
        if alive is False and noted is not None and not told:
            since = stream.running_since or now
            told.append(StreamUpdate(STOPPED_NOW, "CANCELED", int(since.timestamp() * 1000)))
        return StreamStatus(newest_first(told), alive)

    def _update_of_start(
        self,
        start: StreamStart,
        run: Run | None,
        standing: StreamProgress,
        alive: bool | None,
        now: datetime,
    ) -> StreamUpdate:
        asked_ms = int(start.asked_at.timestamp() * 1000)
        if start.ended:
            outcome = StartOutcome(start.ended, start.failure, start.failure_class)
        else:
            outcome = judge_start(_begun(start), run, standing, alive, now)
            if outcome.state in ("COMPLETED", "FAILED"):
                self._note_end(start, outcome, standing, run, now)
        ended = int(start.ended_at.timestamp() * 1000) if start.ended_at else None
        return StreamUpdate(
            start.update_id, outcome.state, asked_ms, ended, run, outcome.failure, start.request_id, "API_CALL",
            outcome.failure_class,
        )  # fmt: skip

    def _note_end(
        self,
        start: StreamStart,
        outcome: StartOutcome,
        standing: StreamProgress,
        run: Run | None,
        now: datetime,
    ) -> None:
        """Unless someone else has noted it."""
        brought = [n for n in (standing.committed, run.last_batch if run else None) if n is not None]
        StreamStart.objects.filter(pk=start.pk, ended="").update(
            ended=outcome.state, failure=outcome.failure, failure_class=outcome.failure_class, ended_at=now,
            batch_after=max(brought, default=None), run_id=run.run_id if run else "",
        )  # fmt: skip
        start.refresh_from_db()

    def _source(self, stream: Stream) -> dict[str, str]:
        if not stream.program:
            return {}
        try:
            with self._reading():
                told = files.program_files(stream.program, stream.arguments)
                return {path: content.decode() for path, content in told.items()}
        except (RepriseError, UnicodeDecodeError):
            return {}

    def _answer(self, snapshot: StreamSnapshot) -> dict[str, Any]:
        updates = [told.as_update() for told in snapshot.status.updates[:5]]
        return {
            "pipeline_id": snapshot.pipeline.pipeline_id,
            "name": snapshot.pipeline.name,
            "state": "RUNNING" if snapshot.status.alive else "IDLE",
            "spec": _with_session_settings(snapshot.pipeline.spec, snapshot.seen, snapshot.stream.start),
            "latest_updates": updates,
            CHECKPOINT_IS_GONE: snapshot.standing.is_gone and bool(snapshot.stream.query_ids),
        }


def _with_session_settings(
    spec: Mapping[str, object], seen: Sequence[SeenRun], start: Sequence[str]
) -> dict[str, object]:
    """Settings of the stream with those of its session by which its rows may differ, which no file of the program may
    show: of its newest run, and of its start command what no log names."""
    given = commands.read_conf_settings(start)
    told = given
    if seen:
        # before its first batch a program may not have set them yet
        batch = next((one.run for one in reversed(seen) if one.run.changed_row_settings is not None), None)
        told = {name: value for name, value in given.items() if not is_row_setting(name)}
        told |= seen[-1].app.row_settings_of(batch)
    configuration = spec.get("configuration")
    snapshot = dict(configuration) if isinstance(configuration, Mapping) else {}
    own = {name: value for name, value in snapshot.items() if not name.startswith("spark.")}
    return {**spec, "configuration": own | told}


def _say_log_grows(name: str) -> str:
    return (
        f"The running command reports that {name} does not run, and its event log, which has no end, still grows. This "
        "step goes on once the log is quiet. If it never is, the stream runs: stop it, and have an admin correct "
        "--running."
    )


def _goes_on_from_us(snapshot: StreamSnapshot, now: datetime) -> bool:
    """Is what runs now what a start of the plan that is carried out left running? Only recoveries start here, one at a
    time, so a start since the seal is this plan's. An older one proves nothing of what runs since."""
    last = snapshot.stream.starts.filter(is_look=False).order_by("-asked_at").first()
    if last is None or last.ended != "COMPLETED":
        return False
    plans = Plan.objects.filter(recovery__flow__pipeline=snapshot.pipeline, recovery__active=True)
    plan = plans.order_by("pk").last()
    if plan is None or last.asked_at < plan.sealed_at:
        return False
    going = [s for s in snapshot.seen if s.run.state is RunState.RUNNING]
    if any(s.run.run_id != last.run_id and is_writing(s, now) for s in going):
        return False
    return not last.run_id or any(s.run.run_id == last.run_id for s in going)


def _say_no_checkpoint(checkpoint: str) -> str:
    """A stream that is started now would begin from nothing, and say nothing of it."""
    half = half_swapped(checkpoint)
    if half:
        return (
            f"{checkpoint} is not there: {half} stopped between its two renames, and the old checkpoint is whole in "
            f".reprise-{half}-before next to it. Resume or roll back {half}; start nothing before."
        )
    return (
        f"There is no checkpoint at {checkpoint}, so a start would begin from nothing: nothing was started."
    )


def _begun(start: StreamStart) -> RequestedStart:
    told = commands.read_start(start.folder) if start.folder else commands.StartCommandRun(None, None, "")
    code, output = told.exit_code, told.output
    if told.is_waiting and timezone.now() - start.asked_at > LOST:
        code, output = CANNOT_RUN, "The worker ended before it could run the start command."
    return RequestedStart(
        start.asked_at, start.batch_before, start.is_look, start.by_hand, code, told.took, output
    )


def _is_older(noted: running.RunningAnswer | None, start: StreamStart) -> bool:
    return noted is not None and noted.at is not None and noted.at <= start.asked_at
