"""Asks a questions service over HTTP, and takes its answer for what it is: other people's data.

The service is a Pipelines API server of Reprise (`POST /api/2.0/x-reprise/questions`). It runs the pipeline's code on
its own side and sends blanks until the answer is there, so that a line that was lost is noticed here within `SILENCE`.
Nothing is asked twice but where the service says that it has not begun.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, NoReturn, Protocol, TypeVar

import requests
from pydantic import TypeAdapter, ValidationError

from recovery import outbound, trace
from recovery.bounded import MOST_VALUES, TooMany, read_json
from recovery.errors import Refused, RepriseError, Unreachable, WrongUse

PATH: Final = "/api/2.0/x-reprise/questions"
CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 30.0  # the service sends a blank every five
GRACE_SECONDS: Final = 15.0  # beyond the time of the question: the service says itself that it was too short
PAUSE_SECONDS: Final = 0.25  # while the service answers as many questions as it may
MOST_ANSWER: Final = 64 * 1024 * 1024  # bytes
LONGEST_SENTENCE: Final = 2000
PIECE: Final = 1 << 16
T = TypeVar("T")
AGAIN: Final = "Look at its log, then try again."


class Answers(Protocol):
    """Who answers questions about pipelines' code and tables."""

    def ask(self, question: str, request: Mapping[str, Any], *, seconds: float) -> Mapping[str, Any]:
        """The fields of the answer, as JSON gives them. Raises Unreachable, Refused, WrongUse; RuntimeError: a bug."""
        ...


@dataclass(frozen=True)
class Service:
    """A questions service. `spark` names the Spark that it must ask, as it knows it; "": the one that it owns.

    `environment`: whose pipelines the questions are about; a service of other environments refuses them.
    `allowed`: what may be called beside public addresses; None: anything.
    """

    url: str
    token: str = field(repr=False)
    spark: str = ""
    allowed: outbound.AllowedAddresses | None = None
    environment: str = ""

    def ask(self, question: str, request: Mapping[str, Any], *, seconds: float) -> Mapping[str, Any]:
        """As `Answers.ask`. `code` of what it raises: `answer_late`, `answer_too_large`, `answer_unreadable`,
        `questions_token`, `no_questions`, `outbound`, or that of its class."""
        until = time.monotonic() + seconds + GRACE_SECONDS
        body = {
            "question": question,
            "request": request,
            "seconds": max(1, round(seconds)),
            "spark": self.spark,
            "environment": self.environment,
        }
        with _session(self.token, self.allowed) as session:
            try:
                response = self._sent(session, json.dumps(body).encode(), until)
                with response:
                    if response.status_code != 200:
                        self._refuse(response, until)
                    answer = self._read(response, until, seconds)
            except requests.RequestException as error:
                raise self._silence(error) from None
        return answer_in(answer, seconds)

    def _sent(self, session: requests.Session, body: bytes, until: float) -> requests.Response:
        """The head of the answer; asked again only where the service says that it was too busy to begin."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        headers |= {trace.HEADER: trace.current()} if trace.current() else {}
        while True:
            response = session.post(
                self.url.rstrip("/") + PATH, data=body, headers=headers, stream=True, allow_redirects=False,
                timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
            )  # fmt: skip
            if response.status_code not in (429, 503) or time.monotonic() > until - GRACE_SECONDS:
                return response
            response.close()
            time.sleep(PAUSE_SECONDS)

    def _read(self, response: requests.Response, until: float, seconds: float) -> bytes:
        """The body without the blanks before it. Raises Unreachable (`answer_late`), Refused (`answer_too_large`)."""
        received = bytearray()
        for piece in response.iter_content(PIECE):
            received += piece if received else piece.lstrip()
            if len(received) > MOST_ANSWER:
                too_large()
            if time.monotonic() > until:
                late(seconds)
        return bytes(received)

    def _refuse(self, response: requests.Response, until: float) -> NoReturn:
        """What an answer means that is none. Its own words are bounded, and hold no token."""
        status, says = response.status_code, self._says(response, until)
        if status in (401, 403) and "PERMISSION_DENIED" not in says:
            raise Unreachable(
                f"The questions service at {self.url} does not accept its token. Give this workspace another one in "
                "Settings.",
                code="questions_token",
            )
        if status == 404:
            raise Unreachable(
                f"At {self.url} no service answers questions. Name a Pipelines API server of Reprise in Settings.",
                code="no_questions",
            )
        if status in (400, 403, 413):
            raise Refused(f"The questions service at {self.url} refused the question: {says}")
        raise Unreachable(
            f"The questions service at {self.url} is busy or away (HTTP {status}): {says} {AGAIN}"
        )

    def _says(self, response: requests.Response, until: float) -> str:
        head = next(response.iter_content(LONGEST_SENTENCE), b"") if time.monotonic() < until else b""
        text = head[:LONGEST_SENTENCE].decode(errors="replace")
        return " ".join(text.split()).replace(self.token, "…") if self.token else text

    def _silence(self, error: requests.RequestException) -> Unreachable:
        if isinstance(outbound.cause_of(error), outbound.ForbiddenAddress):
            says = f"The questions service at {self.url} has an address that Reprise may not call. {outbound.ADVICE}"
            return Unreachable(says, code="outbound")
        why = "does not answer in time" if isinstance(error, requests.Timeout) else "cannot be reached"
        return Unreachable(
            f"The questions service at {self.url} {why}, so what Spark would say is not known. Check that the "
            "Pipelines API server runs there and that its address is right."
        )


def answer_in(body: bytes, seconds: float) -> Mapping[str, Any]:
    """The answer in what a questions service sends. Raises as `Answers.ask`."""
    try:
        reply = read_json(body)
    except TooMany:
        too_large()
    except ValueError:
        unreadable()
    if not isinstance(reply, dict):
        unreadable()
    if not isinstance(reply.get("answer"), dict):
        raise_error(str(reply.get("error") or ""), str(reply.get("sentence") or ""), seconds)
    answer: dict[str, Any] = reply["answer"]
    return answer


def raise_error(code: str, sentence: str, seconds: float) -> NoReturn:
    """What the service says in place of an answer, raised: each code is an outcome of its own."""
    known: dict[str, type[RepriseError]] = {
        "unreachable": Unreachable,
        "refused": Refused,
        "wrong_use": WrongUse,
    }
    if code in known:
        raise known[code](sentence[:LONGEST_SENTENCE] or "Spark gave no answer.")
    if code == "late":
        late(seconds)
    if code == "too_large":
        too_large()
    if code == "ended":
        raise Refused(
            "The process that read the pipeline's code ended without an answer: the code may end its process, or "
            "the machine may be out of memory. The log of the Pipelines API server has its last words."
        )
    if code == "bug":
        raise RuntimeError(sentence[:LONGEST_SENTENCE] or "the question failed")
    unreadable()


def late(seconds: float) -> NoReturn:
    raise Unreachable(
        f"Spark did not finish the answer within {seconds:.0f} s; check its load, then try again.",
        code="answer_late",
    )


def too_large() -> NoReturn:
    raise Refused(
        f"The answer is larger than {MOST_ANSWER >> 20} MB or {MOST_VALUES} values and was not read. What the "
        "pipeline's code adds to it, as the names of its columns, has to be less.",
        code="answer_too_large",
    )


def unreadable() -> NoReturn:
    raise Unreachable(
        "What came as an answer is none, so what Spark would say is not known: the pipeline's code may have written "
        "it, or the questions service is of another version.",
        code="answer_unreadable",
    )


def checked(kind: type[T], answer: Mapping[str, Any]) -> T:
    """The answer as a value of this class. Raises Unreachable (`answer_unreadable`) for one of another shape."""
    try:
        return _adapter(kind).validate_python(dict(answer))
    except (ValidationError, RecursionError):
        unreadable()


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


_adapters: dict[type, TypeAdapter[Any]] = {}


def sent(request: Any) -> dict[str, Any]:
    """A request as JSON, without who is asked: `answers` of it and of what it holds stay here."""
    return {
        each.name: _plain(getattr(request, each.name)) for each in fields(request) if each.name != "answers"
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return sent(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (tuple, list)) else value


def _session(token: str, allowed: outbound.AllowedAddresses | None) -> requests.Session:
    """As `recovery.pipelines.transport`: no proxy, no .netrc, and no address that no one allowed."""
    session = requests.Session() if allowed is None else outbound.session(allowed)
    session.trust_env = False
    session.auth = _QuestionsBearer(token)
    return session


class _QuestionsBearer(requests.auth.AuthBase):
    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request
