"""What a test of a workspace found: six questions, each with what was measured and what is missing.

Values only, kept as JSON in the workspace's row; their words are made in `workspace_words`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self


class Question(StrEnum):
    """Asked one after the other: without the first two nothing else can be asked of the API."""

    ANSWERS = "answers"
    TOKEN = "token"  # noqa: S105  (a question's name)
    READ = "read"
    ACT = "act"
    CHECKPOINTS = "checkpoints"
    SPARK = "spark"
    LOGS = "event_logs"  # of plain streams alone


class AnswerResult(StrEnum):
    """`part`: for some pipelines; `unknown`: asked, and no one can tell; `not_asked`: an answer before forbids."""

    HOLDS = "holds"
    PART = "part"
    FAILS = "fails"
    UNKNOWN = "unknown"
    NOT_ASKED = "not_asked"


class LackOf(StrEnum):
    """What is missing, each with a cost of its own (`workspace_words.COSTS`)."""

    ANSWER = "no_answer"
    ADDRESS = "address_not_allowed"
    API = "not_the_api"
    ENCRYPTION = "not_encrypted"
    SECRET = "secret_not_readable"  # noqa: S105  (a code)
    TOKEN = "token_refused"  # noqa: S105  (a code)
    LIST = "pipelines_not_listed"
    PIPELINE = "pipeline_not_read"
    EVENTS = "events_not_read"
    CODE = "code_not_read"
    JOBS = "jobs_not_read"
    ACCOUNT = "account_not_told"
    RIGHTS = "rights_not_told"
    RUN = "not_start_or_stop"
    EDIT = "not_edit"
    LOGS = "event_logs_not_read"
    NO_LOGS = "event_logs_not_named"
    STORAGE = "storage_not_named"
    CHECKPOINTS = "checkpoints_not_read"
    QUESTIONS = "questions_not_named"
    SPARK = "spark_no_answer"


_QUESTIONS: Final = frozenset(Question)
_RESULTS: Final = frozenset(AnswerResult)
_MISSING: Final = frozenset(LackOf)


@dataclass(frozen=True)
class WorkspaceLack:
    """One missing right or part: for which pipelines (names; (): the whole workspace), and what the other side said."""

    code: LackOf
    pipelines: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class WorkspaceAnswer:
    """The answer to one question. Numbers are None, and texts "", where the question measures no such thing.

    `milliseconds` until it answered; `certificate_until` ISO time; `account` whose token it is; `pipelines` in the
    workspace, `tried` of them, `held` of those; `new` of those have no checkpoint yet; `version` of Spark.
    """

    question: Question
    result: AnswerResult
    lacks: tuple[WorkspaceLack, ...] = ()
    milliseconds: int | None = None
    certificate_until: str = ""
    account: str = ""
    pipelines: int | None = None
    tried: int | None = None
    held: int | None = None
    new: int | None = None
    version: str = ""

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """Of JSON as `WorkspaceTest.as_dict` writes it; what a later version added is left out,
        and a result of it is not known."""
        known = {name: told[name] for name in cls.__dataclass_fields__ if name in told}
        lacks = tuple(
            WorkspaceLack(LackOf(one["code"]), tuple(one["pipelines"]), one["detail"])
            for one in told["lacks"]
            if one["code"] in _MISSING
        )
        return cls(
            **{
                **known,
                "question": Question(told["question"]),
                "result": AnswerResult(told["result"])
                if told["result"] in _RESULTS
                else AnswerResult.UNKNOWN,
                "lacks": lacks,
            }
        )


@dataclass(frozen=True)
class WorkspaceTest:
    """One test: when it began (ISO time, UTC), how long it took, and an answer to each question, in their order."""

    at: str
    seconds: float
    answers: tuple[WorkspaceAnswer, ...] = field(default=())

    @property
    def held(self) -> int:
        """How many questions hold."""
        return sum(answer.result is AnswerResult.HOLDS for answer in self.answers)

    @property
    def began(self) -> datetime:
        """`at` as a time."""
        return datetime.fromisoformat(self.at)

    @property
    def reached(self) -> bool:
        """Did the API answer at all? Plain streams have none."""
        if not any(a.question is Question.ANSWERS for a in self.answers):
            return True
        return any(a.question is Question.ANSWERS and a.result is AnswerResult.HOLDS for a in self.answers)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self | None:
        """None for {}: it was never tested. Questions of a later version are left out."""
        if not told:
            return None
        known = [one for one in told["answers"] if one["question"] in _QUESTIONS]
        return cls(told["at"], told["seconds"], tuple(map(WorkspaceAnswer.from_dict, known)))
