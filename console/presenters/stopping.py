"""The stop step: what would stop, what was read back. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from console.presenters import status, words
from console.presenters.wizard import Ask
from recovery.contracts import codec
from recovery.contracts.probes import read_evidence
from recovery.contracts.results import StoppedResult


@dataclass(frozen=True)
class StopVerdict:
    kind: str
    title: str
    text: str
    at: Any = None
    #: which verdict this is, for `data-code` of the page
    code: str = ""


def stop_asks(flow: Any, flows: Sequence[Any]) -> list[Ask]:
    """What runs, what could start it, what stops with it."""
    pipeline = flow.pipeline
    others = [f.short for f in flows if f.pk != flow.pk]
    names = ", ".join(others) or "no other flow"
    last = (pipeline.updates or [{}])[0]
    runs = (
        f"Update {last.get('update_id')} is {last.get('state')}."
        if last.get("update_id")
        else "No update is known."
    )
    idle = pipeline.state in ("IDLE", "FAILED", "DELETED", "")
    return [
        Ask(
            "What runs now",
            "Nothing, as last polled" if idle else f"The pipeline is {pipeline.state}",
            f"{runs} The stop itself reads it again.",
        ),
        Ask(
            "What could start it",
            "People, jobs, and the pipeline itself",
            "Jobs that start it, its continuous mode and its retries are paused, and given back at the end. "
            "A start by a person voids a sealed plan, and is shown.",
        ),
        Ask(
            "What stops with it",
            words.format_count(len(flows), "flow"),
            f"The whole pipeline stops, so {names} {'gets' if len(others) == 1 else 'get'} older meanwhile."
            if others
            else "The pipeline has no other flow.",
        ),
    ]


def stop_verdict(step: Any | None) -> StopVerdict | None:
    """None before the act."""
    if step is None:
        return None
    if step.state in ("pending", "running"):
        return StopVerdict(
            "running",
            "The pipeline is being stopped.",
            "Asked for; what is read back appears here. Usually 2 s.",
            code="stopping",
        )
    if step.state == "failed":
        return StopVerdict(
            "failed", "The pipeline is not proven to be stopped.", step.problem, code="not-stopped"
        )
    if step.state == "unknown":
        return StopVerdict(
            "unknown", "Whether the pipeline runs is not known.", step.problem, code="stop-unknown"
        )
    result = codec.read(StoppedResult, step.result)
    if result.was == "running":
        took = words.format_duration(result.seconds)
        said = f"Update {result.update_id} was active; read back, it is {result.ended}. It took {took}."
    else:
        said = "No update was active. Read from the Pipelines API, not from the answer to the order."
    return StopVerdict("ok", "No update of this pipeline is active.", said, step.ended_at, code="stopped")


@dataclass(frozen=True)
class LogLine:
    at: str
    step: str
    text: str
    warn: bool = False


def log_lines(step: Any | None) -> list[LogLine]:
    return [] if step is None else [LogLine(str(at), step.kind, str(text)) for at, text in step.log]


@dataclass(frozen=True)
class EvidenceRow:
    kind: str
    says: str
    small: str = ""


def evidence_rows(step: Any) -> tuple[list[EvidenceRow], list[EvidenceRow]]:
    """What a probe proved (either way) and what it could not."""
    proven, open_ = [], []
    for line in read_evidence(step.evidence):
        if line.proven is None:
            open_.append(EvidenceRow("unknown", line.says))
        else:
            proven.append(
                EvidenceRow(
                    "ok" if line.proven else "attention",
                    line.says,
                    "" if line.proven else "not as it should be after this step",
                )
            )
    return proven, open_


HELD = {
    "noted": ("attention", "About to be paused: {}", "not yet seen whether it was"),
    "paused": ("ok", "Paused: {}", "given back when no recovery of this pipeline is open"),
    "restored": ("ok", "Switched on again: {}", "as it was before"),
    "left": ("attention", "Left as it is: {}", ""),
}


def held_rows(holds: Sequence[Any]) -> list[EvidenceRow]:
    """What was paused for a recovery, and what became of them."""
    rows = []
    for hold in holds:
        kind, says, small = HELD[hold.state]
        stuck = hold.problem and hold.state in ("noted", "paused")
        rows.append(EvidenceRow("attention" if stuck else kind, says.format(hold), hold.problem or small))
    return rows


def job_rows(step: Any | None, holds: Sequence[Any]) -> list[EvidenceRow]:
    """What would have started the pipeline again, as the stop found it; empty before the stop has ended."""
    done = step.result if step is not None and step.state == "done" else {}
    result = codec.read(StoppedResult, done)
    if result.jobs_unknown:
        return [
            EvidenceRow(
                "unknown",
                "Whether a job starts the pipeline again is not known",
                result.jobs_unknown,
            ),
            *held_rows(holds),
        ]
    if not holds and result.jobs == ():
        return [
            EvidenceRow(
                "ok",
                "Nothing starts the pipeline by itself: no job, no continuous mode, no retry that was seen",
            )
        ]
    off = [EvidenceRow("ok", f"Was paused already: {j}") for j in result.jobs or () if not holds]
    return [*held_rows(holds), *off]


def job_badge(step: Any) -> status.Badge:
    return status.state_badge(status.STEP, step.state)
