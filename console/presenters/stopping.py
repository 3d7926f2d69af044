"""The stop step: what would stop, what was read back. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from console.presenters import words
from console.presenters.wizard import TroubleAnswer
from recovery.contracts import codec
from recovery.contracts.probes import read_evidence
from recovery.contracts.results import StoppedResult
from recovery.models import Flow, Hold, Step, Stream
from recovery.pipelines.standstill import WORDS, StandstillProof

if TYPE_CHECKING:
    from console.presenters.running import PersonAsked


@dataclass(frozen=True)
class StopVerdict:
    kind: str
    title: str
    text: str
    at: words.StoredMoment = None
    #: which verdict this is, for `data-code` of the page
    code: str = ""


QUIET: Final = ("IDLE", "FAILED", "DELETED", "")
MAKE_SURE: Final = (StandstillProof.RUNNING_COMMAND_ALONE, StandstillProof.NO_SIGN_OF_LIFE)
"""What leaves open whether a driver that hangs goes on later."""


def stop_asks(flow: Flow, flows: Sequence[Flow], stream: Stream | None = None) -> list[TroubleAnswer]:
    """What runs, what could start it, what stops with it. `stream`: how a plain stream is stopped; None: a pipeline."""
    pipeline = flow.pipeline
    if stream is not None:
        return _asks_of_stream(stream, runs=pipeline.state not in QUIET)
    others = [f.short for f in flows if f.pk != flow.pk]
    names = ", ".join(others) or "no other flow"
    last = (pipeline.updates or [{}])[0]
    runs = (
        f"Update {last.get('update_id')} is {last.get('state')}."
        if last.get("update_id")
        else "No update is known."
    )
    idle = pipeline.state in QUIET
    return [
        TroubleAnswer(
            "What runs now",
            "Nothing, as last polled" if idle else f"The pipeline is {pipeline.state}",
            f"{runs} The stop itself reads it again.",
        ),
        TroubleAnswer(
            "What could start it",
            "People, jobs, and the pipeline itself",
            "Jobs that start it, its continuous mode and its retries are paused, and restored at the end. "
            "A start by a person voids a sealed plan, and is shown.",
        ),
        TroubleAnswer(
            "What stops with it",
            words.format_count(len(flows), "flow"),
            f"The whole pipeline stops, so {names} {'gets' if len(others) == 1 else 'get'} older meanwhile."
            if others
            else "The pipeline has no other flow.",
        ),
    ]


def _asks_of_stream(stream: Stream, *, runs: bool) -> list[TroubleAnswer]:
    """As `stop_asks`, of a program that no one but its owner starts and stops."""
    by_command = stream.has_stop_command
    return [
        TroubleAnswer(
            "What runs now",
            "The stream runs" if runs else "Nothing, as last polled",
            "The stop itself looks again, at its event log and its running command.",
            code="stream-runs" if runs else "stream-idle",
        ),
        TroubleAnswer(
            "What could start it",
            "Not known",
            "Schedulers, restart policies, watchdogs and people: none of them is paused. Keep them from starting it "
            "until the recovery has ended.",
            code="starters-not-seen",
        ),
        TroubleAnswer(
            "Who stops it",
            "Its stop command" if by_command else "You",
            "A worker runs it, where the stream may run."
            if by_command
            else "Where it runs, the log asks you to stop it where you usually do, and goes on once it is seen to have "
            "ended.",
            code="stopped-by-command" if by_command else "stopped-by-hand",
        ),
    ]


def stop_verdict(
    step: Step | None, *, is_stream: bool = False, asked: "PersonAsked | None" = None
) -> StopVerdict | None:
    """None before the act. `asked`: what a person is to do now."""
    if step is None:
        return None
    if asked is not None:
        return StopVerdict("attention", asked.title, asked.watched, code=f"asked-{asked.code}")
    what = "stream" if is_stream else "pipeline"
    if step.state in ("pending", "running"):
        return StopVerdict(
            "running",
            f"The {what} is being stopped.",
            "Asked for; what is read back appears here. Usually 2 s.",
            code="stopping",
        )
    if step.state == "failed":
        return StopVerdict(
            "failed", f"The {what} is not proven to be stopped.", step.problem, code="not-stopped"
        )
    if step.state == "unknown":
        return StopVerdict(
            "unknown", f"Whether the {what} runs is not known.", step.problem, code="stop-unknown"
        )
    result = codec.read(StoppedResult, step.result)
    if is_stream:
        return StopVerdict(
            "ok", "The stream does not run.", _read_of_stream(result), step.ended_at, "stopped"
        )
    if result.was == "running":
        took = words.format_duration(result.seconds)
        said = f"Update {result.update_id} was active; read back, it is {result.ended}. It took {took}."
    else:
        said = "No update was active. Read from the Pipelines API, not from the answer to the order."
    return StopVerdict("ok", "No update of this pipeline is active.", said, step.ended_at, code="stopped")


def _read_of_stream(result: StoppedResult) -> str:
    proved = _proof_sentence(StandstillProof(result.proof)) if result.proof else "It was not seen to run."
    if result.was != "running":
        return proved
    read = f"that run is {result.ended}." if result.ended else proved
    return f"It ran; read back: {read} It took {words.format_duration(result.seconds)}."


def _proof_sentence(proof: StandstillProof) -> str:
    says = WORDS[proof]
    advice = " Make sure that its driver is dead." if proof in MAKE_SURE else ""
    return f"{says[0].upper()}{says[1:]}.{advice}"


@dataclass(frozen=True)
class StopLogLine:
    at: str
    step: str
    text: str
    warn: bool = False


def log_lines(step: Step | None) -> list[StopLogLine]:
    return [] if step is None else [StopLogLine(str(at), step.kind, str(text)) for at, text in step.log]


@dataclass(frozen=True)
class EvidenceRow:
    kind: str
    says: str
    small: str = ""


def evidence_rows(step: Step) -> tuple[list[EvidenceRow], list[EvidenceRow]]:
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
    "paused": ("ok", "Paused: {}", "restored when no recovery of this pipeline is open"),
    "restored": ("ok", "Switched on again: {}", "as it was before"),
    "left": ("attention", "Left as it is: {}", ""),
}


def held_rows(holds: Sequence[Hold]) -> list[EvidenceRow]:
    """What was paused for a recovery, and what became of them."""
    rows = []
    for hold in holds:
        kind, says, small = HELD[hold.state]
        stuck = hold.problem and hold.state in ("noted", "paused")
        rows.append(EvidenceRow("attention" if stuck else kind, says.format(hold), hold.problem or small))
    return rows


def job_rows(step: Step | None, holds: Sequence[Hold], *, is_stream: bool = False) -> list[EvidenceRow]:
    """What would have started the pipeline again, as the stop found it; empty before the stop has ended."""
    done = step.result if step is not None and step.state == "done" else {}
    result = codec.read(StoppedResult, done)
    if result.jobs_unknown:
        return [
            EvidenceRow(
                "unknown",
                "Whether anything starts the stream again is not known"
                if is_stream
                else "Whether a job starts the pipeline again is not known",
                result.jobs_unknown,
            ),
            *held_rows(holds),
        ]
    if not holds and result.jobs == () and not is_stream:
        return [
            EvidenceRow(
                "ok",
                "Nothing starts the pipeline by itself: no job, no continuous mode, no retry that was seen",
            )
        ]
    off = [EvidenceRow("ok", f"Was paused already: {j}") for j in result.jobs or () if not holds]
    return [*held_rows(holds), *off]
