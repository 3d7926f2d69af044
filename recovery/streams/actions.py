"""The only door through which plain streams join the inventory, and through which what is said of them changes.

Right: RECOVER in the stream's environment. MANAGE for the commands that start and stop it, which a worker runs, and for
an environment that asks for less than the workspace's.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

from django.db.models import QuerySet
from django.utils import timezone

from recovery import reach
from recovery.approvals.rules import asks_less
from recovery.approvals.selectors import rule_for
from recovery.audit.actions import audited_attempt, lock_chain
from recovery.checkpoints import access, inspect_checkpoint
from recovery.checkpoints.outcome import half_swapped
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.uris import spell_place, strip_file_scheme
from recovery.contracts import codec
from recovery.contracts.updates import LostRows, SinkMemory, TableLoss
from recovery.encryption import decrypted, encrypted
from recovery.errors import NotFound, Refused, RepriseError, WrongUse
from recovery.eventlogs.folders import list_logs
from recovery.models import Flow, Pipeline, Stream, Workspace
from recovery.models.stream import COMMAND
from recovery.names import is_plain, shown
from recovery.people.roles import ENVIRONMENTS, Actor, LacksRight, Right
from recovery.pipelines.inventory import refresh
from recovery.pipelines.workspaces import QUESTIONS, TOKEN
from recovery.spark import programs_words as words
from recovery.streams import commands, files, imports, tailing
from recovery.streams.columns import StreamColumns
from recovery.streams.folders import real_place
from recovery.streams.sinks import Sink, check_named_sink, sink_by_log, sink_of

RUNNERS: Final = ("by-hand", COMMAND)
BUILT_IN: Final = "streams"
"""The workspace that is made with the first stream, where nobody has added one of its kind."""
LONGEST: Final = 1000
LOOK_SECONDS: Final = 5.0
"""So long its event logs are read at once, for the sink's name; a poll reads the rest."""
MOST_ARGUMENTS: Final = 200
StreamSpec = TypedDict(
    "StreamSpec",
    {
        "name": str,
        "tags": Mapping[str, str],
        "catalog": str,
        "schema": str,
        "libraries": Sequence[Mapping[str, Mapping[str, str]]],
        "root_path": str,
        "clusters": Sequence[Mapping[str, Mapping[str, str]]],
        "configuration": Mapping[str, str],
        "x-reprise-dataset": str,
    },
)
"""A stream as the settings of a pipeline, by the names of the Pipelines API."""


@dataclass(frozen=True)
class StreamDetails:
    """What somebody says of a stream; None: nothing, and what was said before stays.

    `start`, `stop`, `running`: commands, as a shell would take them. `workspace`: which one of plain streams. `owner`:
    whom to tell and to ask.
    """

    name: str | None = None
    sink: str | None = None
    event_log: str | None = None
    program: str | None = None
    arguments: tuple[str, ...] | None = None
    spark_python: str | None = None
    runner: str | None = None
    start: str | None = None
    stop: str | None = None
    running: str | None = None
    environment: str | None = None
    workspace: str | None = None
    owner: str | None = None

    @property
    def has_commands(self) -> bool:
        return any(one is not None for one in (self.start, self.stop, self.running))


def adopt_stream(*, checkpoint: str, said: StreamDetails, by: Actor, is_one_of_many: bool = False) -> Stream:
    """Put a plain stream on the list, by its checkpoint; one that is there takes what is said of it now.

    `is_one_of_many`: whoever asks has read the event logs, and polls the workspace once for all of them. The checkpoint
    is read first: raises NotFound (`no_checkpoint`, `no_sink`), Refused (`not_plain`, `commands_missing`, and as the
    storage's guard), Denied, WrongUse, Unreachable. What is written is a row and its audit entry, in one transaction.
    """
    place = spelled_place(checkpoint, "The checkpoint")
    with audited_attempt(
        action="stream.adopt", by=by, target_kind="stream", target=place, environment=said.environment or ""
    ) as trying:
        by.check(Right.RECOVER, said.environment)
        known = find_adopted(place)
        workspace = workspace_for(said, known, by)
        if known is not None:
            _check_known(known, workspace, by)
            place = known.checkpoint
        environment = _environment(said, workspace, known, by)
        by.check(Right.RECOVER, environment)
        columns = _choose_columns(said, StreamColumns.of_stream(known) if known else StreamColumns(), by)
        if columns.program:
            _check_program(columns.program, by)
        check_places((place, columns.sink, columns.event_log, columns.program), by)
        with reach.reading_in_sight(workspace, by):
            report = read_plain(place)
            _require_readable(columns)
            sink = _find_sink(place, columns, report, is_read=is_one_of_many)
            if said.sink:
                check_named_sink(sink, report)
            before = _described(known) if known else None
            columns = replace(columns, sink=sink.place or columns.sink)
            if known is not None:
                _check_same_sink(known, columns.sink)
            query_ids = _query_of(place, columns.event_log, report)
            spec = _build_spec(_name(said, known, place), environment, place, columns, sink)
            if known is not None:
                stream = _change_stream(known, columns, spec, query_ids)
            else:
                memory = _recall_losses(place, sink)
                stream = _create_stream(workspace, place, columns, spec, query_ids, memory)
        trying.environment = environment
        verb = "changed" if known else "adopted"
        trying.done(f"Stream {stream.pipeline.name} {verb}.", before=before, after=_described(stream))
    if not is_one_of_many:
        refresh(workspace_id=workspace.pk, only=stream.pipeline.pipeline_id)
    stream.refresh_from_db()
    return stream


def find_adopted(checkpoint: str) -> Stream | None:
    """The stream of any workspace that has this checkpoint, however its place is spelled; links are followed."""
    wanted = real_place(checkpoint)
    streams = Stream.objects.select_related("pipeline__workspace").filter(
        pipeline__workspace__removed_at=None
    )
    return next((stream for stream in streams if real_place(stream.checkpoint) == wanted), None)


def _check_known(stream: Stream, workspace: Workspace, by: Actor) -> None:
    """Who changes a stream may recover it where it is now. Raises Denied, Refused."""
    by.check(Right.RECOVER, stream.pipeline.environment)
    check_workspace(stream, workspace)
    if stream.pipeline.flows.filter(recoveries__state__in=("running", "verifying")).exists():
        raise Refused(
            "A recovery of this stream is running. Wait for its end, then change the stream.",
            code="recovery_runs",
        )


def _check_same_sink(known: Stream, sink: str) -> None:
    """A plan that has run is proven over the table that it was sealed for. Raises Refused."""
    is_open = known.pipeline.flows.filter(recoveries__state="needs_attention").exists()
    if is_open and spell_place(sink) != spell_place(known.sink):
        raise Refused(
            "A recovery of this stream needs attention, and its proof covers the current sink. End or roll back the "
            "recovery, then change the sink.",
            code="recovery_open",
        )


def check_recover(by: Actor, environment: str | None, target: str) -> None:
    """A denied look at plain streams is written down as a denied adoption is. Raises Denied."""
    if not by.may(Right.RECOVER, environment):
        with audited_attempt(
            action="stream.adopt", by=by, target_kind="stream", target=target, environment=environment or ""
        ):
            by.check(Right.RECOVER, environment)


def check_workspace(stream: Stream, workspace: Workspace) -> None:
    """A stream is changed in the workspace that has it. Raises Refused (`adopted_elsewhere`)."""
    if stream.pipeline.workspace_id != workspace.pk:
        raise Refused(
            f"Workspace {stream.pipeline.workspace.name} has a stream with this checkpoint. Change it there.",
            code="adopted_elsewhere",
            flags=("--workspace",),
        )


def _check_program(program: str, by: Actor) -> None:
    """It is a Python file, and of no stream that this person may not recover. Raises Refused, Denied."""
    real = real_place(program)
    if not (program.endswith(".py") and real.endswith(".py")):
        raise Refused(
            f"{program} is no Python file. Only Python programs are read; leave --program out for others.",
            code="no_python_file",
        )
    if any(access.is_below(real, str(folder)) for folder in reach.folders_of_pipelines()):
        raise Refused(
            f"{program} belongs to pipelines of this instance's server: recover those.",
            code="pipelines_code",
        )
    programs = Stream.objects.exclude(program="").values_list("program", "pipeline__environment")
    for other, environment in programs:
        if real_place(other) == real:
            by.check(Right.RECOVER, environment)


def check_places(places: Iterable[str], by: Actor) -> None:
    """Raises Refused for a place that this person may not have read, WrongUse."""
    for place in places:
        if "/" in place:
            with reach.reading_typed(place, by):
                access.read_place(place)


def spelled_place(text: str, what: str) -> str:
    """A path or URL, spelled in full. Raises WrongUse, Refused."""
    place = text.strip().rstrip("/")
    if not place or len(place) > LONGEST or "`" in place or not is_plain(place):
        raise WrongUse(f"{what} is a path or a URL of at most {LONGEST} characters.", code="storage_address")
    place = strip_file_scheme(place)
    if not access.scheme_of(place) and not place.startswith("/"):
        raise WrongUse(
            f"{what} is spelled in full, from / on, or as scheme://bucket/folder.", code="storage_address"
        )
    access.read_place(place)
    return place


def streams_workspaces() -> QuerySet[Workspace]:
    """Those that plain streams can be adopted into, the oldest first."""
    return Workspace.objects.active().filter(kind="streams").order_by("pk")


def workspace_for(
    said: StreamDetails, known: Stream | None, by: Actor, *, is_look: bool = False
) -> Workspace:
    """That of a stream that is on the list, where no other is named; else as `workspace_of`."""
    if known is not None and not said.workspace and known.pipeline.workspace.active:
        return known.pipeline.workspace
    return workspace_of(said, by, is_look=is_look)


def workspace_of(said: StreamDetails, by: Actor, *, is_look: bool = False) -> Workspace:
    """The one that was named, the only one of plain streams, or the one that is made with the first of them; a look
    makes none. Raises NotFound, WrongUse (`workspace_missing`), Refused."""
    rows = streams_workspaces()
    if said.workspace:
        row = rows.filter(name=said.workspace).first()
        if row is None:
            raise NotFound(f"There is no workspace of plain streams named {said.workspace[:80]!r}.")
        return row
    found = list(rows[:2])
    if len(found) > 1:
        raise WrongUse(
            "There are several workspaces of plain streams: name the one that the stream belongs to.",
            code="workspace_missing",
            flags=("--workspace",),
        )
    return found[0] if found else _built_in(is_look=is_look)


def _built_in(*, is_look: bool) -> Workspace:
    """With the questions service of a workspace of the same environment, else of any: a server that runs one
    environment alone answers nothing about streams of another."""
    if Workspace.objects.filter(name=BUILT_IN).exists():
        raise Refused(
            f"A workspace named {BUILT_IN} was removed, switched off or is of another kind. An admin can add one of "
            "plain streams: bin/manage workspace add NAME --kind streams.",
            code="no_streams_workspace",
        )
    row = Workspace(name=BUILT_IN, kind="streams", environment="production")
    if is_look:
        return row
    services = list(Workspace.objects.active().exclude(questions_url="").order_by("pk"))
    from_ = min(services, key=lambda service: service.environment != row.environment, default=None)
    if from_ is not None:
        row.questions_url, row.questions_spark = from_.questions_url, from_.questions_spark
        row.questions_token_ref, row.questions_token_kept = _questions_token(from_)
    row.save()
    return row


def _questions_token(of: Workspace) -> tuple[str, str]:
    """(reference, kept encrypted) of the service's token: it goes to the same address as before, and to no other."""
    if of.questions_token_ref or of.questions_token_kept:
        return of.questions_token_ref, of.questions_token_kept
    if of.questions_url.rstrip("/") != of.url.rstrip("/"):
        return "", ""
    if of.token_kept:
        return "", encrypted(decrypted(of.token_kept, TOKEN), QUESTIONS)
    return of.token_ref, ""


def _environment(said: StreamDetails, workspace: Workspace, known: Stream | None, by: Actor) -> str:
    """Where no one said otherwise, the workspace's. Raises WrongUse, Denied."""
    now = known.pipeline.environment if known else workspace.environment
    wanted = said.environment or now
    if wanted not in ENVIRONMENTS:
        raise WrongUse(f"An environment is one of {', '.join(ENVIRONMENTS)}.")
    if asks_less(rule_for(wanted), rule_for(now)):
        _check_weaker(wanted, now, by, is_known=known is not None)
    return wanted


def _check_weaker(wanted: str, now: str, by: Actor, *, is_known: bool) -> None:
    """Raise Denied, naming the cause and the way on, unless this actor may give a stream weaker rules."""
    try:
        by.check(Right.MANAGE)
    except LacksRight as no:
        kept = f"the stream {'stays in' if is_known else 'is adopted into'} {now}"
        says = (
            f"The rules of {wanted} are weaker than those of {now}, so choosing {wanted} needs an admin. "
            f"Ask one, or leave --environment out: {kept}. {no.sentence}"
        )
        raise LacksRight(says, right=no.right, grant=no.grant, environment=no.environment) from no


def _choose_columns(said: StreamDetails, known: StreamColumns, by: Actor) -> StreamColumns:
    """The columns of the stream as they shall be: `known` with what is said. Raises WrongUse, Refused, Denied."""
    chosen = known
    if said.event_log is not None:
        chosen = replace(
            chosen, event_log=spelled_place(said.event_log, "The event log") if said.event_log else ""
        )
    if said.program is not None:
        chosen = replace(chosen, program=spelled_place(said.program, "The program") if said.program else "")
    if said.sink is not None:
        sink = spelled_place(said.sink, "The sink") if "/" in said.sink else said.sink.strip()[:400]
        chosen = replace(chosen, sink=sink)
    if said.arguments is not None:
        if len(said.arguments) > MOST_ARGUMENTS:
            raise WrongUse(f"A program takes at most {MOST_ARGUMENTS} arguments here.")
        chosen = replace(chosen, arguments=tuple(said.arguments))
    if said.spark_python is not None:
        chosen = replace(chosen, spark_python=said.spark_python.strip()[:LONGEST])
    if said.owner is not None:
        chosen = replace(chosen, owner=shown(said.owner.strip())[:200])
    _check_commands(said, known, chosen.event_log, by)
    return _choose_runner(said, chosen)


def _choose_runner(said: StreamDetails, known: StreamColumns) -> StreamColumns:
    """Who starts and stops it, and by which words. Raises WrongUse, Refused."""
    chosen = replace(
        known,
        start=_split_command(said.start, "--start", known.start),
        stop=_split_command(said.stop, "--stop", known.stop),
        running=_split_command(said.running, "--running", known.running),
    )
    if said.runner is not None and said.runner not in RUNNERS:
        raise WrongUse(f"A runner is one of {', '.join(RUNNERS)}.")
    chosen = replace(chosen, runner=said.runner or (COMMAND if chosen.start else chosen.runner))
    needed = (("--start", chosen.start), ("--running", chosen.running))
    missing = tuple(option for option, given in needed if not given)
    if chosen.runner == COMMAND and missing:
        raise Refused(
            "Runner command needs --start and --running: without them nothing can be started or proven stopped.",
            code="commands_missing",
            flags=missing,
        )
    return chosen


def _split_command(text: str | None, option: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Its words; `known` where nothing is said of it, none where it is taken away. Raises WrongUse."""
    if text is None:
        return known
    return tuple(commands.split_command(text, option)) if text else ()


def _check_commands(said: StreamDetails, known: StreamColumns, event_log: str, by: Actor) -> None:
    """Raise Denied, naming the options and the way on, where commands are given by who may not write them down, or what
    proves a stop is changed beside those that an admin has given."""
    given = [f"--{name}" for name in ("start", "stop", "running") if getattr(said, name) is not None]
    has_commands = bool(known.start or known.stop or known.running)
    if said.runner == COMMAND or (has_commands and said.runner not in (None, known.runner)):
        given.append(f"--runner {said.runner}")
    if has_commands and event_log != known.event_log:
        given.append("--event-log")
    if not given:
        return
    try:
        by.check(Right.MANAGE)
    except LacksRight as no:
        says = (
            "Only an admin can set the commands that the worker runs, and what proves a stop beside them. Leave "
            f"{', '.join(given)} out, or ask an admin to adopt the stream again with them."
        )
        raise LacksRight(says, right=no.right, grant=no.grant, environment=no.environment) from no


def read_plain(place: str) -> CheckpointReport:
    """Raises NotFound where there is no checkpoint, Refused for one that is a pipeline's or is half swapped."""
    if label := half_swapped(place):
        raise Refused(
            f"The swap of {label} at {place} stopped between its two renames: the old checkpoint is whole in "
            f".reprise-{label}-before next to it. Resume or roll back {label}, or rename it back.",
            code="half_swapped",
        )
    report = inspect_checkpoint(place)
    if report.format == "none" or not (report.query_id or report.sources or report.last_planned is not None):
        raise NotFound(
            f"There is no checkpoint at {place}: neither a query id nor a batch can be read there.",
            code="no_checkpoint",
        )
    if report.version is not None:
        raise Refused(
            f"{place} holds versions, as a pipeline's flow has them: its pipeline is on the list already.",
            code="not_plain",
        )
    return report


def _require_readable(columns: StreamColumns) -> None:
    """The program and the logs that were named are there. Raises NotFound, Refused, Unreachable."""
    if columns.program:
        files.program_files(columns.program, columns.arguments)
    if columns.event_log:
        list_logs(columns.event_log)


def _find_sink(place: str, columns: StreamColumns, report: CheckpointReport, *, is_read: bool) -> Sink:
    """Where it writes: as somebody said, else as its newest batch says in the event log, which `is_read` by now."""
    if columns.sink:
        return sink_of(columns.sink)
    if not columns.event_log:
        return Sink("", "")
    try:
        if not is_read:
            tailing.catch_up(columns.event_log, seconds=LOOK_SECONDS)
    except RepriseError:
        return Sink("", "")
    seen = tailing.runs_of(columns.event_log, [report.query_id] if report.query_id else [])
    return sink_by_log(place, seen)


def _recall_losses(place: str, sink: Sink) -> SinkMemory:
    """What its table passed over before it was on the list, or passes over next: that shows in no later run."""
    if not sink.place:
        return SinkMemory()
    try:
        report = inspect_checkpoint(place, sink=sink.place)
    except RepriseError:  # a table that is not there yet, or cannot be read now
        return SinkMemory()
    if all(f.code not in ("SINK_SWALLOWED", "SINK_SWALLOWS") for f in report.findings):
        return SinkMemory()
    return SinkMemory(loss=TableLoss(condition=LostRows.PASSED_OVER))


def _name(said: StreamDetails, known: Stream | None, place: str) -> str:
    """As somebody said, else the folder's. Raises WrongUse."""
    if said.name is None and known:
        return known.pipeline.name
    name = " ".join((said.name or called_after(place)).split())
    if not _is_name(name):
        raise WrongUse("A stream needs a name of 1 to 200 characters, without a slash.", code="stream_name")
    return name


def choose_name(query_name: str, place: str) -> str:
    """The name that a program gave to its query, where a stream may have it; else the checkpoint folder's."""
    return query_name if _is_name(query_name) else called_after(place)


def _is_name(text: str) -> bool:
    return bool(text) and len(text) <= 200 and is_plain(text) and "/" not in text and "`" not in text


def called_after(place: str) -> str:
    """The name of a checkpoint's folder; `_checkpoint` and the like are no names: the folder above them has one."""
    parts = [p for p in place.split("/") if p]
    plain = [p for p in parts if p.strip("_").lower() not in ("checkpoint", "checkpoints", "chk", "ck")]
    return (plain or parts or [""])[-1]


def _change_stream(
    known: Stream, columns: StreamColumns, spec: StreamSpec, query_ids: Sequence[str]
) -> Stream:
    """The rows of a stream that is on the list, as they shall be."""
    # The poll that follows moves it, by the same rule as a pipeline whose tag was changed (retagging).
    name, dataset = spec["name"], spec["x-reprise-dataset"]
    Pipeline.objects.filter(pk=known.pipeline_id).update(name=name, spec=spec, gone=False)
    Flow.objects.filter(pipeline=known.pipeline_id).update(
        name=name, short=_last_part_of(name), dataset=dataset
    )
    ids = list(dict.fromkeys([*known.query_ids, *query_ids]))
    Stream.objects.filter(pk=known.pk).update(**columns.as_values(), query_ids=ids)
    return Stream.objects.select_related("pipeline").get(pk=known.pk)


def _create_stream(
    workspace: Workspace,
    place: str,
    columns: StreamColumns,
    spec: StreamSpec,
    query_ids: Sequence[str],
    memory: SinkMemory,
) -> Stream:
    """The rows of a new one: the pipeline that stands for it, with one flow, and what was said. Raises Refused."""
    _refuse_second(place)
    now, name = timezone.now(), spec["name"]
    pipeline = Pipeline.objects.create(
        workspace=workspace, pipeline_id=f"stream-{uuid.uuid4()}", name=name,
        environment=spec["tags"]["environment"], state="IDLE", spec=spec, seen_at=now,
    )  # fmt: skip
    Flow.objects.create(
        pipeline=pipeline, name=name, short=_last_part_of(name), dataset=spec["x-reprise-dataset"], flow_type="APPEND",
        updated_at=now, sink_memory={} if memory.is_empty else codec.to_json(memory),
    )  # fmt: skip
    return Stream.objects.create(
        pipeline=pipeline, checkpoint=place, query_ids=list(query_ids), adopted_at=now, **columns.as_values()
    )


def _last_part_of(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _refuse_second(place: str) -> None:
    """Somebody else may have adopted it while it was read. Who writes to the audit log, as every adoption does, waits
    here for the one before. Raises Refused (`adopted_meanwhile`)."""
    lock_chain()
    if find_adopted(place) is not None:
        raise Refused(
            "Someone else adopted this checkpoint while it was read. Adopt it again to change its details.",
            code="adopted_meanwhile",
        )


def _query_of(place: str, event_log: str, report: CheckpointReport) -> list[str]:
    """The query's id; of a checkpoint that has lost it the one that an event log's plans name with this place."""
    if report.query_id:
        return [report.query_id]
    told = tailing.query_at(event_log, place) if event_log else ""
    return [told] if told else []


def _build_spec(name: str, environment: str, place: str, columns: StreamColumns, sink: Sink) -> StreamSpec:
    """A pipeline's settings, as far as a plain stream has them. Its root is the folder that holds all of its files."""
    program, variables = columns.program, commands.variables_of(columns.start)
    read = files.program_files(program, columns.arguments) if program else {}
    return {
        "name": name,
        "tags": {"environment": environment},
        "catalog": "spark_catalog",
        "schema": "default",
        "libraries": [{"file": {"path": program}}] if program else [],
        "root_path": imports.common_folder(list(read)),
        "clusters": [{"spark_env_vars": variables}] if variables else [],
        "configuration": {
            words.ENGINE: words.PLAIN,
            words.ARGUMENTS: json.dumps(columns.arguments),
            words.RUNNER: columns.runner_digest,
            words.CHECKPOINT: place,
        },
        "x-reprise-dataset": sink.dataset,
    }


def _described(stream: Stream) -> dict[str, Any]:
    """A stream for the audit log."""
    return {
        "checkpoint": stream.checkpoint,
        **StreamColumns.of_stream(stream).as_values(),
        "name": stream.pipeline.name,
        "environment": stream.pipeline.environment,
    }
