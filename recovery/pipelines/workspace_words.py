"""The words of a workspace's test: each question, its answer, and what each missing right costs and who repairs it."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from recovery.pipelines.workspace_answers import (
    AnswerResult,
    LackOf,
    Question,
    WorkspaceAnswer,
    WorkspaceLack,
    WorkspaceTest,
)

ASKED: Final[dict[Question, str]] = {
    Question.ANSWERS: "Does the API answer?",
    Question.TOKEN: "Is the token good?",
    Question.READ: "May it read pipelines, events, jobs and code?",
    Question.ACT: "May it start, stop and edit?",
    Question.LOGS: "Can event logs be read?",
    Question.CHECKPOINTS: "Can checkpoints be read?",
    Question.SPARK: "Does Spark answer?",
}
RESULTS: Final[dict[AnswerResult, str]] = {
    AnswerResult.HOLDS: "Holds",
    AnswerResult.PART: "In part",
    AnswerResult.FAILS: "No",
    AnswerResult.UNKNOWN: "Not known",
    AnswerResult.NOT_ASKED: "Not asked",
}
LACKS: Final[dict[LackOf, str]] = {
    LackOf.ANSWER: "no answer",
    LackOf.ADDRESS: "Reprise may not call its address",
    LackOf.API: "it answers, but not as a Pipelines API",
    LackOf.ENCRYPTION: "the connection is not encrypted",
    LackOf.SECRET: "the token cannot be read here",
    LackOf.TOKEN: "the token is refused",
    LackOf.LIST: "pipelines cannot be listed",
    LackOf.PIPELINE: "not read",
    LackOf.EVENTS: "events not read",
    LackOf.CODE: "code not read",
    LackOf.JOBS: "jobs not listed",
    LackOf.ACCOUNT: "it does not say whose token it is",
    LackOf.RIGHTS: "rights list not read",
    LackOf.RUN: "may not start or stop",
    LackOf.EDIT: "may not edit",
    LackOf.LOGS: "event logs not read",
    LackOf.NO_LOGS: "no folder of event logs named",
    LackOf.STORAGE: "no storage root named",
    LackOf.CHECKPOINTS: "checkpoints not read",
    LackOf.QUESTIONS: "no questions service",
    LackOf.SPARK: "no answer",
}
COSTS: Final[dict[LackOf, str]] = {
    LackOf.ANSWER: "Nothing is read: its flows are shown as last seen. Check that it runs, and its address.",
    LackOf.ADDRESS: "Nothing is read. Have an operator allow the address in REPRISE_OUTBOUND_ALLOW.",
    LackOf.API: "Nothing is read. Check the address: it is that of the workspace, without a path.",
    LackOf.ENCRYPTION: "The token and all answers can be read on the way. Use https outside of this machine.",
    LackOf.SECRET: "Nothing is read. Put the token where the reference points, for web and worker, or give it again.",
    LackOf.TOKEN: "Nothing is read. Make a new token in the workspace and give it here.",
    LackOf.LIST: "No flow of it is listed. Give the token's account the right to see pipelines.",
    LackOf.PIPELINE: "Their flows are not listed, and their failures not seen. Give it CAN_VIEW on them.",
    LackOf.EVENTS: "That a flow fails is seen, not why; positions from the event log are not known. Give it CAN_VIEW.",
    LackOf.CODE: "Code is not studied or patched: what depends on it is blocked. Give it CAN_EDIT on their folder.",
    LackOf.JOBS: "What starts a pipeline by itself is not known: a stop may not last. Give it CAN_VIEW on jobs.",
    LackOf.ACCOUNT: "Whether it may act is not known before it is tried.",
    LackOf.RIGHTS: "Whether it may act there is not known before it is tried.",
    LackOf.RUN: "No recovery can stop or rerun them. Give it CAN_RUN on them.",
    LackOf.EDIT: "Retries, continuous mode and settings stay as they are: a stop may not last. Give it CAN_MANAGE.",
    LackOf.LOGS: "States, rates and failures of its streams stay as last seen. Give this machine read and list there.",
    LackOf.NO_LOGS: "Of a stream that names none itself, only the checkpoint is known: its state is not.",
    LackOf.STORAGE: "Their checkpoints cannot be reached from here: no recovery of them is planned.",
    LackOf.CHECKPOINTS: "No recovery of them is planned. Give this machine read and list on their storage.",
    LackOf.QUESTIONS: "Rows are not counted, code is not studied, nothing is proven. Name a Pipelines API server of "
    "Reprise that does it.",
    LackOf.SPARK: "Rows are not counted, code is not studied, nothing is proven until it answers.",
}
SHOWN: Final = 5
"""So many pipelines are named; of more their number."""


@dataclass(frozen=True)
class Line:
    """One question as a page or the command shows it; codes beside the words."""

    number: int
    question: Question
    asks: str
    result: AnswerResult
    holds: str
    answer: str
    means: tuple[str, ...]


def lines(test: WorkspaceTest) -> list[Line]:
    """All questions of a test, in their order."""
    return [
        Line(
            number,
            a.question,
            ASKED[a.question],
            a.result,
            RESULTS[a.result],
            _answer(a),
            tuple(dict.fromkeys(COSTS[lack.code] for lack in a.lacks)),
        )
        for number, a in enumerate(test.answers, 1)
    ]


def as_json(test: WorkspaceTest | None) -> dict[str, Any] | None:
    """A test for programs: codes and numbers, with the words beside them."""
    if test is None:
        return None
    told = [
        {
            **asdict(answer),
            "asks": line.asks,
            "says": line.answer,
            "means": list(line.means),
        }
        for answer, line in zip(test.answers, lines(test), strict=True)
    ]
    return {"at": test.at, "seconds": test.seconds, "held": test.held, "of": len(told), "questions": told}


def _answer(of: WorkspaceAnswer) -> str:
    parts = [_measured(of), *(_lack(lack) for lack in of.lacks)]
    return "; ".join(part for part in parts if part) or RESULTS[of.result].lower()


def _measured(of: WorkspaceAnswer) -> str:
    """What was measured, in words; "" for nothing."""
    if of.question is Question.ANSWERS and of.milliseconds is not None and of.result is AnswerResult.HOLDS:
        until = f", certificate valid until {of.certificate_until[:10]}" if of.certificate_until else ""
        return f"yes, {of.milliseconds} ms{until}"
    if of.question is Question.TOKEN and of.account:
        return f"{of.account}; when it expires is not known"
    if of.question is Question.ACT and of.tried is not None:
        return f"{of.held} of {_pipelines(of.tried)}, by the rights list; not tried"
    if of.tried is not None:
        new = f", {of.new} without a checkpoint yet" if of.new else ""
        left = f" ({of.pipelines} in the workspace)" if of.pipelines and of.pipelines > of.tried else ""
        return f"{of.held} of {_pipelines(of.tried)}{left}{new}" if of.tried else "no pipeline to try it on"
    if of.question is Question.SPARK and of.result is AnswerResult.HOLDS:
        version = f", Spark {of.version}" if of.version else ", its version is not known"
        return f"yes, {(of.milliseconds or 0) / 1000:.1f} s{version}"
    return ""


def _lack(lack: WorkspaceLack) -> str:
    names = ", ".join(lack.pipelines[:SHOWN])
    if len(lack.pipelines) > SHOWN:
        names += f" and {len(lack.pipelines) - SHOWN} more"
    detail = f" ({lack.detail})" if lack.detail else ""
    return f"{LACKS[lack.code]}{f': {names}' if names else ''}{detail}"


def _pipelines(number: int) -> str:
    return f"{number} pipeline{'' if number == 1 else 's'}"
