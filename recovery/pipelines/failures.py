"""Judges a whole pipeline by its newest updates, as flows cannot: an update may fail before it has any. Pure.

A pipeline fails from its first failed or cancelled update until one completes; a cancelled one in between proves
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from recovery.blaming import find_code_failure, first_sentence
from recovery.contracts import codec
from recovery.contracts.diagnosis import ChainedError, read_chain
from recovery.contracts.updates import CONDITIONS_WITHOUT_ERROR
from recovery.diagnosis import condition_of
from recovery.diagnosis.judgement import title_by_error
from recovery.pipelines import events as log


class PipelineState(StrEnum):
    OK = "ok"
    FAILED = "failed"
    RUNNING = "running"
    UNKNOWN = "unknown"


class FailurePhase(StrEnum):
    """Where an update failed, seen from its flows."""

    BEFORE = "before"  # before any of them ran
    BESIDE = "beside"  # some ran, none of them failed
    FLOW = "flow"  # a flow failed


class PipelineFault(StrEnum):
    """The condition of an update that failed without one of Spark's."""

    CODE_FAILED = "PIPELINE_CODE_FAILED"
    CANCELLED = "PIPELINE_CANCELLED"
    FAILED = "PIPELINE_FAILED"


@dataclass(frozen=True)
class UpdateFailure:
    """Why an update did not complete. `at`: ISO time of its end, "" where no event has it. `flow`: the one that failed,
    by its full name, in phase FLOW. `condition`: Spark's, or a PipelineFault. `cancelled_by`: the service's word for
    who cancelled it (USER_ACTION, …). `causes`: as `log.causes` reads them, outermost first."""

    update_id: str
    phase: str
    at: str = ""
    flow: str = ""
    condition: str = ""
    cancelled_by: str = ""
    causes: tuple[ChainedError, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Does it concern every flow that the update did not complete?"""
        return self.phase != FailurePhase.FLOW

    @property
    def is_cancelled(self) -> bool:
        return self.condition == PipelineFault.CANCELLED

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "causes": [codec.to_json(error) for error in self.causes]}


def failure_from(stored: Any) -> UpdateFailure | None:
    """As `as_json` wrote it; None for nothing, and for what is not one."""
    if not isinstance(stored, Mapping) or not stored.get("update_id"):
        return None
    known = {f.name: stored[f.name] for f in fields(UpdateFailure) if f.name in stored}
    return UpdateFailure(**{**known, "causes": read_chain(stored.get("causes"))})


def name_condition(causes: Sequence[ChainedError]) -> str:
    """Spark's condition, else a code of the diagnosis table, else whether people's own code raised it."""
    if condition := condition_of(causes):
        return condition
    return PipelineFault.CODE_FAILED if find_code_failure(causes) else PipelineFault.FAILED


def read_failure(
    update: Mapping[str, Any], events: Sequence[Mapping[str, Any]], statuses: Mapping[str, log.FlowStatus]
) -> UpdateFailure | None:
    """Why this update, whose events are all there, did not complete; None when it did, or still runs."""
    state, end = str(update.get("state")), log.end_of(events)
    at = end.at.isoformat() if end and end.at else ""
    update_id = str(update.get("update_id") or "")
    if state == "CANCELED":
        fault = PipelineFault.CANCELLED
        by = end.cancelled_by if end else ""
        return UpdateFailure(update_id, FailurePhase.BESIDE, at, condition=fault, cancelled_by=by)
    if state != "FAILED":
        return None
    failed = next((s.name for s in statuses.values() if s.status == "FAILED"), "")
    began = log.any_flow_began(events)
    phase = FailurePhase.BEFORE if not began else FailurePhase.FLOW if failed else FailurePhase.BESIDE
    causes = tuple(log.failure_of(events))
    return UpdateFailure(update_id, phase, at, failed, name_condition(causes), causes=causes)


def failure_in(update: Mapping[str, Any]) -> UpdateFailure | None:
    """Of an update as the pipeline's row keeps it; one that was kept before failures were is read from its error."""
    if "failure" in update:
        return failure_from(update["failure"])
    update_id, causes = str(update.get("update_id") or ""), read_chain(update.get("error"))
    if update.get("state") == "CANCELED":
        return UpdateFailure(update_id, FailurePhase.BESIDE, condition=PipelineFault.CANCELLED)
    if update.get("state") != "FAILED" or "flows" not in update:
        return None
    failed = next((n for n, f in update["flows"].items() if f.get("outcome") == "failed"), "")
    phase = FailurePhase.FLOW if failed else FailurePhase.BESIDE if update["flows"] else FailurePhase.BEFORE
    return UpdateFailure(update_id, phase, flow=failed, condition=name_condition(causes), causes=causes)


UNKNOWN_FLOWS: Final = "The state of some of its flows is not known. Open each flow to see what is known."
NAMED: Final = 3
"""So many datasets that are behind are named in a sentence."""


@dataclass(frozen=True)
class PipelineHealth:
    """`since`: when this state began, None for not known; at the latest then, unless `is_exact`. `failure`: of a state
    FAILED, and of one RUNNING while it has not completed since; None also where its events were not read yet.
    `failing_since`: when the row of failures began of which `failure` is one. `is_unbroken`: no update completed among
    those that were judged, so that row may be older still. UNKNOWN has no `since` where no update ran; else its updates
    completed, and none of them tells how one of its flows is."""

    state: PipelineState
    since: datetime | None
    failure: UpdateFailure | None = None
    is_exact: bool = True
    failing_since: datetime | None = None
    is_unbroken: bool = False


def judge_pipeline(updates: Sequence[Mapping[str, Any]]) -> PipelineHealth:
    """By its updates that ran data, newest first."""
    if not updates:
        return PipelineHealth(PipelineState.UNKNOWN, None)
    newest = updates[0]
    ended = [u for u in updates if u.get("state") in log.ENDED]
    since_good = _until_completed(ended)
    failure = next((f for u in since_good if (f := failure_in(u)) and not f.is_cancelled), None)
    failure = failure or next((f for u in since_good if (f := failure_in(u))), None)
    unbroken = len(since_good) == len(ended)
    began = _end_time(since_good[-1]) if since_good else None
    if newest.get("state") not in log.ENDED:
        since = log.when(newest.get("creation_time"))
        return PipelineHealth(
            PipelineState.RUNNING, since, failure, failing_since=began, is_unbroken=unbroken
        )
    if since_good:
        return PipelineHealth(PipelineState.FAILED, began, failure, not unbroken, began, unbroken)
    good = ended[: next((i for i, u in enumerate(ended) if u.get("state") != "COMPLETED"), len(ended))]
    return PipelineHealth(PipelineState.OK, _end_time(good[-1]), is_exact=len(good) < len(ended))


def _until_completed(ended: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    at = next((i for i, u in enumerate(ended) if u.get("state") == "COMPLETED"), len(ended))
    return list(ended[:at])


def _end_time(update: Mapping[str, Any]) -> datetime | None:
    """When it ended, else when it was asked for: never later than the truth."""
    failure = failure_in(update)
    return log.when(update.get("ended_at") or (failure.at if failure else "")) or log.when(
        update.get("creation_time")
    )


def say_failure(failure: UpdateFailure | None, run_noun: str = "update") -> str:
    """Why it failed, in one sentence; of people's code with exception, file and line. `run_noun`: as `Workspace`."""
    if failure is None:
        return f"Its newest {run_noun} failed. Why is not known yet: its events were not read."
    if failure.is_cancelled:
        if failure.cancelled_by == log.NO_END:
            return (
                f"Run {failure.update_id[:8]} is over, and its event log does not say how it ended: it was stopped or "
                "killed, or its program ended or failed beside this query."
            )
        who = (
            "Someone"
            if failure.cancelled_by in ("", "USER_ACTION")
            else failure.cancelled_by.replace("_", " ").lower()
        )
        return f"{who.capitalize()} cancelled {run_noun} {failure.update_id[:8]}. What it would have done is not known."
    before = " It failed before any flow ran." if failure.phase == FailurePhase.BEFORE else ""
    if failure.condition in CONDITIONS_WITHOUT_ERROR:  # no error was raised: this is what the updates show
        return title_by_error((), failure.condition)
    return f"{_end_sentence(say_causes(failure.causes))}{before}"


def say_causes(causes: Sequence[ChainedError]) -> str:
    """The failure of people's code, else the first sentence of the innermost cause, without a full stop."""
    if code := find_code_failure(causes):
        return code.sentence
    says = first_sentence(causes[-1].message) if causes else ""
    return says or "It failed; the error was not recorded"


def say_error(causes: Sequence[ChainedError], condition: str = "") -> str:
    """What is wrong by an error alone, as a sentence: as the table of diagnosis calls it, else as the error does."""
    if title := title_by_error(causes, condition):
        return title
    return _end_sentence(say_causes(causes))


def _end_sentence(says: str) -> str:
    return says if says.endswith("…") else f"{says}."


def say_health(
    health: PipelineHealth, behind: Sequence[tuple[str, str]] = (), run_noun: str = "update"
) -> str:
    """What is so, in a sentence, for a list. `behind`: name and state of flows whose datasets are empty or stale.
    `run_noun`: as `Workspace` calls one run."""
    if health.state is PipelineState.FAILED:
        return say_failure(health.failure, run_noun)
    if health.state is PipelineState.RUNNING:
        before = f" Before it: {say_failure(health.failure, run_noun)}" if health.failure else ""
        return f"Its newest {run_noun} is in progress.{before}"
    if health.state is PipelineState.UNKNOWN:
        return f"No {run_noun} has been seen yet." if health.since is None else UNKNOWN_FLOWS
    if not behind:
        return f"Its newest {run_noun} completed."
    named = [f"{name} is {state}" for name, state in behind[:NAMED]]
    more = [f"{len(behind) - NAMED} more are not up to date"] if len(behind) > NAMED else []
    return f"Its newest {run_noun} completed, but {', '.join([*named, *more])}."
