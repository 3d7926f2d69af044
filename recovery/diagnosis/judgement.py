"""From conditions to a diagnosis in people's words, checked against the checkpoint where it was read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from recovery.blaming import find_code_failure, first_sentence
from recovery.checkpoints.findings import advise_program
from recovery.checkpoints.repair import UnrepairedDamage
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.table_progress import is_first_batch_open
from recovery.contracts.diagnosis import (
    FAMILY_UNKNOWN,
    RESET_UNKNOWN,
    Advice,
    ChainedError,
    Diagnosis,
    ErrorCause,
    StatefulOperators,
    Storage,
)
from recovery.contracts.names import ChangeIntent
from recovery.diagnosis import operators as ops
from recovery.diagnosis import platforms, table
from recovery.diagnosis.advice import asks_meant
from recovery.diagnosis.parsing import Chain, ErrorCondition, cut_chain, innermost_condition, parse_conditions
from recovery.diagnosis.platforms import PlatformSupport
from recovery.diagnosis.row import KEEP, ErrorRow
from recovery.diagnosis.table_logs import OFFSET_FILE
from recovery.diagnosis.table_sources import PATH_OF_CODE
from recovery.numbers import whole

NO_FAILURE: Final = "no-failure-recognised"
"""Condition of a text that a person gave, in which nothing of Spark's fails that we know."""


@dataclass
class Judgement:
    """What is being said, while the checks refine it."""

    title: str
    damaged: str
    severity: int
    advice: list[Advice]
    dont: list[str]
    says: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FailureEvidence:
    """What the checks may look at. `text`: every message of the chain, innermost last."""

    row: ErrorRow | None
    text: str
    report: CheckpointReport | None
    operators: ops.Operators
    old_text: str = ""
    new_text: str = ""
    chain: Sequence[ChainedError] = ()
    of_flow: bool = True
    #: of a plain program, which has no pipeline around it
    program: bool = False
    #: of the checkpoint that was read, what speaks of itself and not of this error; else as `report`
    beside: CheckpointReport | None = None
    #: of its damage, what no repair can rebuild
    unrepaired: Sequence[UnrepairedDamage] = ()
    #: why there is no report
    unread: str = "The checkpoint could not be read from here, so this relies on the error alone."

    @property
    def stream(self) -> str:
        """What failed, in a word."""
        return "query" if self.program else "flow"


def diagnose_failure(
    *,
    causes: Chain,
    report: CheckpointReport | None = None,
    old_text: str = "",
    new_text: str = "",
    condition: str = "",
    of_flow: bool = True,
    where: PlatformSupport | None = None,
    beside: CheckpointReport | None = None,
    unrepaired: Sequence[UnrepairedDamage] = (),
    unread: str = "",
) -> Diagnosis:
    """The diagnosis of a failure.

    `condition`: what the failure was named by, where the error has no condition of Spark's or of the table.
    `of_flow`: is a flow's checkpoint part of the question? Not where the failure is a whole pipeline's.

    `old_text`, `new_text`: the code that last worked and the code that failed. Never raises; an error that
    the table does not know is said to be unknown. `where`: what the workspace and the sink let one do; None: all.
    `beside`: a checkpoint whose damage is to be said, and which explains nothing of this error, as it is of another
    query. `unrepaired`: of the checkpoint's damage, what no repair can rebuild, and why. `unread`: why there is no
    report of the checkpoint, in a sentence.
    """
    place = where or PlatformSupport()
    chain = cut_chain(causes)
    conditions = [] if condition == NO_FAILURE else parse_conditions(chain, pipelines=not place.program)
    reason = innermost_condition(conditions)
    row = reason.row if reason else table.row_of_condition(condition) if condition else None
    if reason is not None and reason.name == "PATH_NOT_FOUND" and not _is_of_batch(chain):
        row = table.row_of_condition(PATH_OF_CODE)
    text = "\n".join(c.message for c in chain)
    evidence = FailureEvidence(
        row,
        text,
        report,
        _read_operators(text, report),
        old_text,
        new_text,
        chain,
        of_flow,
        place.program,
        beside,
        unrepaired,
        unread or FailureEvidence.unread,
    )
    judged = _judge_no_failure(evidence) if condition == NO_FAILURE else _judge_evidence(evidence, chain)
    platforms.fit_advice(judged, row, place)
    return _conclude_diagnosis(
        judged,
        evidence,
        condition=reason.name if reason else condition if row or condition == NO_FAILURE else "",
        storage=place.storage,
        conditions=conditions,
    )


def _is_of_batch(chain: Sequence[ChainedError]) -> bool:
    """Did a query that had begun meet this error?"""
    return any(
        cause.class_name.endswith("StreamingQueryException") or "STREAM_FAILED" in cause.message
        for cause in chain
    )


def _conclude_diagnosis(
    judged: Judgement,
    evidence: FailureEvidence,
    *,
    condition: str,
    storage: Storage,
    conditions: Sequence[ErrorCondition],
) -> Diagnosis:
    row, operators = evidence.row, evidence.operators
    return Diagnosis(
        condition=condition,
        family=row.family if row else FAMILY_UNKNOWN,
        title=judged.title,
        says=" ".join(judged.says),
        damaged=judged.damaged,
        severity=judged.severity,
        reset=row.reset if row else RESET_UNKNOWN,
        do=tuple(item.says for item in judged.advice),
        dont=tuple(judged.dont),
        advice=tuple(judged.advice),
        storage=storage,
        operators=StatefulOperators(checkpoint=operators.checkpoint or (), code=operators.code),
        causes=tuple(
            ErrorCause(
                class_name=error.class_name,
                message=error.message,
                file=error.file,
                line=error.line,
                condition=_condition_at(conditions, at),
            )
            for at, error in enumerate(evidence.chain)
        ),
        attempts=_count_attempts(evidence.text),
    )


def title_by_error(causes: Chain, condition: str = "") -> str:
    """What is wrong, by the error alone; "" where the table does not know it, or only the checkpoint can tell which of
    two things it means. `condition` as in `diagnose`."""
    reason = innermost_condition(parse_conditions(causes))
    row = reason.row if reason else table.row_of_condition(condition) if condition else None
    if row is None or row.code in NEEDS_CHECKPOINT:
        return ""
    return diagnose_failure(causes=causes, condition=condition).title


def _condition_at(conditions: Sequence[ErrorCondition], at: int) -> str:
    return next((c.name for c in reversed(conditions) if c.cause == at), "")


def _count_attempts(text: str) -> int | None:
    """Spark says "has FAILED more than N times" once it gives up: that was N + 1 attempts."""
    _, number_text, rest = text.partition("has FAILED more than ")
    number = whole(rest.split(" ", 1)[0]) if number_text else None
    return None if number is None else number + 1


def _read_operators(text: str, report: CheckpointReport | None) -> ops.Operators:
    said = ops.from_text(text)
    stored = said.checkpoint
    if stored is None and report is not None:
        stored = tuple(o.name for o in sorted(report.state_operators, key=lambda o: o.operator_id))
    return ops.Operators(checkpoint=stored, code=said.code)


def _judge_evidence(evidence: FailureEvidence, chain: Sequence[ChainedError]) -> Judgement:
    row = evidence.row
    if row is None:
        judged = _judge_unknown(chain, evidence)
    else:
        advice = row.list_advice(program=evidence.program)
        judged = Judgement(row.title, row.damaged, row.severity, advice, list(row.dont))
        check = CHECKS.get(row.code)
        if check:
            check(judged, evidence)
    if evidence.of_flow:
        _name_first_batch(judged, evidence)
        _add_blockers(judged, evidence)
        _add_lost_rows(judged, evidence)
    return judged


def _judge_no_failure(evidence: FailureEvidence) -> Judgement:
    """Of a text in which no failure of Spark is recognised: nothing is guessed; a checkpoint's own damage is said."""
    judged = Judgement("The text holds no failure of Spark that is recognised.", "not known", 1, [], [])
    if evidence.chain:
        kind = evidence.chain[-1].class_name.rsplit(".", 1)[-1]
        says = _error_sentence(evidence.chain)
        named = says if not kind or says.startswith(kind) else f"{kind}: {says}"
        judged.says.append(f"What it ends in is not known to be Spark's: {named}")
    _add_blockers(judged, evidence)
    return judged


def _judge_unknown(chain: Sequence[ChainedError], evidence: FailureEvidence) -> Judgement:
    if not chain:
        return Judgement(
            title="No error is recorded for this flow.",
            damaged="not known",
            severity=2,
            advice=[Advice("Run an update, or look at the driver's log, to see the error.")],
            dont=list(KEEP),
        )
    return Judgement(
        title=f"Spark stopped the {evidence.stream} with an error that Reprise does not know.",
        damaged="not known",
        severity=3,
        advice=[
            Advice("Read the innermost message below."),
            Advice(
                "Read the checkpoint with `inspect`: if it is whole, the error is most likely in code, data or access."
            ),
        ],
        dont=list(KEEP),
    )


def _add_blockers(judged: Judgement, evidence: FailureEvidence) -> None:
    """What the checkpoint itself shows outweighs what the error says."""
    report = evidence.report or evidence.beside
    if evidence.report is None:
        judged.says.append(evidence.unread)
    if report is None:
        return
    blockers = report.blockers
    if not blockers:
        if report.last_committed is not None:
            judged.says.append(
                f"The checkpoint is readable; its last committed batch is {report.last_committed}."
            )
        return
    names = [f.file or f.says.rstrip(".") for f in blockers[:3]]
    more = f" and {len(blockers) - 3} more" if len(blockers) > 3 else ""
    judged.damaged = f"{', '.join(names)}{more}"
    judged.severity = max(judged.severity, 4)
    judged.says.append("The checkpoint itself shows: " + " ".join(f.says for f in blockers[:3]))
    why_not = {(damage.code, damage.file): damage.why for damage in evidence.unrepaired}
    ways = ((f.code, why_not.get((f.code, f.file), f.do)) for f in blockers[:3])
    fitting = (advise_program(code, do) if evidence.program else do for code, do in ways)
    mends = [Advice(do) for do in dict.fromkeys(fitting)]
    judged.advice = [*mends, *judged.advice]


OF_TABLE: Final = ("SINK_SWALLOWED", "SINK_HAS_ROWS_OF_BEFORE")
"""Findings by which rows are missing from the table, or are there twice, whatever the error is."""


def _add_lost_rows(judged: Judgement, evidence: FailureEvidence) -> None:
    """What the table shows comes first: no way out of the error brings those rows back."""
    findings = [f for f in (evidence.report.findings if evidence.report else ()) if f.code in OF_TABLE]
    judged.says[:0] = [f"The table shows: {finding.says}" for finding in findings]
    judged.advice[:0] = [Advice(finding.do) for finding in findings]


def _stateful_steps(judged: Judgement, evidence: FailureEvidence) -> None:
    operators = evidence.operators
    title = ops.mismatch_title(operators, stream=evidence.stream)
    if title is None or operators.checkpoint is None or operators.code is None:
        return
    judged.title = title
    stored = ", ".join(f"{ops.operator_word(n)} (Spark: {n})" for n in operators.checkpoint) or "none"
    running = ", ".join(f"{ops.operator_word(n)} (Spark: {n})" for n in operators.code) or "none"
    judged.says.append(f"Stateful steps in the checkpoint: {stored}; in the code: {running}.")
    judged.says.append("Position and state are as the last good batch left them.")
    gone, new = (
        ops.missing_operators(operators.checkpoint, operators.code),
        ops.missing_operators(operators.code, operators.checkpoint),
    )
    if gone and not operators.code:
        judged.advice = _without_state(gone, program=evidence.program)
    elif gone or new:
        judged.advice = _with_other_state(new, gone, program=evidence.program)
    _name_the_line(judged, evidence, [*gone, *new])


ALL_AGAIN: Final = Advice(
    "Empty the table and its checkpoint together, then read all input again.", "full-refresh", undoable=False
)


BEGIN_AGAIN: Final = (
    "Begin again where the flow began (continue): batch 0 is cut anew, and the old code is not needed."
)


def _name_first_batch(judged: Judgement, evidence: FailureEvidence) -> None:
    """Where nothing was ever committed no position and no state has to be kept: other code may begin again."""
    report = evidence.report
    if report is None or not is_first_batch_open(report):
        return
    judged.says.append(
        "The checkpoint has no committed batch: the first one, batch 0, was planned and not finished there. Unless the "
        "table has it, no position and no state can be lost."
    )
    if asks_meant(judged.advice):
        mistake = [item for item in judged.advice if item.right_if is ChangeIntent.NO]
        others = [i for i in judged.advice if i.right_if is None or i.strategy == ALL_AGAIN.strategy]
        says = f"{BEGIN_AGAIN} Right if the change was meant."
        judged.advice = [Advice(says, "continue", ChangeIntent.YES, undoable=True), *mistake, *others]
    elif evidence.chain:
        says = f"If Spark refuses the mended code, or batch 0 is too large: {BEGIN_AGAIN[0].lower()}{BEGIN_AGAIN[1:]}"
        judged.advice = [*judged.advice, Advice(says, "continue", undoable=True)]


def _without_state(gone: Sequence[str], *, program: bool) -> list[Advice]:
    """What to do where the code no longer keeps state. Only a flow's recovery has a step that counts the rows."""
    named = ops.list_operators(gone)
    count = "count them first" if program else "step 3 counts them"
    holds = "" if set(gone) == {"dedupe"} else f" Rows that only this state holds are lost; {count}."
    return [
        Advice(
            f"Continue after the last committed batch, without the state of {named}: what was read stays read.{holds} "
            f"Right if taking {named} out was meant.",
            "continue",
            ChangeIntent.YES,
            undoable=True,
        ),
        Advice(
            f"Put {named} back: the checkpoint fits the old code as it is. Right if the change was a mistake.",
            "revert",
            ChangeIntent.NO,
            undoable=True,
        ),
        ALL_AGAIN,
    ]


def _with_other_state(new: Sequence[str], gone: Sequence[str], *, program: bool) -> list[Advice]:
    """What to do where the code keeps state that the checkpoint does not hold: a seed carries none for it."""
    counts = "a plan" if program else "step 3"
    taken_out = ops.list_operators(new) if new else "the new step"
    undone = f"Put {ops.list_operators(gone)} back" if gone else f"Take {taken_out} out"
    return [
        Advice(
            f"{undone}: the checkpoint fits the old code as it is. Right if the change was a mistake.",
            "revert",
            ChangeIntent.NO,
            undoable=True,
        ),
        Advice(
            "Keep the position, and replay what was processed for the state of the new code (rebuild). Right if the "
            "change was meant.",
            "rebuild",
            ChangeIntent.YES,
            undoable=True,
        ),
        Advice(
            "Go back in the input and build the state of the new code from what is read again (reread). Right if the "
            "change was meant.",
            "rewind",
            ChangeIntent.YES,
            undoable=True,
        ),
        Advice(
            f"Keep the position, and let the state of the new code start empty (prime): {counts} counts what that "
            "costs. Right if the change was meant.",
            "prime",
            ChangeIntent.YES,
            undoable=True,
        ),
        ALL_AGAIN,
    ]


def _name_the_line(judged: Judgement, evidence: FailureEvidence, names: list[str]) -> None:
    if not (evidence.old_text and evidence.new_text):
        return
    gone, came = ops.changed_lines(evidence.old_text, evidence.new_text, names)
    judged.says += [f"Taken out since it last worked: `{line}`." for line in gone]
    judged.says += [f"Put in since it last worked: `{line}`." for line in came]


def _state_directory(judged: Judgement, evidence: FailureEvidence) -> None:
    report = evidence.report
    if report is None:
        return
    if report.state_operators:
        stored = ops.list_operators(o.name for o in report.state_operators)
        judged.says.append(
            f"The checkpoint has operator metadata of {stored}: its state is lost or not whole."
        )
        judged.damaged = "state"
        judged.advice = [
            item for item in judged.advice if item.right_if is None
        ]  # no change of code explains it
    else:
        judged.title = "The code has a stateful step that the checkpoint has never stored state for."
        judged.damaged = "nothing"
        judged.severity = 3
        judged.advice = _with_other_state(evidence.operators.code or (), (), program=evidence.program)


def _state_columns(judged: Judgement, evidence: FailureEvidence) -> None:
    """Where repeats alone are dropped, no window keeps out what is read again: reread may write all of it twice."""
    report = evidence.report
    if report is not None and {o.name for o in report.state_operators} == {"dedupe"}:
        judged.advice = sorted(judged.advice, key=lambda item: item.strategy in ("rewind", "full-refresh"))


def _source_count(judged: Judgement, evidence: FailureEvidence) -> None:
    """ "There are [0] sources" is what a cut offset file looks like; the file before it tells which it is."""
    counts = _offset_counts(evidence.report)
    zero = "there are [0] sources in the checkpoint" in evidence.text.lower()
    if (len(counts) > 1 and counts[0] < counts[1]) or (zero and (not counts or counts[0] == 0)):
        judged.title = "The newest offset file lost its source lines, which looks like a change of sources."
        judged.damaged = "the newest offset file"
        judged.severity = max(judged.severity, 3)
        judged.advice = [
            Advice(OFFSET_FILE),
            Advice("The code need not be changed."),
        ]
    elif len(counts) > 1:
        judged.damaged = "nothing"
        judged.says.append(
            f"The two newest offset files both hold {counts[0]} sources: it is the code that changed."
        )


def _offset_counts(report: CheckpointReport | None) -> list[int]:
    """How many source lines the newest offset files have, newest first."""
    if report is None:
        return []
    planned = [b for b in report.batches if b.get("planned") and isinstance(b.get("offsets"), list | tuple)]
    return [len(b["offsets"]) for b in planned[:2]]


def _judge_concurrent_write(judged: Judgement, evidence: FailureEvidence) -> None:
    report = evidence.report
    if report is None or report.last_committed is None:
        return
    if report.last_planned is None or report.last_committed > report.last_planned:
        judged.title = (
            f"The offset file of batch {report.last_committed} is lost, which looks like a second run: "
            "nothing else writes."
        )
        judged.damaged = f"offsets/{report.last_committed}"
        judged.advice = [
            Advice(
                "Before you start again, check the table: the batch before it may have been written a second time."
            )
        ]
        judged.severity = 4
    else:
        judged.says.append("Offsets and commits fit together, so look for a second run or a stale .crc file.")


def _batch_missing(judged: Judgement, evidence: FailureEvidence) -> None:
    if evidence.report is None:
        return
    files = [f.file or "" for f in evidence.report.findings]
    if any(f.startswith("sources") or "/sources/" in f for f in files):
        judged.damaged = "a source log"
    elif any(f.startswith("offsets") or "/offsets/" in f for f in files):
        judged.damaged = "offsets"


def _name_the_error(judged: Judgement, evidence: FailureEvidence) -> None:
    if says := _error_sentence(evidence.chain):
        judged.title = says


def _quote_the_error(judged: Judgement, evidence: FailureEvidence) -> None:
    if says := _error_sentence(evidence.chain):
        judged.says.append(says)


def _error_sentence(chain: Sequence[ChainedError]) -> str:
    """A failure of people's code by exception, file and line, any other by its innermost cause's first sentence."""
    code = find_code_failure(chain)
    says = code.sentence if code else first_sentence(chain[-1].message) if chain else ""
    return says and f"{says}."


CHECKS: Final[Mapping[str, Callable[[Judgement, FailureEvidence], None]]] = {
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA": _stateful_steps,
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY": _state_directory,
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": _state_columns,
    "source-count-changed": _source_count,
    "CONCURRENT_STREAM_LOG_UPDATE": _judge_concurrent_write,
    "batch-missing": _batch_missing,
    "PIPELINE_CODE_FAILED": _name_the_error,
    "PROGRAM_CODE_FAILED": _name_the_error,
    "PIPELINE_FAILED": _name_the_error,
    "PIPELINE_CYCLE": _quote_the_error,
    "PIPELINE_NO_COMPUTE": _quote_the_error,
    "TABLE_OR_VIEW_NOT_FOUND": _quote_the_error,
}
# Rows whose title the checkpoint can change.
NEEDS_CHECKPOINT: Final = frozenset(
    {
        "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        "source-count-changed",
        "CONCURRENT_STREAM_LOG_UPDATE",
    }
)
