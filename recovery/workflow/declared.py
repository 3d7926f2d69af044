"""A flow that writes to a sink which its code declares (create_sink), and to no table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recovery.checkpoints.report import CheckpointReport
from recovery.errors import Refused
from recovery.models import Flow, Stream
from recovery.pipelines.failing import is_gone
from recovery.sinks.base import SinkReport
from recovery.sinks.live import reading as sinks
from recovery.spark.api import Study
from recovery.strategies.base import CoUpdatedFlow

Code = Mapping[str, str]


@dataclass(frozen=True)
class DeclaredSink:
    """`told`: the sink as the code declares it, secrets included. `place`: of a table by its path, else "".

    `checkpoint`: as judged beside that table.
    """

    told: Mapping[str, Any]
    place: str
    sink: SinkReport
    checkpoint: CheckpointReport


def find_declared_sink(
    dataset: str,
    report: CheckpointReport,
    inspect: Callable[[str], CheckpointReport],
    ask: Callable[[Code], Study],
    codes: tuple[Callable[[], Code | None], ...],
) -> DeclaredSink:
    """The sink of a flow that has no table, by the first of `codes` (today's, the last good one) that tells of it.
    `inspect`: the flow's checkpoint beside the sink at a place.

    Raises Refused where none does, Unreachable where the sink does not answer.
    """
    told, problem = None, ""
    for code in codes:
        if (files := code()) is None:
            continue
        answer = ask(files)
        told, problem = answer.sink, problem or answer.problem or ""
        if answer.operators is not None:
            break
    if told is None:
        why = f" The code could not be analysed: {problem}" if problem else ""
        raise Refused(
            f"Table {dataset} does not exist in Spark's catalog, and the code declares no sink of that name, so "
            f"there is nothing to recover into.{why}"
        )
    place = sinks.place_of(told)
    if place:
        report = inspect(place)
    found = sinks.read_declared_sink(told, query_id=report.query_id, failed_ms=open_since(report))
    return DeclaredSink(told, place, found, report)


def open_since(report: CheckpointReport) -> int | None:
    """When the oldest batch was planned that was never committed, in ms; None: no batch is open, 0: not known."""
    last = -1 if report.last_committed is None else report.last_committed
    begun = [b.get("timestamp_ms") for b in report.batches if b["batch"] > last and not b.get("committed")]
    return min((ms or 0 for ms in begun), default=None)


def find_streams_beside(flow: Flow) -> tuple[CoUpdatedFlow, ...]:
    """Other plain streams that are queries of the same program: a start of one starts all. None for a pipeline."""
    stream = Stream.objects.filter(pipeline=flow.pipeline_id).first()
    if stream is None or not stream.program:
        return ()
    others = Flow.objects.filter(
        pipeline__workspace=flow.pipeline.workspace_id,
        pipeline__gone=False,
        pipeline__stream__program=stream.program,
        pipeline__stream__arguments=stream.arguments,
    )
    beside = others.exclude(pk=flow.pk).order_by("short", "name")
    return tuple(CoUpdatedFlow(other.name, other.dataset, other.short) for other in beside)


def find_flows_beside(flow: Flow) -> tuple[CoUpdatedFlow, ...]:
    """Other flows of the pipeline: an update that is not limited to tables runs them too, whatever is known of them."""
    updates = flow.pipeline.updates
    others = flow.pipeline.flows.exclude(pk=flow.pk).order_by("short", "name")
    return tuple(
        CoUpdatedFlow(one.name, one.dataset, one.short)
        for one in others
        if one.state != "unknown" or not any(is_gone(update, one.name) for update in updates)
    )
