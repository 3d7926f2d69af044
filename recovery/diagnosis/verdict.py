"""The one verdict on a flow: its checkpoint, the stateful steps of its code and its last failure judged together.

List, flow page, checkpoint tab, `inspect` of a known flow and diagnosis show this and judge nothing themselves. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from recovery.checkpoints.report import CheckpointReport, Finding, Outcome, Severity, StateOperator
from recovery.diagnosis import operators as ops


class StepFit(StrEnum):
    """How a stateful step of the checkpoint and the one of the code in its place go together."""

    SAME = "same"
    NOT_IN_CODE = "not_in_code"
    NOT_IN_CHECKPOINT = "not_in_checkpoint"
    OTHER = "other"
    UNKNOWN = "unknown"  # the code was not asked


@dataclass(frozen=True)
class StatefulStep:
    """One place of the query plan that keeps state."""

    #: number of the operator, as Spark counts it
    place: int
    #: Spark's name of the operator whose state the checkpoint stores; None: none here
    held: str | None
    #: Spark's name of the operator of the code; None: none here, or not known
    in_code: str | None
    fit: StepFit

    @property
    def fits(self) -> bool:
        """False only where the two are known to differ."""
        return self.fit in (StepFit.SAME, StepFit.UNKNOWN)


class CheckpointState(StrEnum):
    """What the checkpoint itself is, whatever runs on it."""

    NONE = "none"
    SOUND = "sound"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class FlowVerdict:
    """What is so of a flow, and what its next run comes to with the code that ran last."""

    checkpoint: CheckpointState
    #: the checkpoint's own findings, before them those of how it fits the code and the last failure; blockers first
    findings: tuple[Finding, ...]
    steps: tuple[StatefulStep, ...]
    #: the worst outcome among the findings
    outcome: Outcome

    @property
    def blockers(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity is Severity.BLOCKER)

    @property
    def fits_code(self) -> bool:
        """False where a stateful step is known to differ."""
        return all(step.fits for step in self.steps)


def stateful_steps(held: Sequence[str], in_code: Sequence[str] | None) -> tuple[StatefulStep, ...]:
    """Stateful operators of the checkpoint beside those of the code, place by place. `in_code` None: not known."""
    steps = []
    for place in range(max(len(held), len(in_code or ()))):
        stored = held[place] if place < len(held) else None
        coded = in_code[place] if in_code is not None and place < len(in_code) else None
        steps.append(StatefulStep(place, stored, coded, _judge_fit(stored, coded, known=in_code is not None)))
    return tuple(steps)


def _judge_fit(stored: str | None, coded: str | None, *, known: bool) -> StepFit:
    if not known:
        return StepFit.UNKNOWN
    if stored == coded:
        return StepFit.SAME
    if coded is None:
        return StepFit.NOT_IN_CODE
    return StepFit.NOT_IN_CHECKPOINT if stored is None else StepFit.OTHER


def judge_flow(
    report: CheckpointReport,
    *,
    code: Sequence[str] | None,
    failed: bool = False,
    why_failed: str = "",
    why_lost: str = "",
    others: Sequence[Finding] = (),
    file_table: bool = False,
    is_flow: bool = True,
) -> FlowVerdict:
    """The verdict on a flow; with `is_flow` False on a stream of someone's own, by the text of its failure.

    `report`: its checkpoint. `code`: Spark's names of the stateful operators of the code that ran last, by id; None:
    not known. `failed`: whether its last run failed, `why_failed`: the sentence of that failure. `why_lost`: how its
    runs, none of which failed, lost rows. `others`: what other flows share with it and must not. `file_table`: whether
    it writes a table of files, which knows batches by number.
    """
    held = sorted(report.state_operators, key=lambda o: o.operator_id)
    empty = report.format == "none"
    steps = () if empty else stateful_steps([o.name for o in held], code)
    unfit = [_unfit_finding(step, held) for step in steps if not step.fits]
    skips = (
        ()
        if report.last_committed is None or not file_table
        else (_skipped_batches_finding(report.last_committed),)
    )
    own = (*unfit, *others, *skips, *report.findings)
    blocked = any(f.severity is Severity.BLOCKER for f in own)
    failure = [_failure_finding(why_failed, is_flow=is_flow)] if failed and not blocked else []
    if why_lost:
        failure.append(Finding(LAST_RUN_LOST_ROWS, Severity.WARNING, why_lost, "Diagnose the flow."))
    order = list(Severity)
    findings = tuple(sorted((*own, *failure), key=lambda f: order.index(f.severity)))
    outcomes = list(Outcome)
    return FlowVerdict(
        checkpoint=CheckpointState.NONE
        if empty
        else CheckpointState.DAMAGED
        if report.blockers
        else CheckpointState.SOUND,
        findings=findings,
        steps=steps,
        outcome=min((f.outcome for f in findings), key=outcomes.index, default=Outcome.GOES_ON),
    )


#: codes of findings that are about how code and checkpoint fit, and say nothing against the checkpoint itself
UNFIT = ("STATE_OPERATOR_NOT_IN_CODE", "STATE_OPERATOR_NOT_IN_CHECKPOINT", "STATE_OPERATOR_DIFFERS")
LAST_RUN_FAILED = "LAST_RUN_FAILED"
LAST_RUN_LOST_ROWS = "LAST_RUN_LOST_ROWS"
REFUSES = "Refuses to start: STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA."


def _unfit_finding(step: StatefulStep, held: Sequence[StateOperator]) -> Finding:
    if step.held is None:
        return Finding(
            "STATE_OPERATOR_NOT_IN_CHECKPOINT",
            Severity.BLOCKER,
            f"The code has a stateful step for which the checkpoint stores no state: {_operator_name(step.in_code)}.",
            f"Take {ops.operator_word(str(step.in_code))} out again if it was a mistake, else build its state: "
            "the diagnosis names the ways.",
            spark=REFUSES,
            outcome=Outcome.FAILS,
        )
    keys = held[step.place].rows
    holds = "" if keys is None else f", {keys:,} key{'' if keys == 1 else 's'}"
    place = f"operator {held[step.place].operator_id} {_operator_name(step.held)}{holds}"
    file = f"state/{held[step.place].operator_id}/_metadata/metadata"
    if step.in_code is None:
        return Finding(
            "STATE_OPERATOR_NOT_IN_CODE",
            Severity.BLOCKER,
            f"The checkpoint has a stateful operator that the code does not have: {place}.",
            f"Continue without this state (seeded reset), or put {ops.operator_word(step.held)} back.",
            file=file,
            spark=REFUSES,
            outcome=Outcome.FAILS,
        )
    return Finding(
        "STATE_OPERATOR_DIFFERS",
        Severity.BLOCKER,
        f"The checkpoint has {place} where the code has {_operator_name(step.in_code)}.",
        "Put the old code back if the change was a mistake, else build the new step's state: the diagnosis names the "
        "ways.",
        file=file,
        spark=REFUSES,
        outcome=Outcome.FAILS,
    )


def _operator_name(operator: str | None) -> str:
    people = ops.operator_word(str(operator))
    return people if people == operator else f"{people} ({operator})"


def _skipped_batches_finding(last: int) -> Finding:
    """Source: FileStreamSink.addBatch returns without a word for a batch up to the newest of its log."""
    return Finding(
        "FILE_SINK_SKIPS_OLD_BATCHES",
        Severity.WARNING,
        f"The table of files drops every batch whose number it has, and reports success: {last} and lower.",
        "Never start this flow from an empty checkpoint: rows would be missing without an error.",
    )


def _failure_finding(why: str, *, is_flow: bool) -> Finding:
    diagnose = "Diagnose the flow" if is_flow else "Follow the advice of the diagnosis of the text"
    return Finding(
        LAST_RUN_FAILED,
        Severity.WARNING,
        f"The last run of this {'flow' if is_flow else 'stream'} failed. {why}".rstrip(),
        f"{diagnose}: what makes it fail is not in the checkpoint's files.",
        outcome=Outcome.UNKNOWN,
    )
