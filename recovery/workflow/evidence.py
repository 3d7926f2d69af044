"""Reads what a verdict needs after the rerun: checkpoint, table log, events, and Spark's comparison."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from django.conf import settings

from recovery.checkpoints import inspect_checkpoint, publishing
from recovery.checkpoints.formats import log_offset
from recovery.checkpoints.report import CheckpointReport, Entries, SourceProgress
from recovery.checkpoints.table_progress import count_batch_committed
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.criterion_values import ExpectedPosition
from recovery.contracts.measured import ReachedInput
from recovery.contracts.plan import PlanBody, PlannedInput
from recovery.contracts.results import FillResult, InputMark, SourceEnd, TableBackupResult, TopicMark
from recovery.errors import Refused, RepriseError
from recovery.pipelines import events as api_events
from recovery.pipelines.workspaces import questions_service
from recovery.sinks.base import SinkReport
from recovery.sinks.live import delta
from recovery.sinks.live import reading as sinks
from recovery.sources.input_ranges import InputRange
from recovery.sources.live import probe
from recovery.spark.api import (
    ChangesSince,
    CommitRewrite,
    Measure,
    MeasureRequest,
    WholeInput,
    count,
    measure,
    study,
)
from recovery.spark.backups import FillToMeasure
from recovery.strategies import rebuild
from recovery.strategies.prime import PASSES
from recovery.verification.evidence import (
    FROM_NOTHING,
    Evidence,
    FirstBatch,
    KeptRows,
    ReachedPosition,
    arrivals,
    is_folder_read_unevenly,
    measured_from,
    new_data_files,
    new_inputs,
)
from recovery.workflow import rehearsing, source_files, topics, whole
from recovery.workflow.budgets import budgets
from recovery.workflow.flow_snapshot import FlowSnapshot, request_for
from recovery.workflow.inputs import CountRequest, list_files
from recovery.workflow.planned_inputs import held_of
from recovery.workflow.readers import Readers
from recovery.workflow.replaying import processed_until, replaying_processed

Ask = Callable[[MeasureRequest], Measure]
FOLDER_READ_UNEVENLY: Final = (
    "Two sources read one folder, and one of them had read a file before that the other read now, so the rows of the "
    "new batches cannot be computed."
)
# a repaired version holds the old one's logs, mended: it is cut back to the position as one that went on
SCOPES = {
    "continue": "both",
    "rebuild": "both",
    "prime": "both",
    "rewind": "same",
    "replay": "same",
    "revert": "same",
    "repair": "same",
    "full-refresh": "new",
    "empty": "again",
    "backfill": "new",
}


def scope_of(contents: PlanBody) -> str:
    """Where the rerun's batches are told from those before: a seed whose sources start elsewhere has its own log."""
    seeded = contents.seed_args
    return "same" if seeded is not None and seeded.starts else SCOPES[contents.strategy]


def read_inputs(contents: PlanBody, readers: Readers) -> dict[str, InputMark]:
    """What is there now, by source (index in the plan as text)."""
    there: dict[str, InputMark] = {}
    for n, source in enumerate(contents.inputs):
        number = str(n)
        if source.is_files:
            there[number] = tuple(f.path for f in list_files(source.location, source.options))
            continue
        there[number] = SourceEnd(
            latest=probe.latest_position(readers.find_reader(number), source.kind, source.start)
        )
    return there


def arrived(before: Mapping[str, InputMark], after: Mapping[str, InputMark]) -> tuple[str, ...]:
    """What came between two looks: files, or the number of a source whose end has moved."""
    found: list[str] = []
    for number, now in after.items():
        was = before.get(number)
        if not isinstance(now, SourceEnd):
            known = frozenset(_files_of(was))
            found += [p for p in now if p not in known]
        elif was is not None and now != was:
            found.append(f"source {number}")
    return tuple(found)


def perhaps_read(now: CheckpointReport, arrived: Sequence[str]) -> tuple[str, ...]:
    """Those of what `arrived` that a batch may hold: files that the checkpoint does not name wait still."""
    if not arrived:
        return ()
    committed = {decode_uri(e.path) for s in now.sources for e in s.committed}
    return tuple(a for a in arrived if a in committed or a.startswith("source "))


def read_since(now: CheckpointReport, positions: Sequence[str | None] | None) -> tuple[str, ...]:
    """What batches have read since the checkpoint's sources stood there: files, or the number of a source. () where
    that was not noted."""
    found: list[str] = []
    for source, was in zip(now.sources, positions or (), strict=False):
        if source.offset_json == was:
            continue
        if source.kind != "files":
            found.append(f"source {source.index}")
            continue
        last = log_offset(was)
        found += [
            decode_uri(entry.path) for entry in source.committed if last is None or entry.batch_id > last
        ]
    return tuple(found)


def _files_of(mark: InputMark | None) -> tuple[str, ...]:
    """The files that a file source held; none of another source, or where that was not noted."""
    return () if mark is None or isinstance(mark, SourceEnd) else mark


@dataclass(frozen=True)
class _Compared:
    """What is compared beside the new rows: all input, and rows that were filled back. None: that is not."""

    whole: WholeInput | None
    filled: FillToMeasure | None


def collect(
    snapshot: FlowSnapshot,
    contents: PlanBody,
    readers: Readers,
    *,
    seen: Mapping[str, InputMark],
    sink_before: Sequence[str],
    version_before: int | None,
    update_ids: Sequence[str],
    topic_before: TopicMark | None = None,
    marks_before: whole.Marks | None = None,
    filled: tuple[TableBackupResult, FillResult] | None = None,
) -> Evidence:
    """Evidence of one rerun, but for the other places and the further update, which come after.

    `update_ids`: every update that the rerun has started: one that failed may have committed batches before.
    `readers`: those of the snapshot's code. `seen`: what was there right before the rerun. `sink_before`: the data
    files of the table's log then; `version_before`: its version, of a table that counts its commits.
    `topic_before`, `marks_before`: of a topic and of the table's data files then. `filled`: the backup and the fill.
    """
    scope = scope_of(contents)
    new = snapshot.checkpoint
    old = _old(snapshot, contents, scope)
    before = _sink_before(snapshot, contents, sink_before, version_before)
    evidence = Evidence(
        scope=scope,
        old=old,
        new=new,
        listed=_list_expected_files(old, new, contents, seen, scope),
        first_batch=first_batch(snapshot, update_ids, planned=_planned_batch(contents)),
        sink_before=before,
        sink_after=snapshot.sink,
        measure=None,
        planned=_planned(old, new, contents, scope),
        passed_over=() if scope in FROM_NOTHING else contents.ignored_files,
        old_files=None if scope == "new" else whole.old_files(snapshot, before, marks_before),
        by_function=contents.written_by_function,
        drops_repeats=not PASSES.isdisjoint(contents.code_operators or ()),
    )
    stretches = _stretches(snapshot, contents, readers)
    inputs, files = new_inputs(scope, old, new), new_data_files(scope, before, snapshot.sink)
    since = measured_from(scope, before)
    wanted = CountRequest({"new": inputs}, {"new": {n: s.as_dict() for n, s in stretches.items() if s}})
    flow, every = whole.input_of(snapshot, contents, readers, old)
    compared = _Compared(every, _filled_back(filled))
    measured = _measure(
        snapshot, contents, readers, old, scope, wanted, files, sink_before, since, topic_before, compared
    )
    evidence = replace(
        evidence,
        whole_flow=flow,
        measure=_with_key_of_plan(measured, contents),
        backup=KeptRows(filled[0].rows, filled[0].digest) if filled else None,
        measured_inputs=inputs,
        measured_files=files,
        measured_since=since,
        reached=_reached(snapshot, contents, readers, seen, stretches),
    )
    origins = _with_origins(evidence, snapshot, contents, readers)
    return _with_arrived_rows(origins, snapshot, contents, readers)


def _with_key_of_plan(measured: Measure, contents: PlanBody) -> Measure:
    """With who says by what rows are told apart: what measured was given the plan's key, and the plan has it from the
    code, a state or a person."""
    is_of_plan = bool(contents.key) and [c.lower() for c in measured.key] == [c.lower() for c in contents.key]
    return replace(measured, key_from=contents.key_from) if is_of_plan else measured


def _with_arrived_rows(
    evidence: Evidence, snapshot: FlowSnapshot, contents: PlanBody, readers: Readers
) -> Evidence:
    """With the rows of input that came after the plan, where some did."""
    late = arrivals(evidence)
    if not late and not any(r.arrived for r in evidence.reached.values()):
        return evidence
    return replace(evidence, arrived_rows=_arrived_rows(snapshot, contents, readers, late))


def _with_origins(
    evidence: Evidence, snapshot: FlowSnapshot, contents: PlanBody, readers: Readers
) -> Evidence:
    """With input files that were written again, and the owners of these and of files that missing rows come from."""
    if evidence.measure:
        readers.keep_answer(evidence.measure.sources)
    before = _before_reset(evidence, snapshot, contents)
    return source_files.add_changed_files(evidence, contents, snapshot.checkpoint, before=before)


def _before_reset(evidence: Evidence, snapshot: FlowSnapshot, contents: PlanBody) -> CheckpointReport | None:
    """The checkpoint that the plan was made on, with the log of what it had read; None where that log goes on."""
    if evidence.scope != "same":
        return evidence.old
    if contents.seed_args is None:
        return None
    # where it cannot be read, the proof cannot tell which file is another one now, and fails as it does for `old`
    return inspect_checkpoint(_place_before(snapshot, contents, contents.preconditions.checkpoint.version))


def list_reached(now: CheckpointReport, contents: PlanBody) -> tuple[ReachedInput, ...]:
    """How far the checkpoint has read each of the plan's inputs."""
    held = ((source, held_of(now, n, source)) for n, source in enumerate(contents.inputs))
    return tuple(
        ReachedInput(source=source.source, offset_json=None if found is None else found.offset_json)
        for source, found in held
    )


def _index(new: CheckpointReport, n: int, source: PlannedInput) -> int:
    """By what the evidence knows the plan's `n`th input: its index in the checkpoint; none of theirs for a name that
    is not there."""
    held = held_of(new, n, source)
    if held is not None:
        return held.index
    return len(new.sources) + n if source.is_named else n


def _end(snapshot: FlowSnapshot, n: int, source: PlannedInput) -> str | None:
    """How far a source is committed now."""
    held = held_of(snapshot.checkpoint, n, source)
    return None if held is None else held.offset_json


def _start(contents: PlanBody, source: PlannedInput) -> str | None:
    """Where the rerun began in a source; a full refresh begins with nothing."""
    return None if scope_of(contents) in FROM_NOTHING else source.start


def _between(
    readers: Readers, n: int, source: PlannedInput, start: str | None, end: str | None
) -> InputRange | None:
    """Of the plan's `n`th input. None also where a Kafka topic is not the one any more that the plan was sealed on."""
    return probe.range_between(readers.find_reader(str(n)), source.kind, start, end, noted=source.topic_ids)


def remade(contents: PlanBody, readers: Readers) -> tuple[str, ...]:
    """Kafka topics that were deleted since the seal, or deleted and made again."""
    remade = [
        probe.list_remade_topics(readers.find_reader(str(n)), source.topic_ids)
        for n, source in enumerate(contents.inputs)
        if source.topic_ids
    ]
    return tuple(dict.fromkeys(topic for topics in remade for topic in topics))


def _stretches(snapshot: FlowSnapshot, contents: PlanBody, readers: Readers) -> dict[str, InputRange | None]:
    """What the rerun has read of each source that is no file source, so that it can be read again."""
    found = {}
    for n, source in contents.other_inputs:
        start, end = _start(contents, source), _end(snapshot, n, source)
        found[str(n)] = _between(readers, n, source, start, end)
    return found


def _reached(
    snapshot: FlowSnapshot,
    contents: PlanBody,
    readers: Readers,
    seen: Mapping[str, InputMark],
    stretches: Mapping[str, InputRange | None],
) -> dict[int, ReachedPosition]:
    found = {}
    for n, source in contents.other_inputs:
        number, kind = str(n), source.kind
        start, end = _start(contents, source), _end(snapshot, n, source)
        mark = seen.get(number)
        was = mark.latest if isinstance(mark, SourceEnd) else None
        left = _between(readers, n, source, end, was) if was else None
        beyond = _between(readers, n, source, source.latest, end) if source.latest else None
        found[_index(snapshot.checkpoint, n, source)] = ReachedPosition(
            kind=kind,
            start=start,
            end=end,
            left_empty=None if left is None else left.empty,
            measured=(start, end) if stretches.get(number) is not None else None,
            arrived=beyond is None or not beyond.empty,
        )
    return found


def _old(snapshot: FlowSnapshot, contents: PlanBody, scope: str) -> CheckpointReport:
    """The checkpoint as it was when the plan was sealed. A version that went on is cut back to then."""
    planned = contents.preconditions.checkpoint
    if scope != "same":
        found = inspect_checkpoint(_place_before(snapshot, contents, planned.version))
        return count_batch_committed(found, contents.numbering.next_batch - 1) if scope == "both" else found
    new, planned_inputs = snapshot.checkpoint, zip(contents.inputs, contents.positions, strict=True)
    at = {_index(new, n, source): p.after.offset_json for n, (source, p) in enumerate(planned_inputs)}
    if set(at) != {s.index for s in new.sources}:
        raise Refused(
            f"The sources of the checkpoint ({len(new.sources)}) do not match those of the plan ({len(at)}), so "
            "what was read of each cannot be compared. Look at the checkpoint.",
            code="other_sources",
        )
    cut = tuple(_cut(s, at[s.index]) for s in new.sources)
    last = contents.numbering.next_batch - 1 if contents.restore_args else planned.last_committed
    return replace(new, sources=cut, last_committed=last)


def _place_before(snapshot: FlowSnapshot, contents: PlanBody, version: int | None) -> str:
    """Where the checkpoint lies that the plan was made on: an older version, or set aside where there is one place."""
    if version is None:
        return publishing.set_aside(snapshot.checkpoint_place, recovery=contents.recovery)
    return f"{snapshot.checkpoint_place}/{version}"


def _cut(source: SourceProgress, offset: str | None) -> SourceProgress:
    if source.kind != "files":
        return replace(source, offset_json=offset)
    edge = api_events.as_object(offset).get("logOffset") if offset else None
    edge = -1 if edge is None else int(edge)
    kept = Entries.from_entries(e for e in source.committed if e.batch_id <= edge)
    return replace(source, committed=kept, offset_json=offset, log_offset=edge, planned=Entries())


def _sink_before(
    snapshot: FlowSnapshot, contents: PlanBody, files: Sequence[str], version: int | None
) -> SinkReport:
    restored = contents.restore_args
    head = contents.preconditions.sink.head if restored is None else restored.batch
    return SinkReport(snapshot.sink.kind, snapshot.sink.location, head, older=tuple(files), version=version)


def _planned(
    old: CheckpointReport, new: CheckpointReport, contents: PlanBody, scope: str
) -> dict[int, tuple[str, ...]]:
    """Files that the plan knew, read or to be read, by the source's index in the checkpoint.

    An empty checkpoint (`FROM_NOTHING`) takes what Spark ignores too.
    """
    known = {}
    for n, source in contents.file_inputs:
        held = held_of(old, n, source)
        read = tuple(decode_uri(e.path) for e in held.committed) if held and held.kind == "files" else ()
        more = source.ignored if scope in FROM_NOTHING else ()
        known[_index(new, n, source)] = (*read, *source.waiting, *more)
    return known


def _list_expected_files(
    old: CheckpointReport,
    new: CheckpointReport,
    contents: PlanBody,
    seen: Mapping[str, InputMark],
    scope: str,
) -> dict[int, tuple[str, ...]]:
    """Files that must stand in one batch: known to the plan, or there when the rerun began.

    Read again from nothing, a file that is gone cannot come back and is not asked for. Going on, one that
    Spark ignores is not asked for.
    """
    planned, listed = _planned(old, new, contents, scope), {}
    for n, source in contents.file_inputs:
        index = _index(new, n, source)
        never = set(source.gone if scope in FROM_NOTHING else source.ignored)
        known = dict.fromkeys((*planned[index], *_files_of(seen.get(str(n)))))
        listed[index] = tuple(p for p in known if p not in never)
    return listed


def _planned_batch(contents: PlanBody) -> int | None:
    """The batch that the plan's code shall begin with; None: the plan says none."""
    values = (criterion.expected for criterion in contents.criteria)
    return next((value.batch or 0 for value in values if isinstance(value, ExpectedPosition)), None)


def first_batch(
    snapshot: FlowSnapshot, update_ids: Iterable[str], *, planned: int | None = None
) -> FirstBatch | None:
    """The first batch of this flow that the events of these updates tell of; None when they tell of none. Of a plain
    stream's run only the newest are kept, so where they begin after the planned one its checkpoint tells."""
    told = [batch for update_id in update_ids for batch in _batches(snapshot, update_id)]
    first = min(told, key=lambda first: first.batch, default=None)
    is_cut = first is not None and planned is not None and first.batch > planned
    return None if is_cut and snapshot.flow.pipeline.workspace.has_streams else first


def _batches(snapshot: FlowSnapshot, update_id: str) -> Iterator[FirstBatch]:
    flow = snapshot.flow
    told = snapshot.client.events(
        flow.pipeline.pipeline_id,
        filter=f"update_id = '{update_id}'",
        order_by="timestamp asc",  # an update of many batches tells more than is asked for; the first is wanted
        limit=1000,
    )
    for event in told:
        if event.get("event_type") != "stream_progress" or api_events.flow_name(event) != flow.name:
            continue
        body = api_events.details(event)
        body = api_events.as_object(body.get("progress_json") or body.get("progress") or body)
        batch, sources = body.get("batchId"), body.get("sources")
        if isinstance(batch, int) and isinstance(sources, list):
            yield FirstBatch(batch, tuple(api_events.as_object(s).get("startOffset") for s in sources))


def _measure(
    snapshot: FlowSnapshot,
    contents: PlanBody,
    readers: Readers,
    old: CheckpointReport,
    scope: str,
    wanted: CountRequest,
    files: tuple[str, ...],
    sink_before: Sequence[str],
    since: int | None,
    topic: TopicMark | None,
    compared: _Compared,
) -> Measure:
    if is_folder_read_unevenly(scope, old, snapshot.checkpoint):
        return Measure(problem=FOLDER_READ_UNEVENLY)
    key = contents.key
    asked = MeasureRequest(
        answers=questions_service(snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment),
        table=contents.dataset,
        old_files=() if scope == "new" or since is not None else tuple(sink_before),
        new_files=files,
        old_version=since,
        study=request_for(snapshot, snapshot.code, wanted, key),
        key=key or None,
        state_kept=contents.state == "keep",
        whole_rows=contents.whole_rows,
        whole=compared.whole,
        since=came_since(snapshot.table_place, since),
        budgets=budgets(snapshot.flow.name),
        filled=compared.filled,
    )
    if contents.sink.is_declared:
        ask: Ask = partial(topics.measure_topic, snapshot, before=_failed_counts(topic, scope))
    else:
        ask = partial(measure, timeout=settings.REPRISE_MEASURE_SECONDS)
    if contents.state == rebuild.STATE:
        return _measured_by_replay(snapshot, readers, old, contents.recovery, asked, ask)
    found = ask(asked)
    if found.problem is None or contents.state == "keep" or not snapshot.checkpoint.state_operators:
        return found
    return _measured_by_rehearsal(snapshot, contents, asked, ask) or found


def _filled_back(filled: tuple[TableBackupResult, FillResult] | None) -> FillToMeasure | None:
    if filled is None:
        return None
    backup, fill = filled
    return FillToMeasure(backup.rows_folder, fill.before, fill.version)


def came_since(place: str, version: int | None) -> ChangesSince | None:
    """What the log of a Delta table says of the commits after a version; None where its versions have to be compared:
    rows were taken away, the table was emptied, or the log cannot be read."""
    if version is None or version < 0:
        return None
    try:
        came = delta.came_since(place, version)
    except RepriseError:
        return None
    if came is None:
        return None
    moved = (CommitRewrite(r.gone.as_dict(), r.came.as_dict(), r.size) for r in came.rewritten)
    return ChangesSince(came.written.as_dict(), tuple(moved))


def _failed_counts(topic: TopicMark | None, scope: str) -> TopicMark | None:
    """A refresh sends everything again, what a failed attempt had sent too: the plan says so."""
    return topic if topic is None or scope not in FROM_NOTHING else topic.model_copy(update={"failed": None})


def _measured_by_replay(
    snapshot: FlowSnapshot,
    readers: Readers,
    old: CheckpointReport,
    label: str,
    asked: MeasureRequest,
    ask: Ask,
) -> Measure:
    """Against what the code writes of the new input after a replay of what was processed before, made once more: the
    state that the seed took is not asked to prove itself."""
    try:
        held = processed_until(old, readers.in_plan_order, snapshot.noted)
    except RepriseError as problem:
        return Measure(problem=problem.sentence)
    with replaying_processed(
        asked.study, held, old, storage=snapshot.storage, purpose=f"proof-{label}"
    ) as found:
        if found.problem is not None or found.why:
            return Measure(problem=found.problem or f"The replay may differ from the update: {found.why}")
        return ask(replace(asked, expected=found.output))


def _measured_by_rehearsal(
    snapshot: FlowSnapshot, contents: PlanBody, asked: MeasureRequest, ask: Ask
) -> Measure | None:
    """Where a batch cannot stand for the state that the rerun began without: against what a rehearsal writes.

    None where it could not be run, or where the update may have written other rows (`Rehearsal.why`).
    """
    with rehearsing.rehearse_flow(
        asked.study,
        storage=snapshot.storage,
        purpose=f"proof-{contents.recovery}",
        watermark_ms=_watermark(contents),
        conf=snapshot.checkpoint.conf,
    ) as found:
        if found.problem is not None or found.why:
            return None
        return ask(replace(asked, expected=found.output))


def _watermark(contents: PlanBody) -> int | None:
    """The watermark that the rerun began with; None: none, or it had all its state."""
    seeded = contents.seed_args
    if seeded is None:
        return None
    return seeded.watermark_ms if "watermark_ms" in seeded.model_fields_set else contents.watermark_ms


def _arrived_rows(
    snapshot: FlowSnapshot, contents: PlanBody, readers: Readers, late: tuple[str, ...]
) -> int | None:
    """Rows of the input that the plan did not know; with kept state no one can tell them apart."""
    if contents.state == "keep" and snapshot.checkpoint.state_operators:
        return None
    slices = {}
    for n, source in contents.other_inputs:
        end = _end(snapshot, n, source)
        beyond = _between(readers, n, source, source.latest, end)
        if beyond is None:
            return None
        slices[str(n)] = beyond.as_dict()
    wanted = CountRequest({"arrived": late}, {"arrived": slices} if slices else {})
    return study(request_for(snapshot, snapshot.code, wanted, contents.key)).rows.get("arrived")


def table_rows(snapshot: FlowSnapshot, dataset: str) -> int | None:
    """Rows of the table, counted in a session of its own; None: there is none, or it cannot be read."""
    service = questions_service(snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment)
    try:
        return count(service, dataset, snapshot.spec.get("configuration") or {})
    except Refused:
        return None


def changed_since(
    snapshot: FlowSnapshot, contents: PlanBody, *, version: int | None, files: Iterable[str]
) -> tuple[str, ...]:
    """Data files that the table has gained or lost since it had this version and these files; none of a declared
    sink."""
    if contents.sink.is_declared:
        return ()
    now = sinks.read_table(contents.table_place, query_id=snapshot.checkpoint.query_id)
    return sinks.written_since(now, version, tuple(files))
