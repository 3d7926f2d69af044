"""Flows that run under one query id: their checkpoints are copies of each other. Pure: no I/O.

Of two queries with one id Spark stops the older one when the younger starts, without an error (`stopActiveRunOnRestart`
of StreamingQueryManager): its update completes, and it has read less than there was.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from recovery.contracts.updates import QUERY_ID_SHARED, FlowInUpdate
from recovery.models import Flow
from recovery.pipelines import events as log
from recovery.pipelines.flow_values import FlowValues
from recovery.pipelines.losses import GIVES_WAY


def over(
    folded: Mapping[str, FlowValues],
    rows: Mapping[str, Flow],
    updates: Sequence[Mapping[str, Any]],
    elsewhere: Collection[str] = (),
) -> dict[str, FlowValues]:
    """`folded`: new values of each flow's row, by name; with the state of those that share a query id.

    The id is that of the newest progress, so a flow with a new checkpoint has its own once it has run. A flow that the
    newest update does not know is not asked: the code no longer has it. `elsewhere`: query ids of flows of other
    pipelines. Whether those run in the same Spark application is not known, so whether rows are missing is not either.
    """
    defined = set((updates[0].get("flows") or {}) if updates else {}) or set(folded)
    users: dict[str, list[str]] = {}
    for name, query_id in query_ids(folded, rows).items():
        if name in defined:
            users.setdefault(query_id, []).append(name)
    values_by_flow = dict(folded)
    for query_id, names in users.items():
        if len(names) == 1 and query_id not in elsewhere:
            continue
        for name in names:
            if not values_by_flow[name].get("failure_memory") and not values_by_flow[name].get("condition"):
                fields = (
                    _fields(name, values_by_flow[name]["state"], rows.get(name), updates)
                    if len(names) > 1
                    else _fields_elsewhere(name, values_by_flow[name]["state"], updates)
                )
                values_by_flow[name] = {**values_by_flow[name], **fields}
    return values_by_flow


def query_ids(folded: Mapping[str, FlowValues], rows: Mapping[str, Flow]) -> dict[str, str]:
    """The query id of each flow that has one, by name: of its new values, else of its row."""
    kept = {name: row.query_id for name, row in rows.items()}
    id_by_flow = {name: str(values.get("query_id", kept.get(name, ""))) for name, values in folded.items()}
    return {name: query_id for name, query_id in id_by_flow.items() if query_id}


def _fields(flow: str, state: str, row: Flow | None, updates: Sequence[Mapping[str, Any]]) -> FlowValues:
    ran = _newest_run(flow, updates)
    # a row that shared its id with another pipeline alone has no such time yet
    known = row is not None and row.condition == QUERY_ID_SHARED and row.failing_since is not None
    return {
        "state": "failed" if state in GIVES_WAY else state,
        "failing_since": row.failing_since if row is not None and known else _time(ran, flow),
        "failed_update": row.failed_update
        if row is not None and known
        else str(ran.get("update_id") or "")[:80],
        "condition": QUERY_ID_SHARED,
        "error": [],
    }


def _fields_elsewhere(flow: str, state: str, updates: Sequence[Mapping[str, Any]]) -> FlowValues:
    return {
        "state": "unknown" if state in GIVES_WAY else state,
        "failing_since": None,
        "failed_update": str(_newest_run(flow, updates).get("update_id") or "")[:80],
        "condition": QUERY_ID_SHARED,
        "error": [],
    }


def _newest_run(flow: str, updates: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((u for u in updates if flow in (u.get("flows") or {})), {})


def _time(update: Mapping[str, Any], flow: str) -> datetime | None:
    own = FlowInUpdate.read(update, flow)
    return log.when(own.at or update.get("ended_at")) or log.when(update.get("creation_time"))
