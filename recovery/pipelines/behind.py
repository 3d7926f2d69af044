"""Lays over the flows of the inventory which of their datasets are behind (`downstream`): stale or empty, never ok."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from recovery.models import Flow
from recovery.pipelines.downstream import (
    BehindReason,
    BehindSince,
    BehindState,
    DatasetFreshness,
    Node,
    standings,
)
from recovery.pipelines.flow_values import FlowValues

NOT_OK: Final = ("failed", "empty", "stale", "unknown")
"""States of a flow that somebody has to look at."""

NOT_BEHIND: Final[FlowValues] = {"behind_since": None, "behind_why": "", "behind_update": ""}

OVERLAID: Final = {BehindState.EMPTY: ("ok", "stopped", "unknown"), BehindState.STALE: ("ok",)}
"""Which states of a flow give way: a failure, a run and a stop that a person made say more than being stale does."""


def node_of(flow: Flow) -> Node:
    """A row of the inventory as a node of the graph."""
    return Node(flow.name, flow.dataset, _names(flow.inputs), flow.flow_type, flow.pipeline_id)


def behind_of(flow: Flow) -> BehindSince | None:
    """What the row keeps."""
    if not flow.behind_why:
        return None
    return BehindSince(flow.behind_since, BehindReason(flow.behind_why), flow.behind_update)


def standing_of(flow: Flow) -> DatasetFreshness:
    """What the row keeps of how current its dataset is."""
    return DatasetFreshness(behind_of(flow), flow.good_at, flow.renewed_at, flow.rewritten_at)


def since_of(flow: Flow) -> datetime | None:
    """Since when a flow is as it is, where it is not as it should be."""
    if flow.state == "failed":
        return flow.failing_since
    return flow.behind_since if flow.state in tuple(BehindState) else None


def over(
    folded: Mapping[str, FlowValues],
    rows: Mapping[str, Flow],
    updates: Sequence[Mapping[str, Any]],
    elsewhere: Mapping[str, DatasetFreshness],
) -> dict[str, FlowValues]:
    """`folded`: new values of each flow's row, by name; with those of being behind, and the state that follows.

    `elsewhere`: how datasets stand that other pipelines write (`across.standings_elsewhere`), by name.
    """
    nodes = nodes_of(folded, rows)
    known = {name: standing_of(row) for name, row in rows.items()}
    standing = standings(updates, nodes, known, elsewhere)
    return {name: {**values, **_fields(values["state"], standing[name])} for name, values in folded.items()}


def nodes_of(folded: Mapping[str, FlowValues], rows: Mapping[str, Flow]) -> list[Node]:
    """The graph of one pipeline, by new values of its flows' rows over those that are kept."""
    return [_node(name, values, rows.get(name)) for name, values in folded.items()]


def without_overlay(state: str) -> str:
    """What a flow's state is without being stale, which shows over *ok* alone."""
    return "ok" if state == BehindState.STALE else state


def _node(name: str, values: Mapping[str, object], row: Flow | None) -> Node:
    def value(field: str, absent: Any) -> Any:
        return values.get(field, getattr(row, field) if row else absent)

    return Node(name, value("dataset", ""), _names(value("inputs", ())), value("flow_type", ""))


def _names(inputs: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(i.get("name", i)) if isinstance(i, dict) else str(i) for i in inputs or ())


def _fields(state: str, standing: DatasetFreshness) -> FlowValues:
    moments: FlowValues = {
        "good_at": standing.good_at,
        "renewed_at": standing.renewed_at,
        "rewritten_at": standing.rewritten_at,
    }
    behind = standing.behind
    if behind is None:
        return {**moments, **NOT_BEHIND}
    kept: FlowValues = {
        **moments,
        "behind_since": behind.since,
        "behind_why": behind.why.value,
        "behind_update": behind.update[:80],
    }
    return {**kept, "state": behind.state.value} if state in OVERLAID[behind.state] else kept
