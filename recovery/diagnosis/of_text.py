"""The diagnosis of a text that a person has of a failed stream, alone or with its checkpoint. Pure."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.report import CheckpointReport, Finding, Outcome, Severity
from recovery.contracts.diagnosis import Diagnosis
from recovery.diagnosis import judgement, parsing
from recovery.diagnosis.failure_text import FailureText, read_failure
from recovery.diagnosis.judgement import NO_FAILURE
from recovery.diagnosis.platforms import PlatformSupport
from recovery.diagnosis.verdict import judge_flow
from recovery.errors import Refused, RepriseError, Unreachable, WrongUse

PROGRAM_CODE: Final = "PROGRAM_CODE_FAILED"
COMMON_WORDS: Final = frozenset(
    {"broken-json", "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY", "source-kind-changed", "batch-missing",
     "out-of-memory", "kafka-away", "input-file-gone"}
)  # fmt: skip
"""Rows whose words other programs say too: they count only where Spark has to do with it."""
WHAT_TO_GIVE: Final = "Give the end of the driver's log, or the whole exception with its causes."
WHOSE_TEXT: Final = "Give the text of this checkpoint's query, or the checkpoint of the text's."
NO_CHECKPOINT: Final = "No checkpoint was given, so this relies on the text alone."


@dataclass(frozen=True)
class TextDiagnosis:
    """What a text shows, alone or with the checkpoint that was given with it."""

    failure: FailureText
    found: Diagnosis
    #: whether the checkpoint is of another query than the text, so that neither explains the other
    is_of_another_query: bool = False

    @property
    def is_recognised(self) -> bool:
        return self.found.condition != NO_FAILURE


def read_checkpoint(
    location: str, allowed: AbstractContextManager[None]
) -> tuple[CheckpointReport | None, RepriseError | None]:
    """The report of the checkpoint that was given with a text, or why there is none: the text is judged all the same.
    `allowed`: entered while the checkpoint is open; it may refuse the location."""
    try:
        with allowed:
            return inspect_checkpoint(location), None
    except (Refused, Unreachable, WrongUse) as problem:
        return None, problem


def diagnose_text(
    text: str, *, report: CheckpointReport | None = None, unread: str = NO_CHECKPOINT
) -> TextDiagnosis:
    """The diagnosis of the last failure in a text. `report`: of the checkpoint that was given with it; `unread`: why
    there is none, in a sentence. Never raises."""
    failure = read_failure(text)
    if report is not None and report.format == "none":
        unread = f"There is no checkpoint at {report.location}, so this relies on the text alone."
        report = None
    other = report is not None and _names_differ(failure.query_id, report.query_id)
    if other and report is not None:
        unread = (
            f"The text is of query {failure.query_id}, the checkpoint of query {report.query_id}: neither explains the "
            "other, unless the checkpoint was made new in between."
        )
    diagnosis = judgement.diagnose_failure(
        causes=failure.causes,
        report=None if other else report,
        beside=report if other else None,
        condition=_condition_name(failure),
        where=PlatformSupport(program=True),
        unread=unread,
    )
    return TextDiagnosis(
        failure, diagnosis.model_copy(update={"says": _describe_failure(failure, diagnosis.says)}), other
    )


def with_failure(report: CheckpointReport, diagnosis: TextDiagnosis) -> tuple[Finding, ...]:
    """The report's findings with what the text adds to them, blockers first: no one may take a checkpoint for sound
    whose program fails, or may fail."""
    if not diagnosis.is_recognised:
        return (
            *report.findings,
            _doubt_finding("NO_FAILURE_RECOGNISED", diagnosis.found.title, WHAT_TO_GIVE),
        )
    if diagnosis.is_of_another_query:
        says = (
            f"The text is of query {diagnosis.failure.query_id}, this checkpoint of query {report.query_id}."
        )
        return (*report.findings, _doubt_finding("ERROR_OF_ANOTHER_QUERY", says, WHOSE_TEXT))
    code = diagnosis.found.operators.code
    judged = judge_flow(report, code=code, failed=True, why_failed=diagnosis.found.title, is_flow=False)
    return tuple(dict.fromkeys(judged.findings))


def _doubt_finding(code: str, says: str, do: str) -> Finding:
    return Finding(code, Severity.WARNING, says, do, outcome=Outcome.UNKNOWN)


def _names_differ(of_text: str, of_checkpoint: str | None) -> bool:
    return bool(of_text and of_checkpoint) and of_text.lower() != str(of_checkpoint).lower()


def _condition_name(failure: FailureText) -> str:
    """What the text is called where Spark's own conditions and the table do not name it; "": an unknown failure."""
    reason = parsing.innermost_condition(parsing.parse_conditions(failure.causes, pipelines=False))
    if reason is not None and reason.row is not None:
        is_named = any(f"[{reason.name}]" in cause.message for cause in failure.causes)
        is_sure = is_named or failure.is_spark or reason.row.code not in COMMON_WORDS
        return "" if is_sure else NO_FAILURE
    if not failure.is_spark:
        return NO_FAILURE
    return PROGRAM_CODE if reason is None and failure.is_code else ""


def _describe_failure(failure: FailureText, says: str) -> str:
    more = [
        "Spark logged it as a warning only, so the task may have been run again and have ended well."
        if failure.is_warning
        else "",
        "Only the end of the text was read, as it is very long." if failure.is_cut else "",
    ]
    return " ".join(filter(None, (says, *more)))
