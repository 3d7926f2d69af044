"""Gathers the facts of one flow into frozen values, once. Reads only, and notes where the flow reads from."""

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from django.conf import settings
from django.utils import timezone

from recovery import reach
from recovery.checkpoints.held import HeldState, held_states, read_known_keys
from recovery.checkpoints.repair import WITHIN_STATE_FILES, RepairPlan, damage_to_repair
from recovery.checkpoints.report import CheckpointReport, Finding
from recovery.checkpoints.table_progress import reconcile_report, stand_at_beginning
from recovery.contracts.readers import SourceReader
from recovery.contracts.target import ReplayTarget
from recovery.errors import Refused, RepriseError
from recovery.models import Flow
from recovery.pipelines.inputs import note_sources
from recovery.sinks import foreach_batch
from recovery.sinks.base import SinkReport
from recovery.sources.base import SourceFacts, StartChoice
from recovery.sources.live.replaying import measure_processed
from recovery.spark.api import (
    FROM_CODE,
    FROM_OLD_CODE,
    FROM_STATE,
    Study,
    StudyRequest,
    study,
)
from recovery.spark.programs_words import FUNCTION
from recovery.strategies import first_batch, late, state_rows
from recovery.strategies.base import CodeFacts, Counts, Facts, OutputMode
from recovery.workflow import (
    below,
    declared,
    fingerprints,
    going_back,
    inputs,
    leaving,
    rehearsing,
    repairing,
    replaying,
    topping,
)
from recovery.workflow.budgets import not_counted
from recovery.workflow.flow_snapshot import (
    NO_COUNTS,
    FlowSnapshot,
    last_good_code,
    read_flow_snapshot,
    request_for,
)
from recovery.workflow.kept_studies import KeptStudies, Mark, StudyBasis
from recovery.workflow.lineends import laid_over
from recovery.workflow.neighbours import find_shared_storage
from recovery.workflow.studied import code_facts, counts

Ask = Callable[[StudyRequest, Mapping[str, Mark]], Study]  # with the marks of the input files that are known

STATE_REFUSED = ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE")
"""Conditions of a failure that prove that the code's state has other columns than the checkpoint's."""


@reach.of_flow
def gather(
    flow: Flow,
    *,
    patch: Mapping[str, str] | None = None,
    strategy: str = "",
    key: tuple[str, ...] = (),
    wishes: Mapping[str, StartChoice] | None = None,
    confirmed: Sequence[str] = (),
    refresh_below: bool = True,
    target: ReplayTarget | None = None,
    recovery: str = "",
) -> tuple[FlowSnapshot, Facts]:
    """Look, look at the inputs, and let Spark count what each code would yield.

    `patch` changes the code of `continue` and `full-refresh`; for `revert` it is the code to put back. `wishes`: where
    sources shall start, by their index as text; a wish that cannot be met is refused. `confirmed`: which source goes on
    as which, where that was asked (`mapping.MappingProposal.unconfirmed`). `refresh_below`: whether a plan refreshes
    what is downstream. `target`: where `replay` goes back to; the facts are then those of after that batch.
    `recovery`: the label of the one that asks, "" where none is open.
    """
    snapshot = read_flow_snapshot(flow)
    reverting = strategy == "revert"
    patched = laid_over(snapshot.code, patch or {})
    new_files = patched if not reverting else dict(snapshot.code)
    old_files = patched if reverting and patch else last_good_code(snapshot)
    shared = find_shared_storage(flow, snapshot.checkpoint_place, file_table=snapshot.sink.kind == "files")
    ask = reuse_studies(snapshot)

    def facts_at(at: FlowSnapshot, ask: Ask) -> Facts:
        return facts_of(at, new_files, old_files, key=key, wishes=wishes, shared=shared, ask=ask)

    if strategy == "replay" and target is not None:
        asked = partial(request_for, snapshot, new_files, key=key)
        found = going_back.facts_of_then(snapshot, target, facts_at, asked, ask)
    else:
        found = facts_at(snapshot, ask)
    beside = (
        declared.find_flows_beside(flow) if snapshot.sink.declared else declared.find_streams_beside(flow)
    )
    found = replace(
        found,
        recovery=recovery,
        confirmed=tuple(confirmed),
        beside=beside,
        readers=below.readers_of(flow),
        refresh_below=refresh_below,
        state_refused=flow.state == "failed" and flow.condition in STATE_REFUSED,
        skipped_before=going_back.skipped_before(flow),
    )
    found = topping.with_records(found, flow)
    old = found.old_code
    written_by = old if old and old.sources else found.new_code
    digest = fingerprints.digest_of_code(written_by.files)
    note_sources(flow, written_by.sources, table=snapshot.table_place, code=digest)
    return snapshot, found


def reuse_studies(snapshot: FlowSnapshot) -> Ask:
    """How Spark is asked of a snapshot's code: what it said before is taken where nothing has moved since."""
    kept = KeptStudies(snapshot.flow, study)

    @cache
    def table() -> str:
        return mark_of_table(snapshot)

    def ask(request: StudyRequest, files: Mapping[str, Mark]) -> Study:
        return kept(request, StudyBasis(snapshot.driver, table() if request.table else "", files))

    return ask


def mark_of_table(snapshot: FlowSnapshot) -> str:
    """Tells the flow's table from what it was before: where it lies, when it was made, and every file of it."""
    if not snapshot.table_place or snapshot.sink.kind not in ("delta", "files"):
        return ""  # files of other tables may lie elsewhere (partitions with a location, Iceberg's data path)
    try:
        return f"{snapshot.table_place} {snapshot.made} {fingerprints.of_tree(snapshot.table_place)}"
    except RepriseError:
        return ""  # more files than are looked at, or a storage that does not answer: Spark is asked


@dataclass(frozen=True)
class _Studied:
    """What Spark said of both codes, and of what they were asked."""

    new: Study
    old: Study | None
    key: tuple[str, ...]  # by which rows were told apart: as given, else as the codes tell it
    found: inputs.Inputs
    wanted: inputs.CountRequest  # of the new code's inputs
    before: tuple[SourceFacts, ...] | None  # as `_inputs_before` has it, as is `problem`
    problem: str
    left: tuple[int, ...]  # sources of the checkpoint that no source of the code goes on as
    repair: RepairPlan | None


def _study_both_codes(
    snapshot: FlowSnapshot,
    new_files: Mapping[str, str],
    old_files: Mapping[str, str] | None,
    key: tuple[str, ...],
    wishes: Mapping[str, StartChoice] | None,
    ask: Ask,
) -> _Studied:
    """Look at the inputs that the codes name, then have Spark count what each yields over them. Raises Refused for a
    start position that is none."""
    known, old_known = _study_new_and_old_code(snapshot, new_files, old_files, NO_COUNTS, key, ask)
    proposed = key or find_old_key(snapshot, known, old_known)
    repair = _preview_repair(snapshot, known, old_known)
    found = _read_inputs(snapshot, known.sources or (old_known.sources if old_known else ()), repair, wishes)
    for n, source in enumerate(found.sources):  # as wishes name them, whatever the checkpoint calls them
        if source.problem and str(n) in (wishes or {}):
            raise Refused(f"Source {source.position.source}: {source.problem}", code="no_such_position")
    wanted = inputs.plan_counts(found.sources, settings.REPRISE_COUNT_BYTES)
    before, problem = _read_old_inputs(snapshot, known, old_known, repair)
    left = leaving.find_dropped_sources(snapshot.checkpoint.sources, found.old)
    old_wanted = wanted  # the same readers
    if before is not None:
        old_wanted = inputs.plan_counts(before, settings.REPRISE_COUNT_BYTES) if before else NO_COUNTS
        old_wanted = leaving.add_dropped_source_counts(old_wanted, before, left, settings.REPRISE_COUNT_BYTES)
    files = {**inputs.marks(before or ()), **inputs.marks(found.sources)}
    new_study, old_study = _study_new_and_old_code(
        snapshot, new_files, old_files, wanted, proposed, ask, old_wanted=old_wanted, files=files
    )
    if proposed and not key:
        new_study = replace(new_study, key_from=FROM_STATE if old_known is None else FROM_OLD_CODE)
        old_study = replace(old_study, key_from=FROM_CODE) if old_study else None
    return _Studied(
        new=new_study, old=old_study, key=proposed, found=found, wanted=wanted, before=before, problem=problem,
        left=left, repair=repair,
    )  # fmt: skip


def facts_of(
    snapshot: FlowSnapshot,
    new_files: Mapping[str, str],
    old_files: Mapping[str, str] | None,
    *,
    key: tuple[str, ...] = (),
    wishes: Mapping[str, StartChoice] | None = None,
    shared: tuple[Finding, ...] = (),
    ask: Ask | None = None,
) -> Facts:
    """The facts behind a snapshot: its inputs are looked at, and Spark counts what each code yields. Asks no database.

    `old_files`: the code of the last good update, where it is known. `shared`: what other flows share with this one.
    `ask`: how Spark is asked of the code; None: each time.
    """
    flow, is_plain = snapshot.flow, snapshot.flow.pipeline.workspace.has_streams
    studied = _study_both_codes(snapshot, new_files, old_files, key, wishes, ask or _each_time)
    found, new_study, old_study = studied.found, studied.new, studied.old
    new_code = code_facts(new_files, new_study)
    old_code = code_facts(old_files, old_study) if old_files and old_study else None
    apart = NO_COUNTS
    if late.same_windows(old_code, new_code):
        apart = inputs.plan_counts(found.sources, settings.REPRISE_COUNT_BYTES, ("unread",))
    facts = Facts(
        gathered_at=timezone.now().isoformat(),
        workspace=flow.pipeline.workspace.name,
        environment=flow.pipeline.environment,
        pipeline_id=flow.pipeline.pipeline_id,
        pipeline=flow.pipeline.name,
        flow=flow.name,
        dataset=flow.dataset,
        active_update=snapshot.active_update,
        last_update=snapshot.last_update,
        checkpoint=snapshot.checkpoint,
        sink=mark_written_by_function(snapshot.sink, new_study.sink, old_study.sink if old_study else None),
        sources=found.sources,
        old_code=old_code,
        code=code_facts(snapshot.code, new_study),
        new_code=new_code,
        counts=_rehearse_or_count(snapshot, new_study, studied.wanted, apart, new_files, studied.key),
        old_counts=counts(old_study) if old_study else None,
        old_sources=studied.before,
        old_problem=studied.problem,
        repair=studied.repair,
        between=shared,
        source_map=found.old,
        unread_of=leaving.list_unread_of_dropped(studied.before, studied.left),
        yields_of=leaving.count_rows_of_dropped(old_study, studied.left),
        held=(*_read_held_state(snapshot), *_read_known_keys(snapshot)),
        usual_update_seconds=snapshot.usual_seconds,
        rows_per_second=snapshot.rows_per_second,
        output_mode=read_mode(new_study),
        state_mode=mode_of_state(new_study, old_study, is_plain=is_plain),
        not_counted=not_counted(new_study.bounded),
        is_plain=is_plain,
        processed=measure_processed(found.sources) if new_code.operators else None,
        scratch=bool(snapshot.storage),
        drops_dedupe=_drops_dedupe(snapshot.checkpoint, new_code, old_code),
    )
    return _with_rebuilt_state(snapshot, facts, studied, new_files)


def _with_rebuilt_state(
    snapshot: FlowSnapshot, facts: Facts, studied: _Studied, new_files: Mapping[str, str]
) -> Facts:
    """With what a rehearsal that builds the state of processed input counted."""
    rebuilt = replaying.count_rebuilt(
        facts, studied.new, studied.wanted, lambda of: request_for(snapshot, new_files, of, studied.key),
        storage=snapshot.storage, limit=settings.REPRISE_COUNT_BYTES,
    )  # fmt: skip
    return replace(facts, counts=replace(facts.counts, rebuilt=rebuilt))


def mark_written_by_function(sink: SinkReport, *told: Mapping[str, object] | None) -> SinkReport:
    """The sink of a program whose function writes it (foreachBatch), by the code of today or the last good one. Files
    that such a function writes have no log that names those of a rerun."""
    if not any(one is not None and str(one.get("format")).lower() == FUNCTION for one in told):
        return sink
    return replace(sink, by_function=True, kind=foreach_batch.KIND if sink.kind == "files" else sink.kind)


def read_mode(answer: Study) -> OutputMode | None:
    """None: one that is not known here."""
    return OutputMode(answer.output_mode) if answer.output_mode in tuple(OutputMode) else None


def mode_of_state(new: Study, old: Study | None, *, is_plain: bool) -> OutputMode | None:
    """How the code wrote that made the state. Without that code, a pipeline's flow writes as it always does; what a
    program did is not known."""
    if old is not None:
        return read_mode(old)
    return None if is_plain else read_mode(new)


def _read_held_state(snapshot: FlowSnapshot) -> tuple[HeldState, ...]:
    """What the state holds where the next batch goes on, of operators that may hold rows of the table."""
    asked = [o for o in snapshot.checkpoint.state_operators if o.name not in state_rows.WRITTEN_AT_ONCE]
    last = reconcile_report(snapshot.checkpoint).last_committed
    return held_states(snapshot.checkpoint_place, asked, batch=last, limit=settings.REPRISE_COUNT_BYTES)


def _read_known_keys(snapshot: FlowSnapshot) -> tuple[HeldState, ...]:
    limit = settings.REPRISE_COUNT_BYTES
    return read_known_keys(snapshot.checkpoint_place, snapshot.checkpoint, limit=limit)


def _drops_dedupe(checkpoint: CheckpointReport, code: CodeFacts, old: CodeFacts | None) -> bool:
    """Whether a dropDuplicates goes whose state the checkpoint has, or which the last good code had."""
    if code.operators is None:
        return False
    held, had = (o.name for o in checkpoint.state_operators), (old.operators if old else None) or ()
    before = Counter(held) | Counter(had)
    return any((before - Counter(code.operators))[name] for name in state_rows.DEDUPES)


def find_state_key(checkpoint: CheckpointReport) -> tuple[str, ...]:
    """The key columns of the outermost dropDuplicates whose state a checkpoint has; () where it has none, or where that
    is dropDuplicatesWithinWatermark, whose keys come again once its delay is over."""
    kept = (o for o in checkpoint.state_operators if o.name in state_rows.DEDUPES)
    return next((o.key_columns if o.name == "dedupe" else () for o in kept), ())


def find_old_key(snapshot: FlowSnapshot, known: Study, old_known: Study | None) -> tuple[str, ...]:
    """The columns of a dropDuplicates that the last good code had, where the new code yields them and has no key of its
    own; () elsewhere. Where that code is not known, those of the state that its dropDuplicates left. A topic's records
    have no such columns."""
    if known.operators is None or known.key or snapshot.sink.declared:
        return ()
    own = find_state_key(snapshot.checkpoint) if old_known is None else tuple(old_known.dedupe or ())
    if old_known is None and {c.lower() for c in own} & {c.lower() for c in known.computed}:
        return ()  # the name may mean another column than it did to the state
    return own if {c.lower() for c in own} <= {c.lower() for c in known.columns} else ()


def _rehearse_or_count(
    snapshot: FlowSnapshot,
    answer: Study,
    wanted: inputs.CountRequest,
    apart: inputs.CountRequest,
    files: Mapping[str, str],
    key: tuple[str, ...],
) -> Counts:
    """What Spark counted with the new code; by a rehearsal, where its state decides. Before a first batch that
    crashed nothing was processed."""
    counted = rehearsing.count_or_rehearse(
        answer,
        wanted,
        apart,
        lambda of: request_for(snapshot, files, of, key),
        storage=snapshot.storage,
        watermark_ms=reconcile_report(snapshot.checkpoint).closed_ms,
        conf=snapshot.checkpoint.conf,
    )
    return first_batch.count_processed(snapshot.checkpoint, counted)


@reach.of_flow
def read_positions(
    flow: Flow, wishes: Mapping[str, StartChoice], patch: Mapping[str, str] | None = None
) -> list[SourceFacts]:
    """Every source of the code as `patch` changes it, and what starting where `wishes` say would cost. Reads only."""
    snapshot = read_flow_snapshot(flow)
    code = laid_over(snapshot.code, patch or {})
    ask = reuse_studies(snapshot)
    known = _identify_sources(snapshot, ask(request_for(snapshot, code, NO_COUNTS, ()), {}))
    found = _read_inputs(snapshot, known.sources, None, wishes).sources
    wanted = inputs.plan_moved_counts(found, settings.REPRISE_COUNT_BYTES)
    if not wanted.sets:
        return list(found)
    request = replace(request_for(snapshot, code, wanted, (), by_file=True), table=None)
    rows = ask(request, inputs.marks(found)).by_file
    return inputs.with_rows(found, wishes, rows)


def _identify_sources(snapshot: FlowSnapshot, answer: Study) -> Study:
    """With what tells sources apart that the checkpoint knows by an id."""
    return replace(answer, sources=inputs.identify_tables(answer.sources, snapshot.checkpoint.sources))


def _study_new_and_old_code(
    snapshot: FlowSnapshot,
    new: Mapping[str, str],
    old: Mapping[str, str] | None,
    wanted: inputs.CountRequest,
    key: tuple[str, ...],
    ask: Ask,
    *,
    old_wanted: inputs.CountRequest | None = None,
    files: Mapping[str, Mark] | None = None,
) -> tuple[Study, Study | None]:
    """The code that shall run and the last good one; once where they are the same. One after the other: the
    same warm child answers both, and a second one would take longer to start than most studies take."""

    def answer(code: Mapping[str, str], wanted: inputs.CountRequest) -> Study:
        by_file = bool(wanted.sets) and wanted.only_files and code is new
        request = request_for(snapshot, code, wanted, key, by_file=by_file)
        lacking, committed = inputs.compared_labels(snapshot.sink, wanted, is_new=code is new)
        request = replace(request, lacking=lacking, committed=committed)
        return _identify_sources(snapshot, ask(request, files or {}))

    found = answer(new, wanted)
    if old is None:
        return found, None
    return found, found if dict(old) == dict(new) else answer(
        old, wanted if old_wanted is None else old_wanted
    )


def _each_time(request: StudyRequest, files: Mapping[str, Mark]) -> Study:
    return study(request)


def _preview_repair(snapshot: FlowSnapshot, known: Study, old_known: Study | None) -> RepairPlan | None:
    """How the checkpoint could be repaired; None where nothing is damaged."""
    found = damage_to_repair(snapshot.checkpoint)
    if not found or any(f.code == "TOO_MANY_FILES" for f in found):
        return None
    readers = known.sources or (old_known.sources if old_known else ())
    return repairing.preview_repair(
        snapshot.checkpoint_place,
        table=snapshot.table_place,
        sink=snapshot.sink,
        query_id=str(uuid.uuid4()),
        operators=(old_known.operators if old_known else None) or known.operators or (),
        inputs=[(reader.place, reader.options) for reader in readers],
        deep=any(f.code in WITHIN_STATE_FILES for f in found),
    )


def _read_inputs(
    snapshot: FlowSnapshot,
    readers: Sequence[SourceReader],
    repair: RepairPlan | None,
    wishes: Mapping[str, StartChoice] | None,
) -> inputs.Inputs:
    """Each source beside the place a code reads it from, by its `readers`.

    Where damage can be repaired, the repaired logs tell what was read.
    """
    report = repair.after if repair is not None and repair.complete else snapshot.checkpoint
    # reconciled: what the table holds is not read anew
    standing = stand_at_beginning(reconcile_report(report))
    return inputs.inputs_of(standing, readers, wishes=wishes, noted=snapshot.noted)


def _read_old_inputs(
    snapshot: FlowSnapshot, known: Study, old_known: Study | None, repair: RepairPlan | None
) -> tuple[tuple[SourceFacts, ...] | None, str]:
    """What the old code reads, where it reads otherwise than the new one, and why it could not be looked at.

    None where both read the same, or no one knows the old code. Nothing of it can stand in the way of the new code.
    """
    if old_known is None or not old_known.sources or old_known.sources == known.sources:
        return None, ""
    try:
        found = _read_inputs(snapshot, old_known.sources, repair, None)
    except RepriseError as problem:
        return (), problem.sentence
    if found.old != tuple(range(len(found.old))):
        return (), "Its sources are not those of the checkpoint, or are in another order there."
    return found.sources, ""
