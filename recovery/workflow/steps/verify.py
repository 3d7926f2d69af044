"""verify: measure the plan's criteria on the data, run one further update, and judge. Changes no checkpoint.

Measuring twice does no harm, so a silent attempt is repeated by itself; the further update only adds
what has arrived since.
"""

from collections.abc import Mapping
from dataclasses import replace

from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.measured import Measured, MeasuredBelow, MeasuredOutcome, Verdict
from recovery.contracts.names import StepKind
from recovery.contracts.plan import PlanBody
from recovery.contracts.results import (
    BeforeFurther,
    FillResult,
    InputMark,
    NotedFiles,
    RestoreResult,
    StandstillResult,
    TableBackupResult,
    UpdateResult,
    VerifyResult,
)
from recovery.errors import Interrupted, Refused
from recovery.models import Step
from recovery.pipelines.events import was_unseen
from recovery.spark.api import Measure
from recovery.verification.evidence import UNSEEN, Evidence, FurtherUpdate, data_files
from recovery.verification.judge import complete_verdict, judge
from recovery.verification.outcome import outcome_of
from recovery.workflow import backups, corrections, noted_files, refreshed, reviewed, topics
from recovery.workflow import evidence as reading
from recovery.workflow.flow_snapshot import FlowSnapshot, other_fingerprints, read_flow_snapshot
from recovery.workflow.learning import note_proven
from recovery.workflow.noted_version import read_noted_version, require_noted_version
from recovery.workflow.readers import Readers
from recovery.workflow.steps import rerun
from recovery.workflow.steps.base import Context, ProbeOutcome, StepWait, saw

SECONDS = 3600


def run(context: Context) -> StepWait | VerifyResult:
    """Measure, then start the further update; a criterion not measured never passes. Rows that were added or
    deleted without an update need no further one.

    A further update that an attempt before has noted, and that no one has read back, is waited for. One that it started
    and could not note may run beside or before a second one: neither may add anything.
    """
    if context.contents.corrects_table:
        return _measure_correction(context)
    kept = codec.read(VerifyResult, context.step.result)
    if kept.further and kept.before_further:
        return StepWait()
    steps = _steps(context)
    if "rerun" not in steps or "stop" not in steps:
        raise Refused("The rerun has not ended, so there is nothing to verify yet.")
    snapshot = read_flow_snapshot(context.flow, known=context.contents.table_places)
    reran = codec.read(UpdateResult, steps["rerun"].result)
    refresh = codec.read(UpdateResult, steps["refresh"].result) if "refresh" in steps else UpdateResult()
    standstill = codec.read(StandstillResult, steps["stop"].result)
    reviewed.require_unchanged(
        context.contents, snapshot.spec, snapshot.code, snapshot.client, so="Nothing was measured."
    )
    reviewed.require_reviewed_code_ran(context.contents, context.client, context.pipeline_id, reran.started)
    readers = Readers(lambda: snapshot)
    before = steps.get("restore", steps["stop"])  # a table that was put back is measured from there
    stood = noted_files.read_noted_files(before, place=snapshot.table_place)
    evidence = reading.collect(
        snapshot,
        context.contents,
        readers,
        seen=reran.listed,
        sink_before=stood.files,
        version_before=_read_version_before(context, steps),
        topic_before=standstill.topic,
        marks_before=stood.marks,
        update_ids=reran.started,
        filled=_filled(context, steps),
    )
    context.log("Measured on Spark in a fresh session: " + _counts(evidence))
    reviewed.require_reviewed_code_ran(context.contents, context.client, context.pipeline_id, refresh.started)
    evidence = replace(
        evidence,
        below=refreshed.measure_refreshed(snapshot, context.plan, refresh),
    )
    measured = _before(context, snapshot, evidence, reading.read_inputs(context.contents, readers))
    context.watch.keep(VerifyResult(noted_files=_noted(context, snapshot)))
    _start_further(context, measured)
    return StepWait()


def _measure_correction(context: Context) -> VerifyResult:
    """The whole table, and what was added to it or deleted. Raises Refused where something else wrote the table."""
    contents, steps = context.contents, _steps(context)
    if not {"stop", contents.changing_step.value} <= steps.keys():
        raise Refused("The table was not changed yet, so there is nothing to verify.")
    standstill = codec.read(StandstillResult, steps["stop"].result)
    version = require_noted_version(context.step)
    if strange := corrections.written_by_others(context.plan, version):
        raise Refused(
            f"Version {strange[0]} of the table was written by something else since the plan, so it is not known "
            "who wrote which rows. Find the writer, then roll back or end without proof.",
            code="written_by_others",
        )
    snapshot = read_flow_snapshot(context.flow, known=contents.table_places)
    refresh = codec.read(UpdateResult, steps["refresh"].result) if "refresh" in steps else UpdateResult()
    reviewed.require_unchanged(
        contents, snapshot.spec, snapshot.code, snapshot.client, so="Nothing was measured."
    )
    reviewed.require_reviewed_code_ran(contents, context.client, context.pipeline_id, refresh.started)
    evidence = corrections.collect(
        snapshot,
        contents,
        version=version,
        others_before=refreshed.without_refreshed(context.plan, standstill.others),
        others_after=refreshed.without_refreshed(context.plan, other_fingerprints(snapshot)),
    )
    context.log("Measured on Spark in a fresh session: " + _counts(evidence))
    evidence = replace(evidence, below=refreshed.measure_refreshed(snapshot, context.plan, refresh))
    verdict = judge(contents.strategy, contents.criteria, evidence, edition=contents.proof)
    _log_verdict(context, verdict)
    outcome = outcome_of(contents.forecast, contents.criteria, evidence)
    return _result_of(verdict, outcome, _below(context, evidence))


def _result_of(
    verdict: Verdict,
    outcome: MeasuredOutcome,
    measured_below: MeasuredBelow,
    before: BeforeFurther | None = None,
) -> VerifyResult:
    """What the step keeps: the proof as of now. `before`: what was measured before the further update."""
    measured = Measured(
        **dict(verdict), at=timezone.now().isoformat(), **dict(outcome), **dict(measured_below)
    )
    if before is not None:
        came = {"reached": before.reached, "last_batch": before.last_batch}
        measured = measured.model_copy(update=came)
    return VerifyResult(measured=measured, before_further=None)


def _log_verdict(context: Context, verdict: Verdict) -> None:
    for judged in verdict.criteria:
        word = {True: "holds", False: "does NOT hold", None: "could not be measured"}[judged.ok]
        context.log(f"{judged.code} {word}. {judged.why}")


def _steps(context: Context) -> dict[str, Step]:
    """Those of the plan that are done."""
    return {s.kind: s for s in context.recovery.steps.filter(plan=context.plan, state="done")}


def _read_version_before(context: Context, steps: Mapping[str, Step]) -> int | None:
    """The version of the table right before the rerun; None: of one that counts no commits."""
    if "restore" in steps:
        return codec.read(RestoreResult, steps["restore"].result).sink_version
    return read_noted_version(context.recovery, context.plan)


def _filled(context: Context, steps: dict[str, Step]) -> tuple[TableBackupResult, FillResult] | None:
    """The backup and the fill of a plan that has them. Raises Refused where one of both is not done."""
    if not any(step.kind is StepKind.FILL for step in context.contents.steps):
        return None
    if StepKind.TABLE_BACKUP not in steps or StepKind.FILL not in steps:
        raise Refused("The fill has not ended, so there is nothing to verify yet.")
    backup = codec.read(TableBackupResult, steps[StepKind.TABLE_BACKUP].result)
    if strange := backups.find_strange(context.plan, backup):
        raise Refused(
            f"Version {strange[0]} of the table was written by something else since it was backed up, so it is not "
            "known who wrote which rows. Find the writer, then roll back or end without proof.",
            code="written_by_others",
        )
    return backup, codec.read(FillResult, steps[StepKind.FILL].result)


def _before(
    context: Context, snapshot: FlowSnapshot, evidence: Evidence, listed: Mapping[str, InputMark]
) -> BeforeFurther:
    contents, measure = context.contents, evidence.measure
    declared = contents.sink.is_declared
    verdict = judge(contents.strategy, contents.criteria, evidence, edition=contents.proof)
    return BeforeFurther(
        verdict=verdict,
        outcome=outcome_of(contents.forecast, contents.criteria, evidence),
        below=_below(context, evidence),
        rows=None if measure is None else measure.new_rows if declared else measure.table_rows,
        listed=listed,
        version=None if declared else snapshot.sink.version,
        files=(),
        ends=topics.read_ends(snapshot) if declared else None,
        strange=None if measure is None else measure.strange,
        positions=tuple(source.offset_json for source in snapshot.checkpoint.sources),
        reached=reading.list_reached(snapshot.checkpoint, contents),
        last_batch=snapshot.checkpoint.last_committed,
        together=refreshed.read_together(context.plan, snapshot),
    )


def _noted(context: Context, snapshot: FlowSnapshot) -> NotedFiles:
    """The table's data files before the further update; a table that counts its commits tells them by its log."""
    by_log = context.contents.sink.is_declared or snapshot.sink.version is not None
    files = () if by_log else data_files(snapshot.sink)
    return noted_files.keep(context.step, files, None, place=snapshot.table_place)


def _start_further(context: Context, before: BeforeFurther) -> None:
    contents = context.contents
    reviewed.require_workspace_unchanged(
        contents, context.client, context.pipeline_id, so="Nothing further was started."
    )
    context.watch.keep(VerifyResult(before_further=before))
    context.watch.guard()
    tables = [] if contents.sink.is_declared else [contents.dataset]
    update_id = context.client.start_update(context.pipeline_id, **rerun.selected(tables))
    context.watch.keep(VerifyResult(further=update_id))
    context.log(f"Further {context.run_noun} {update_id} accepted; it must add nothing.")
    if request := context.client.asks_of_people(context.pipeline_id, update_id):
        context.log(request)


def find_end(context: Context) -> str | None:
    """How the further update has ended; None while it runs."""
    return rerun.find_end_of(context, str(codec.read(VerifyResult, context.step.result).further))


def go_on(context: Context, ended: str) -> VerifyResult:
    """Measure what the further update did, then the other places, and judge."""
    contents, kept = context.contents, codec.read(VerifyResult, context.step.result)
    update_id, before = str(kept.further), kept.before_further
    assert before is not None, "it is kept before the further update is asked for"
    context.watch.keep(VerifyResult(further=None))
    if ended != "COMPLETED" and (who := context.held_by):
        raise Refused(f"{who} stopped the run during its proof. Resume to measure again.")
    if ended == "FAILED" and rerun.is_cut(context.client, context.pipeline_id, update_id):
        raise Interrupted(
            f"The further {context.run_noun} {update_id} was cut off. It proves nothing; measure again."
        )
    if ended == "FAILED" and was_unseen(
        context.client.events(context.pipeline_id, filter=f"update_id = '{update_id}'")
    ):
        ended = UNSEEN
    reviewed.require_reviewed_code_ran(contents, context.client, context.pipeline_id, [update_id])
    snapshot = read_flow_snapshot(context.flow, known=contents.table_places)
    readers = Readers(lambda: snapshot)
    others_before, others_after = _others(context, snapshot, before)
    evidence = Evidence(
        scope=reading.scope_of(contents),
        old=None,
        new=None,
        listed=None,
        first_batch=None,
        sink_before=None,
        sink_after=None,
        measure=Measure(strange=before.strange),
        further=_further(context.step, snapshot, contents, before, readers, ended),
        others_before=others_before,
        others_after=others_after,
    )
    verdict = complete_verdict(before.verdict, contents.criteria, evidence)
    _log_verdict(context, verdict)
    if verdict.verified:
        note_proven(snapshot, readers)
    return _result_of(verdict, before.outcome, before.below, before)


def _others(
    context: Context, snapshot: FlowSnapshot, before: BeforeFurther
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Fingerprints of the places that the plan leaves alone: since its stop; of what plans that run together with it
    write, since the further update was started."""
    plan, now = context.plan, other_fingerprints(snapshot)
    stood = codec.read(StandstillResult, _steps(context)["stop"].result).others
    was, after = refreshed.without_refreshed(plan, stood), refreshed.without_refreshed(plan, now)
    if before.together is None:
        return was, after
    return {**was, **before.together}, after | refreshed.of_together(plan, now)


def _further(
    step: Step,
    snapshot: FlowSnapshot,
    contents: PlanBody,
    before: BeforeFurther,
    readers: Readers,
    ended: str,
) -> FurtherUpdate:
    noted = codec.read(VerifyResult, step.result).noted_files is not None
    files = noted_files.read_noted_files(step, place=snapshot.table_place).files if noted else before.files
    return FurtherUpdate(
        state=ended,
        rows_before=before.rows,
        rows_after=_rows_after(snapshot, contents, before) if ended == "COMPLETED" else None,
        files_before=(),
        files_after=reading.changed_since(snapshot, contents, version=before.version, files=files),
        arrived=reading.perhaps_read(
            snapshot.checkpoint, reading.arrived(before.listed, reading.read_inputs(contents, readers))
        ),
        waited=reading.read_since(snapshot.checkpoint, before.positions),
    )


def _rows_after(snapshot: FlowSnapshot, contents: PlanBody, before: BeforeFurther) -> int | None:
    """Rows of the table; of a topic, its records since the rerun began."""
    if not contents.sink.is_declared:
        return reading.table_rows(snapshot, contents.dataset)
    if before.rows is None:
        return None
    came = topics.count_between(snapshot, before.ends, topics.read_ends(snapshot))
    return None if came is None else before.rows + came


def _counts(evidence: Evidence) -> str:
    found = evidence.measure
    if found is None or found.problem:
        return found.problem if found and found.problem else "nothing could be compared."
    counts = f"{found.new_rows} new rows, {found.expected_rows} expected"
    return f"{counts}, {found.missing} missing, {found.extra} too many."


def _below(context: Context, evidence: Evidence) -> MeasuredBelow:
    """What became of each dataset downstream, and what the plan leaves behind."""
    left_behind = context.contents.forecast.left_behind
    return MeasuredBelow(downstream=tuple(evidence.below or ()), left_behind=left_behind)


def probe(step: Step) -> ProbeOutcome:
    """Nothing to find out: measuring again is safe."""
    return ProbeOutcome("again", [saw(True, "This step measures; doing it again changes nothing.")])
