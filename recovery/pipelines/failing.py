"""Remembers why a flow fails, past the updates that its pipeline's row keeps. Pure: no I/O, no database.

A flow fails until an update completes it. Updates of other flows and cancelled ones prove nothing of it, however many
follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from recovery.contracts import codec
from recovery.contracts.updates import CONDITIONS_WITHOUT_ERROR, FlowInUpdate, FlowOutcome
from recovery.models import Flow
from recovery.pipelines import events as log
from recovery.pipelines.failures import FailurePhase, PipelineFault, UpdateFailure, failure_from, failure_in
from recovery.pipelines.flow_values import FlowValues

SELECTIONS: Final = ("refresh_selection", "full_refresh_selection")


@dataclass(frozen=True)
class FlowFailure:
    """A failure of a flow, the newest of a row of them. `since`: when the row began, None for not known."""

    since: datetime | None
    failure: UpdateFailure

    def as_json(self) -> dict[str, Any]:
        return {"since": self.since.isoformat() if self.since else "", "failure": self.failure.as_json()}


@dataclass(frozen=True)
class FailureMemory:
    """Why a flow fails. `own`: of an update in which it failed, or that failed beside its flows and did not complete
    this one; until an update completes the flow, or the code has it no more. Of a continuous pipeline, no update of
    which completes, until the flow commits a batch in a later one. `before`: of an update that failed before its flows;
    until any update completes, of whatever flows, as the graph was analysed then."""

    own: FlowFailure | None = None
    before: FlowFailure | None = None

    @property
    def newest(self) -> FlowFailure | None:
        return self.before or self.own

    @property
    def since(self) -> datetime | None:
        return _first(*(f.since for f in (self.own, self.before) if f is not None))

    @property
    def is_whole(self) -> bool:
        """Is the newest failure one of a whole update, which the pipeline's own message tells of?"""
        return self.newest is not None and self.newest.failure.is_whole

    def as_json(self) -> dict[str, Any]:
        """{} where the flow does not fail."""
        kept = {"own": self.own, "before": self.before}
        return {name: failing.as_json() for name, failing in kept.items() if failing is not None}

    def fields(self) -> FlowValues:
        """What the flow's row shows of it."""
        failure = self.newest.failure if self.newest else None
        return {
            "failure_memory": self.as_json(),
            "failing_since": self.since,
            "failed_update": failure.update_id[:80] if failure else "",
            "condition": failure.condition[:200] if failure else "",
            "error": [codec.to_json(error) for error in failure.causes] if failure else [],
        }


NOTHING: Final = FailureMemory()


def memory_of(flow: Flow | None, updates: Sequence[Mapping[str, Any]] = ()) -> FailureMemory:
    """What the row keeps. Of a row from before this was kept: what it shows, with the phase that `updates` say."""
    if flow is None:
        return NOTHING
    if flow.failure_memory:
        return read_memory(flow.failure_memory)
    fails = flow.state == "failed" or flow.failing_since is not None
    if not fails or not flow.failed_update or flow.condition in CONDITIONS_WITHOUT_ERROR:
        return NOTHING
    shown = UpdateFailure(
        flow.failed_update,
        FailurePhase.FLOW,
        flow=flow.name,
        condition=flow.condition,
        causes=flow.causes,
    )
    update = next((u for u in updates if u.get("update_id") == flow.failed_update), {})
    whole = (
        failure_in(update) if FlowInUpdate.read(update, flow.name).outcome is not FlowOutcome.FAILED else None
    )
    if whole is None or not whole.is_whole:
        return FailureMemory(own=FlowFailure(flow.failing_since, shown))
    failing = FlowFailure(flow.failing_since, whole)
    return FailureMemory(before=failing) if _is_before(whole) else FailureMemory(own=failing)


def read_memory(kept: Mapping[str, Any]) -> FailureMemory:
    """As `as_json` wrote it."""
    return FailureMemory(_read(kept.get("own")), _read(kept.get("before")))


def _read(kept: Any) -> FlowFailure | None:
    failure = failure_from(kept.get("failure")) if isinstance(kept, Mapping) else None
    return FlowFailure(log.when(kept.get("since")), failure) if failure else None


def remember(
    updates: Sequence[Mapping[str, Any]],
    flow: str,
    known: FailureMemory,
    read_now: Mapping[str, UpdateFailure],
) -> FailureMemory:
    """`known` with what the updates did, newest first, some of which it may have in it already.

    `read_now`: the flow's own failures with all their causes, by update, as far as their events were read now."""
    failures = {f.failure.update_id: f.failure for f in (known.before, known.own) if f} | dict(read_now)
    memory = known
    for update in reversed(updates):
        if not update.get("validate_only"):
            memory = _after(update, flow, memory, failures)
    return memory


def _after(
    update: Mapping[str, Any], flow: str, memory: FailureMemory, failures: Mapping[str, UpdateFailure]
) -> FailureMemory:
    came, own = outcome_in(update, flow), FlowInUpdate.read(update, flow)
    if (
        came is FlowOutcome.OK
        or is_gone(update, flow)
        or (came is FlowOutcome.STOPPED and _went_on(update, flow, memory))
    ):
        return NOTHING
    if came is FlowOutcome.FAILED:
        whole = failure_in(update) if own.outcome is not FlowOutcome.FAILED else None
        failure = whole or _own_failure(update, flow, failures)
        at = log.when(own.at) if whole is None else None
        at = at or log.when(failure.at or update.get("ended_at")) or log.when(update.get("creation_time"))
        if whole is not None and _is_before(whole):
            return replace(memory, before=_next(memory.before, failure, at))
        return with_own(memory, failure, at)
    return replace(memory, before=None) if update.get("state") == "COMPLETED" else memory


def _went_on(update: Mapping[str, Any], flow: str, memory: FailureMemory) -> bool:
    """Did the flow of a continuous pipeline commit a batch in this update, in which it was not seen to fail?"""
    failed_here = memory.newest is not None and memory.newest.failure.update_id == update.get("update_id")
    return bool(FlowInUpdate.read(update, flow).went_on) and not failed_here


def with_own(memory: FailureMemory, failure: UpdateFailure, at: datetime | None) -> FailureMemory:
    """With a failure of the flow itself, which goes on with the row of failures that there is."""
    return FailureMemory(own=FlowFailure(_first(memory.since, at), failure))


def _next(before: FlowFailure | None, failure: UpdateFailure, at: datetime | None) -> FlowFailure:
    return FlowFailure(_first(before.since if before else None, at), failure)


def _own_failure(
    update: Mapping[str, Any], flow: str, failures: Mapping[str, UpdateFailure]
) -> UpdateFailure:
    """Of the flow itself: with its causes as far as they are known."""
    name = str(update.get("update_id") or "")
    if name in failures and failures[name].flow == flow:
        return failures[name]
    kept = failure_in(update)
    if kept is None or kept.flow != flow:
        return UpdateFailure(name, FailurePhase.FLOW, flow=flow)
    condition = "" if kept.condition == PipelineFault.FAILED else kept.condition
    return replace(kept, phase=FailurePhase.FLOW, condition=condition)


def _is_before(failure: UpdateFailure) -> bool:
    return failure.phase == FailurePhase.BEFORE


def is_gone(update: Mapping[str, Any], flow: str) -> bool:
    """Does this update show that the code has the flow no more: a whole, completed one in which it had no part?"""
    whole = update.get("state") == "COMPLETED" and not any(update.get(s) for s in SELECTIONS)
    return whole and "flows" in update and flow not in update["flows"]


def own_outcome(update: Mapping[str, Any], flow: str) -> FlowOutcome:
    """What the update did for the flow by the flow's own events."""
    return FlowInUpdate.read(update, flow).outcome


def outcome_in(update: Mapping[str, Any], flow: str) -> FlowOutcome:
    """What the update did for the flow. One that failed before or beside its flows failed for each that it did not
    complete and that was not left out of it."""
    own, failure = FlowInUpdate.read(update, flow), failure_in(update)
    is_settled = own.outcome in (FlowOutcome.OK, FlowOutcome.FAILED) or own.status == "EXCLUDED"
    if is_settled or failure is None or not failure.is_whole:
        return own.outcome
    return FlowOutcome.STOPPED if failure.is_cancelled else FlowOutcome.FAILED


def _first(*moments: datetime | None) -> datetime | None:
    return min((m for m in moments if m is not None), default=None)
