"""Joins what the pure diagnosis needs: the failure's causes, the checkpoint, the code then and now."""

from recovery import reach
from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.repair import UnrepairedDamage, find_lost_offsets
from recovery.checkpoints.report import CheckpointReport
from recovery.contracts.diagnosis import Diagnosis
from recovery.diagnosis import diagnose_failure
from recovery.diagnosis.platforms import PlatformSupport
from recovery.errors import Refused, RepriseError
from recovery.models import Flow, Pipeline, Stream
from recovery.pipelines.failures import UpdateFailure
from recovery.pipelines.losses import is_in_doubt
from recovery.pipelines.sink_descriptions import read_sink
from recovery.pipelines.workspaces import client_for
from recovery.strategies.catalogue import FOR_HEALTHY
from recovery.workflow.deployed import last_good_source, read_code
from recovery.workflow.places import checkpoint_of
from recovery.workflow.verdicts import where_of


@reach.of_flow
def diagnose_flow(flow: Flow) -> Diagnosis:
    """The diagnosis of a flow's last failure.

    What cannot be read (storage, code) makes it say less, never fail: the error itself is known.
    """
    old, new = _code(flow)
    report = _report_with_table(flow) or _report(flow)
    return diagnose_failure(
        causes=flow.causes,
        report=report,
        unrepaired=_find_unrepaired(flow, report),
        old_text=old,
        new_text=new,
        condition=flow.condition,
        where=where_of(flow),
    )


@reach.of_flow
def may_need_recovery(flow: Flow) -> bool:
    """Has a flow something to recover from though none of its runs is known to have failed? What its updates did shows
    it (`CONDITIONS_WITHOUT_ERROR`). Of a plain stream: its checkpoint is damaged, no log tells of its runs, or its last
    run was cut off, as by a kill: whether the next one starts is not known then."""
    if is_in_doubt(flow):
        return True
    if not flow.pipeline.workspace.has_streams or flow.state in ("failed", "running"):
        return False
    report = _report(flow)
    return flow.state in ("unknown", "stopped") or (report is not None and bool(report.blockers))


def diagnose_broken(flow: Flow) -> Diagnosis | None:
    """The diagnosis of a flow that failed, or may need a recovery; None of any other."""
    is_broken = flow.state == "failed" or may_need_recovery(flow)
    return diagnose_flow(flow) if is_broken else None


def refuse_healthy(flow: Flow) -> Refused:
    """The refusal of a flow that has no failure."""
    is_plain = flow.pipeline.workspace.has_streams
    ways = "continue, with --position" if is_plain else " or ".join(FOR_HEALTHY)
    name = flow.pipeline.pipeline_id
    running = f" Stop it first: bin/manage stop {name} --healthy." if flow.state == "running" else ""
    return Refused(
        f"{flow.short} is {'healthy' if flow.state == 'ok' else flow.state}, so there is no failure to recover "
        f"from. Nothing was opened. To go back in it anyway, name a strategy: {ways}.{running}",
        code="healthy",
    )


def diagnose_pipeline(pipeline: Pipeline, failure: UpdateFailure) -> Diagnosis:
    """The diagnosis of a pipeline whose newest update failed before its flows, or next to them."""
    where = PlatformSupport(program=pipeline.workspace.has_streams)
    return diagnose_failure(causes=failure.causes, condition=failure.condition, of_flow=False, where=where)


def _report(flow: Flow, *, sink: str | None = None) -> CheckpointReport | None:
    try:
        return inspect_checkpoint(checkpoint_of(flow), sink=sink)
    except RepriseError:
        return None


def _report_with_table(flow: Flow) -> CheckpointReport | None:
    """Of a plain stream, with its checkpoint compared with its table; None where the table is not known or not read."""
    if not flow.pipeline.workspace.has_streams:
        return None
    place = read_sink(flow.last_progress).place or Stream.objects.get(pipeline=flow.pipeline).sink
    return _report(flow, sink=place) if place else None


def _find_unrepaired(flow: Flow, report: CheckpointReport | None) -> tuple[UnrepairedDamage, ...]:
    try:
        return () if report is None else find_lost_offsets(checkpoint_of(flow), report)
    except RepriseError:
        return ()


def _code(flow: Flow) -> tuple[str, str]:
    """The definition files of the last good update and of today, each as one text; empty where not known."""
    try:
        client = client_for(flow.pipeline.workspace)
        libraries, now = read_code(client, flow.pipeline.spec)
        good = last_good_source(client, flow.pipeline.pipeline_id)
    except RepriseError:
        return "", ""
    if good is None:
        return "", ""
    return "\n".join(good.get(p, "") for p in libraries), "\n".join(now[p] for p in libraries)
