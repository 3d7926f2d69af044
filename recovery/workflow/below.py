"""The datasets downstream of a flow, as the inventory knows them before a plan is made. Asks no workspace."""

from recovery.models import Flow
from recovery.pipelines import across
from recovery.pipelines.behind import behind_of
from recovery.pipelines.downstream import VIEWS, BehindReason, BehindState, Node
from recovery.strategies.readers import DownstreamReader


def readers_of(flow: Flow) -> tuple[DownstreamReader, ...]:
    """What reads the flow's table, straight or through others, in any pipeline of its workspace; in an order in which
    it can run."""
    found = across.flows_below(flow)
    own = {flow.dataset, *(node.dataset for node, _ in found)}
    beside = {name for node, _ in found for name in node.inputs} - own
    late = {
        row.dataset
        for row in across.flows_of(flow.pipeline.workspace_id).filter(dataset__in=beside)
        if _late(row)
    }
    return tuple(_reader(row, node, flow, late) for node, row in found)


def _late(row: Flow) -> bool:
    """Does a dataset not show what it is computed from? One whose flow fails may be behind its own source alone."""
    return row.state in tuple(BehindState) or bool(row.behind_why)


def _reader(row: Flow, node: Node, flow: Flow, late: set[str]) -> DownstreamReader:
    behind = behind_of(row)
    return DownstreamReader(
        dataset=row.dataset,
        flow=row.name,
        view=row.flow_type in VIEWS,
        state=row.state,
        pipeline="" if row.pipeline_id == flow.pipeline_id else row.pipeline.name,
        emptied=behind is not None and behind.why is BehindReason.EMPTIED,
        inputs=node.inputs,
        late_inputs=tuple(name for name in node.inputs if name in late),
    )
