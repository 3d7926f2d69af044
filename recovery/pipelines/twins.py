"""Flows of a pipeline that run under one query id: their checkpoints are copies of each other. Pure: no I/O.

Of two queries with one id Spark stops the older one when the younger starts, without an error (`stopActiveRunOnRestart`
of StreamingQueryManager): its update completes, and it has read less than there was.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from recovery.models import Flow
from recovery.pipelines import events as log
from recovery.pipelines.losses import GIVES_WAY, QUERY_ID_SHARED


def over(
    folded: Mapping[str, dict[str, Any]], rows: Mapping[str, Flow], updates: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """`folded`: new values of each flow's row, by name; with the state of those that share a query id.

    The id is that of the newest progress, so a flow with a new checkpoint has its own once it has run. A flow that the
    newest update does not know is not asked: the code no longer has it.
    """
    defined = set((updates[0].get("flows") or {}) if updates else {}) or set(folded)
    users: dict[str, list[str]] = {}
    for name in folded:
        if name in defined and (query_id := _query_id(folded[name], rows.get(name))):
            users.setdefault(query_id, []).append(name)
    found = dict(folded)
    for name in (one for several in users.values() if len(several) > 1 for one in several):
        if not found[name].get("failure_memory") and not found[name].get("condition"):
            found[name] = found[name] | _fields(name, found[name]["state"], rows.get(name), updates)
    return found


def _query_id(values: Mapping[str, Any], row: Flow | None) -> str:
    progress = values.get("last_progress", row.last_progress if row else {})
    return str(progress.get("id") or "") if isinstance(progress, Mapping) else ""


def _fields(flow: str, state: str, row: Flow | None, updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ran = next((u for u in updates if flow in (u.get("flows") or {})), {})
    known = row is not None and row.condition == QUERY_ID_SHARED
    return {
        "state": "failed" if state in GIVES_WAY else state,
        "failing_since": row.failing_since if row is not None and known else _time(ran, flow),
        "failed_update": row.failed_update
        if row is not None and known
        else str(ran.get("update_id") or "")[:80],
        "condition": QUERY_ID_SHARED,
        "error": [],
    }


def _time(update: Mapping[str, Any], flow: str) -> datetime | None:
    own = (update.get("flows") or {}).get(flow) or {}
    return log.when(own.get("at") or update.get("ended_at")) or log.when(update.get("creation_time"))
