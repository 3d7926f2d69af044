"""Folds updates and their events into what the inventory keeps of a flow. Pure: no I/O, no database.

A flow fails until an update completes it: a stopped or skipped run in between proves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from recovery.diagnosis import condition_of
from recovery.pipelines import events as log

TERMINAL: Final = frozenset({"COMPLETED", "FAILED", "CANCELED"})
HISTORY: Final = 5
"""How many updates of a flow are kept and shown."""

LATE: Final = timedelta(minutes=2)
"""Events of an update that is over may still come in for this long, unless its last one is already there."""


@dataclass
class Reading:
    """What the events of one update say. `update` is the API's UpdateInfo. settled: nothing more will come."""

    update: Mapping[str, Any]
    definitions: Mapping[str, log.Definition] = field(default_factory=dict)
    statuses: Mapping[str, log.FlowStatus] = field(default_factory=dict)
    progress: Mapping[str, log.Progress] = field(default_factory=dict)
    causes: Sequence[Mapping[str, str]] = ()
    settled: bool = True

    @property
    def id(self) -> str:
        return str(self.update.get("update_id") or "")

    @property
    def over(self) -> bool:
        return self.update.get("state") in TERMINAL


def read(update: Mapping[str, Any], events: Sequence[Mapping[str, Any]], *, now: datetime) -> Reading:
    """Read the events of one update; `causes` only when it failed and no flow of it did."""
    statuses = log.statuses(events)
    flow_failed = any(s.status == "FAILED" for s in statuses.values())
    return Reading(
        update=update,
        definitions=log.definitions(events),
        statuses=statuses,
        progress=log.progress(events),
        causes=log.failure_of(events) if update.get("state") == "FAILED" and not flow_failed else (),
        settled=_settled(update, events, now),
    )


def _settled(update: Mapping[str, Any], events: Sequence[Mapping[str, Any]], now: datetime) -> bool:
    ended = any(
        e.get("event_type") == "update_progress" and log.details(e).get("state") in TERMINAL for e in events
    )
    newest = max((at for e in events if (at := log.when(e.get("timestamp")))), default=None)
    newest = newest or log.when(update.get("creation_time"))
    return ended or newest is None or now - newest > LATE


def real(updates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The newest updates that ran data (a validation runs none), newest first."""
    return [u for u in updates if not u.get("validate_only")][:HISTORY]


def outcome(status: str, state: str) -> str:
    """What an update that is over did for a flow: ok, failed, stopped, or none (it had no part)."""
    if status in log.NOT_RUN or not status:
        return "none"
    if status == "FAILED":
        return "failed"
    if status == "COMPLETED" or (state == "COMPLETED" and status != "STOPPED"):
        return "ok"
    return "stopped"


def remembered(reading: Reading) -> dict[str, Any]:
    """The update as the pipeline's row keeps it: the API's own, what it did for each flow, and its error."""
    kept = {**reading.update, "read": reading.over and reading.settled}
    if reading.over:
        state = str(reading.update.get("state"))
        kept["flows"] = {
            name: {"outcome": outcome(s.status, state), "at": s.at.isoformat() if s.at else ""}
            for name, s in reading.statuses.items()
        }
        kept["error"] = list(reading.causes)
    return kept


def history(updates: Sequence[Mapping[str, Any]], flow: str) -> list[str]:
    """The last five outcomes of a flow, oldest first; updates that still run are not among them."""
    return [_outcome_in(u, flow) for u in reversed(real(updates)) if "flows" in u]


def state(updates: Sequence[Mapping[str, Any]], flow: str, active: Reading | None) -> str:
    """ok, failed, running, stopped or unknown; `active` is the update that still runs, if one does."""
    status = active.statuses.get(flow) if active else None
    if status and status.status == "FAILED":
        return "failed"
    if status and status.status == "COMPLETED":
        return "ok"
    if status and status.status not in log.NOT_RUN:
        return "running"
    past = [o for o in history(updates, flow) if o != "none"]
    if not past:
        return "unknown"
    if past[-1] != "stopped":
        return past[-1]
    before = next((o for o in reversed(past) if o != "stopped"), "")
    return "failed" if before == "failed" else "stopped"


def failing_since(updates: Sequence[Mapping[str, Any]], flow: str, known: datetime | None) -> datetime | None:
    """When the present row of failures began: `known` while it goes on, else the oldest failure in sight."""
    first: datetime | None = None
    for update in real(updates):  # newest first, back to the last good one
        what = _outcome_in(update, flow)
        if what == "ok":
            break
        if what == "failed":
            first = log.when(update["flows"][flow]["at"]) or first
    return min(known, first) if known and first else first or known


def _outcome_in(update: Mapping[str, Any], flow: str) -> str:
    return str((update.get("flows") or {}).get(flow, {}).get("outcome", "none"))


def flow_fields(
    name: str,
    *,
    updates: Sequence[Mapping[str, Any]],
    readings: Sequence[Reading],
    known: Mapping[str, Any],
) -> dict[str, Any]:
    """New values of a flow's row. `readings`: what was read now, oldest first; `known`: the row as it is."""
    values: dict[str, Any] = {"short": name.rsplit(".", 1)[-1][:200]}
    for reading in readings:
        values |= _defined(reading.definitions.get(name))
        values |= _progressed(reading.progress.get(name))
    active = next((r for r in readings if not r.over), None)
    values["history"] = history(updates, name)
    values["state"] = state(updates, name, active)
    past = [o for o in values["history"] if o in ("ok", "failed")]
    if values["state"] == "ok" or (past and past[-1] == "ok" and values["state"] != "failed"):
        return values | {"failing_since": None, "failed_update": "", "condition": "", "error": []}
    for reading in readings:
        values |= _failed(reading, name)
    if values["state"] == "failed" or known.get("failing_since"):
        since = failing_since(updates, name, known.get("failing_since"))
        at = next((r.statuses[name].at for r in readings if _is_failed(r, name)), None)
        values["failing_since"] = since or at
    return values


def _defined(definition: log.Definition | None) -> dict[str, Any]:
    if definition is None:
        return {}
    return {
        "dataset": definition.dataset[:400],
        "flow_type": definition.flow_type[:30],
        "streaming": definition.streaming,
        "inputs": list(definition.inputs),
    }


def _progressed(progress: log.Progress | None) -> dict[str, Any]:
    if progress is None:
        return {}
    body = {**progress.body, "truncated": True} if progress.truncated else dict(progress.body)
    return {"last_progress": body, "last_batch": progress.batch}


def _is_failed(reading: Reading, name: str) -> bool:
    return name in reading.statuses and reading.statuses[name].status == "FAILED"


def _failed(reading: Reading, name: str) -> dict[str, Any]:
    if not _is_failed(reading, name):
        return {}
    causes = list(reading.statuses[name].causes)
    return {"failed_update": reading.id[:80], "error": causes, "condition": condition_of(causes)[:200]}
