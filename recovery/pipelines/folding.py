"""Folds updates and their events into what the inventory keeps of a flow. Pure: no I/O, no database.

A flow fails until an update completes it: a stopped or skipped run in between proves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from recovery.contracts import codec
from recovery.contracts.diagnosis import ChainedError
from recovery.contracts.updates import FileBatches, FlowInUpdate, FlowOutcome, QueryBatches
from recovery.pipelines import events as log
from recovery.pipelines import failing, losses, requeried
from recovery.pipelines.downstream import VIRTUAL
from recovery.pipelines.failures import (
    FailurePhase,
    PipelineFault,
    UpdateFailure,
    name_condition,
    read_failure,
)
from recovery.pipelines.flow_values import FlowValues

HISTORY: Final = 5
"""How many updates of a flow are kept and shown."""

SILENT: Final = "SILENT"
"""State of an update of a plain stream that is said to run, and has given no sign of life for long."""

LATE: Final = timedelta(minutes=2)
"""Events of an update that is over may still come in for this long, unless its last one is already there."""


@dataclass
class FoldedUpdate:
    """What the events of one update say. `update` is the API's UpdateInfo. settled: nothing more will come; `failure`
    is read then, not before. `end`: its last event, as far as it is there."""

    update: log.ApiUpdate
    definitions: Mapping[str, log.Definition] = field(default_factory=dict)
    statuses: Mapping[str, log.FlowStatus] = field(default_factory=dict)
    progress: Mapping[str, log.FlowProgress] = field(default_factory=dict)
    causes: Sequence[ChainedError] = ()
    settled: bool = True
    emptied: Mapping[str, datetime | None] = field(default_factory=dict)  # datasets, at set-up
    wrote: frozenset[str] = frozenset()  # flows of which a batch read something
    file_batches: Mapping[str, FileBatches] = field(default_factory=dict)  # of flows into tables of files
    query_batches: Mapping[str, QueryBatches] = field(default_factory=dict)  # into Delta tables
    failure: UpdateFailure | None = None
    end: log.UpdateEnd | None = None

    @property
    def id(self) -> str:
        return str(self.update.get("update_id") or "")

    @property
    def over(self) -> bool:
        return self.update.get("state") in log.ENDED


def read(update: log.ApiUpdate, events: Sequence[log.ApiEvent], *, now: datetime) -> FoldedUpdate:
    """Read the events of one update; `causes` only when it failed and no flow of it did."""
    statuses = log.statuses(events)
    flow_failed = any(s.status == "FAILED" for s in statuses.values())
    settled = _settled(update, events, now)
    progress = log.progress(events)
    return FoldedUpdate(
        update=update,
        definitions=log.definitions(events),
        statuses=statuses,
        progress=progress,
        causes=log.failure_of(events) if update.get("state") == "FAILED" and not flow_failed else (),
        settled=settled,
        failure=read_failure(update, events, statuses) if settled else None,
        end=log.end_of(events),
        emptied=log.emptied(events),
        wrote=frozenset(n for n in statuses if any(b.rows_in != 0 for b in log.batches(events, n))),
        file_batches=losses.file_batches(events, progress),
        query_batches=requeried.read_batches(events, progress),
    )


def _settled(update: log.ApiUpdate, events: Sequence[log.ApiEvent], now: datetime) -> bool:
    newest = max((at for e in events if (at := log.when(e.get("timestamp")))), default=None)
    newest = newest or log.when(update.get("creation_time"))
    return log.end_of(events) is not None or newest is None or now - newest > LATE


def real(updates: Sequence[log.ApiUpdate]) -> list[log.ApiUpdate]:
    """The newest updates that ran data (a validation runs none), newest first."""
    return [u for u in updates if not u.get("validate_only")][:HISTORY]


def to_read(updates: Sequence[log.ApiUpdate], *, first_look: bool) -> list[log.ApiUpdate]:
    """Of these, newest first, what is still to be read: of those that are shown, and of all that have run since the
    newest one that was read. A failure or a success in one that was never read would be missed."""
    ran = [u for u in updates if not u.get("validate_only")]
    newest_read = next((i for i, u in enumerate(ran) if u.get("read")), 0 if first_look else len(ran))
    return [u for u in ran[: max(HISTORY, newest_read)] if not whole(u)]


def outcome(status: str, state: str) -> FlowOutcome:
    """What an update that is over did for a flow."""
    if status in log.NOT_RUN or not status:
        return FlowOutcome.NONE
    if status == "FAILED":
        return FlowOutcome.FAILED
    if status == "COMPLETED" or (state == "COMPLETED" and status != "STOPPED"):
        return FlowOutcome.OK
    return FlowOutcome.STOPPED


def remembered(reading: FoldedUpdate, *, continuous: bool = False) -> dict[str, Any]:
    """The update as the pipeline's row keeps it: the API's own, what it did for each flow, and its error.

    `continuous`: no update of the pipeline ever completes, so a flow is well once it committed a batch with rows."""
    kept = {**reading.update, "read": reading.over and reading.settled}
    kept["file_batches"] = {name: codec.to_json(ran) for name, ran in reading.file_batches.items()}
    kept["query_batches"] = {name: codec.to_json(ran) for name, ran in reading.query_batches.items()}
    if reading.over:
        state = str(reading.update.get("state"))
        flows = {name: _flow(reading, s, state) for name, s in reading.statuses.items()}
        if continuous:
            flows = {n: replace(flow, went_on=n in reading.wrote) for n, flow in flows.items()}
        kept["flows"] = {n: flow.as_json() for n, flow in (flows | _views(reading, state)).items()}
        kept["emptied"] = {name: at.isoformat() if at else "" for name, at in reading.emptied.items()}
        kept["error"] = [codec.to_json(error) for error in reading.causes]
        kept["failure"] = reading.failure.as_json() if reading.failure else None
        kept["ended_at"] = reading.end.at.isoformat() if reading.end and reading.end.at else ""
    return kept


def _flow(reading: FoldedUpdate, said: log.FlowStatus, state: str) -> FlowInUpdate:
    came = outcome(said.status, state)
    definition = reading.definitions.get(said.name)
    anew = came is FlowOutcome.OK and definition is not None and not definition.streaming
    wrote = anew or said.name in reading.wrote or _refreshed_in_full(reading, said.name, came)
    at = said.at.isoformat() if said.at else ""
    return FlowInUpdate(came, at, said.status, wrote)


def _refreshed_in_full(reading: FoldedUpdate, flow: str, came: FlowOutcome) -> bool:
    """Did the update empty what the flow writes? Its rows are others then, though no batch may have read one. Only our
    server names what it emptied; elsewhere a flow that had its part in a full refresh is taken to have been."""
    definition = reading.definitions.get(flow)
    dataset = definition.dataset if definition else flow
    if dataset in reading.emptied:
        return True
    if came is FlowOutcome.NONE:
        return False
    named = reading.update.get("full_refresh_selection") or ()
    return bool(reading.update.get("full_refresh")) or any(
        dataset == name or dataset.endswith(f".{name}") for name in named
    )


def _views(reading: FoldedUpdate, state: str) -> dict[str, FlowInUpdate]:
    """Views without rows of their own, by the flow's name. No flow of theirs runs:
    they are right once the whole graph was analysed, which is before any flow completes."""
    statuses = reading.statuses
    if state != "COMPLETED" and not any(s.status == "COMPLETED" for s in statuses.values()):
        return {}
    named = (n for n, d in reading.definitions.items() if d.flow_type == VIRTUAL)
    return {
        name: FlowInUpdate(FlowOutcome.OK)
        for name in named
        if name not in statuses or statuses[name].status != "FAILED"
    }


def whole(update: log.ApiUpdate) -> bool:
    """Was all read of an update that is needed? One that an older version read lacks some, and is read once more."""
    return bool(update.get("read")) and "emptied" in update and "file_batches" in update


def history(updates: Sequence[log.ApiUpdate], flow: str) -> list[str]:
    """The last five outcomes of a flow, oldest first; updates that still run are not among them."""
    return [failing.outcome_in(u, flow) for u in reversed(real(updates)) if "flows" in u]


def _outcomes(updates: Sequence[log.ApiUpdate], flow: str) -> list[str]:
    """As `history`, of all updates that are kept, since the code has the flow; by its own events before the newest
    update that completed."""
    newest = [u for u in updates if not u.get("validate_only")]
    newest = newest[: next((i for i, u in enumerate(newest) if failing.is_gone(u, flow)), len(newest))]
    good = next((i for i, u in enumerate(newest) if u.get("state") == "COMPLETED"), len(newest))
    return [
        failing.own_outcome(u, flow) if at > good else failing.outcome_in(u, flow)
        for at, u in reversed(list(enumerate(newest)))
        if "flows" in u
    ]


def state(
    updates: Sequence[log.ApiUpdate],
    flow: str,
    active: FoldedUpdate | None,
    memory: failing.FailureMemory,
) -> str:
    """ok, failed, running, stopped or unknown; `active` is the update that still runs, if one does."""
    if active and active.update.get("state") == SILENT:
        return "unknown"
    status = active.statuses.get(flow) if active else None
    if status and status.status in ("FAILED", "COMPLETED"):
        return "failed" if status.status == "FAILED" else "ok"
    if status and status.status not in log.NOT_RUN:
        return "running"
    if memory.newest:
        return "failed"
    past = [o for o in _outcomes(updates, flow) if o in ("ok", "stopped")]
    return past[-1] if past else "unknown"


def is_told(updates: Sequence[log.ApiUpdate], flow: str) -> bool:
    """Does one of these updates tell how the flow is, or that the code has it no more?"""
    return any(
        failing.outcome_in(u, flow) != "none" or failing.is_gone(u, flow) for u in updates if "flows" in u
    )


def _concerning(updates: Sequence[log.ApiUpdate], flow: str) -> Sequence[log.ApiUpdate]:
    """The updates as far as they concern the flow: of those in which it had no part, no failure of a whole update
    does, once the code has it no more."""
    for update in updates:
        whole = not any(update.get(s) for s in failing.SELECTIONS) and not update.get("validate_only")
        if whole and update.get("state") == "COMPLETED" and "flows" in update:
            if flow in update["flows"]:
                return updates
            return [u if flow in (u.get("flows") or {}) else {**u, "failure": None} for u in updates]
    return updates


def flow_fields(
    name: str,
    *,
    updates: Sequence[log.ApiUpdate],
    readings: Sequence[FoldedUpdate],
    known: failing.FailureMemory,
) -> FlowValues:
    """New values of a flow's row. `readings`: what was read now, oldest first; `known`: why it failed so far."""
    values: FlowValues = {"short": name.rsplit(".", 1)[-1][:200]}
    updates = _concerning(updates, name)
    for reading in readings:
        values |= _read_definition(reading.definitions.get(name))
        values |= _read_progress(reading.progress.get(name))
    active = next((r for r in readings if not r.over), None)
    values["history"] = history(updates, name)
    read_now = {r.id: failure for r in readings if (failure := _failure(r, name))}
    memory = failing.remember(updates, name, known, read_now)
    if active and name in active.statuses:
        status = active.statuses[name]
        if status.status == "COMPLETED":
            memory = failing.NOTHING
        elif status.status == "FAILED":
            memory = failing.with_own(memory, read_now[active.id], status.at)
    values["state"] = state(updates, name, active, memory)
    return values | memory.fields()


def _read_definition(definition: log.Definition | None) -> FlowValues:
    if definition is None:
        return {}
    return {
        "dataset": definition.dataset[:400],
        "flow_type": definition.flow_type[:30],
        "streaming": definition.streaming,
        "inputs": list(definition.inputs),
    }


def _read_progress(progress: log.FlowProgress | None) -> FlowValues:
    if progress is None:
        return {}
    body = {**progress.body, "truncated": True} if progress.truncated else dict(progress.body)
    return {
        "last_progress": body,
        "last_batch": progress.batch,
        "query_id": str(body.get("id") or "")[:80],
    }


def name_flow_condition(causes: Sequence[ChainedError]) -> str:
    """As `name_condition`, but "" where neither Spark nor the code says anything of its own."""
    condition = name_condition(causes)
    return "" if condition == PipelineFault.FAILED else condition


def _failure(reading: FoldedUpdate, name: str) -> UpdateFailure | None:
    """Of the flow itself, in this update."""
    status = reading.statuses.get(name)
    if status is None or status.status != "FAILED":
        return None
    condition, at = name_flow_condition(status.causes), status.at.isoformat() if status.at else ""
    return UpdateFailure(reading.id, FailurePhase.FLOW, at, name, condition, causes=tuple(status.causes))
