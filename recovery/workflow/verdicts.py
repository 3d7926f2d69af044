"""Reads what the one verdict on a flow rests on: its row, its open recovery, its checkpoint."""

from collections.abc import Sequence
from dataclasses import replace

from django.db import DatabaseError

from recovery.checkpoints import list_versions
from recovery.checkpoints.findings import advise_program
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.uris import spell_place
from recovery.contracts.diagnosis import Storage
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.updates import CONDITIONS_WITHOUT_ERROR
from recovery.diagnosis import operators as ops
from recovery.diagnosis.judgement import title_by_error
from recovery.diagnosis.platforms import PlatformSupport, WrittenKind
from recovery.diagnosis.verdict import FlowVerdict, judge_flow
from recovery.errors import Refused
from recovery.models import Flow, Recovery
from recovery.numbers import whole
from recovery.pipelines.sink_descriptions import SinkClass, read_sink
from recovery.workflow.neighbours import find_shared_storage, writes_files
from recovery.workflow.outdated import gathered_after, last_rerun
from recovery.workflow.places import checkpoint_of

SINKS = {
    SinkClass.FILES: WrittenKind.FILES,
    SinkClass.DELTA: WrittenKind.DELTA,
    SinkClass.KAFKA: WrittenKind.OTHER,
}


def verdict_on(flow: Flow, report: CheckpointReport, *, recovery: Recovery | None, root: str) -> FlowVerdict:
    """The verdict on a flow over a report of its checkpoint, which lies in `root`. `recovery`: its open one."""
    is_silent = flow.condition in CONDITIONS_WITHOUT_ERROR
    why = title_of(flow, recovery) if flow.state == "failed" else ""
    return judge_flow(
        _fit_program(report) if flow.pipeline.workspace.has_streams else report,
        code=code_operators(flow, recovery),
        failed=flow.state == "failed" and not is_silent,
        why_failed="" if is_silent else why,
        why_lost=why if is_silent else "",
        others=find_shared_storage(flow, root, file_table=writes_files(flow)),
        file_table=writes_files(flow),
    )


def _fit_program(report: CheckpointReport) -> CheckpointReport:
    """The report with what can be done of a plain program's checkpoint."""
    fitted = (replace(f, do=advise_program(f.code, f.do)) for f in report.findings)
    return replace(report, findings=tuple(fitted))


def code_operators(flow: Flow, recovery: Recovery | None) -> Sequence[str] | None:
    """Spark's names of the stateful operators of the flow's code; None: not known.

    As the open recovery studied the code, or as its plan was sealed where that ran since; else as Spark named them when
    it refused that code.
    """
    known = _operators_of(recovery) if recovery else None
    if known is not None:
        return list(known)
    if flow.state != "failed":
        return None
    return ops.from_text("\n".join(error.message for error in flow.causes)).code


def _operators_of(recovery: Recovery) -> Sequence[str] | None:
    """Those of the code that ran last, by the recovery's facts or by the plan that it has run; None: not known.

    Facts hold until a rerun begins; then those of the sealed code, where the rerun is done. Plans sealed before hold
    none.
    """
    gathered = recovery.gathered if recovery.gathering.status == "ready" else GatheredFacts()
    last = last_rerun(recovery)
    if last is None or last.started_at is None or gathered_after(gathered, last.started_at):
        return gathered.code_operators
    return last.plan.contents.code_operators if last.state == "done" and last.plan else None


def title_of(flow: Flow, recovery: Recovery | None = None) -> str:
    """What is wrong with a failed flow, in one sentence: of its open recovery, else of its error alone. Reads no
    storage; "" where the error is not one that is known."""
    if recovery is not None and (title := recovery.diagnosis_value.title):
        return title
    return title_by_error(flow.causes, flow.condition)


def known_flow(report: CheckpointReport) -> tuple[Flow, str] | None:
    """The flow of the inventory whose checkpoint in use was inspected, and where it lies; None where there is none.

    An inspection needs no instance: without its database the checkpoint alone is judged.
    """
    if report.format == "none":
        return None
    place = spell_place(report.location)
    above, _, last = place.rpartition("/")
    number = whole(last)  # of a version; a checkpoint with a fixed place has none
    root = place if number is None else above
    try:
        flows = list(
            Flow.objects.filter(streaming=True, pipeline__gone=False).select_related("pipeline__workspace")
        )
    except DatabaseError:
        return None
    for flow in flows:
        try:
            there = checkpoint_of(flow)
        except Refused:
            continue  # its workspace manages the checkpoint, or it never ran
        if spell_place(there) == root:
            in_use = number is None or number == max(list_versions(there), default=number)
            return (flow, there) if in_use else None
    return None


def where_of(flow: Flow) -> PlatformSupport:
    """What the flow's workspace and sink let one do."""
    reached = flow.pipeline.workspace.has_streams or flow.pipeline.spec.get("storage")
    return PlatformSupport(
        storage=Storage.REACHABLE if reached else Storage.MANAGED,
        sink=SINKS.get(read_sink(flow.last_progress).kind, WrittenKind.UNKNOWN),
        pipeline_id=flow.pipeline.pipeline_id,
        flow=flow.name,
        program=flow.pipeline.workspace.has_streams,
    )
