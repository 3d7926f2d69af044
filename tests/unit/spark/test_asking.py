"""What comes back from a questions service is other people's data: each way of being no answer has its outcome."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts.readers import SourceReader
from recovery.errors import Refused, RepriseError, Unreachable, WrongUse
from recovery.outbound import parse_allowed
from recovery.spark import asking
from recovery.spark.api import (
    CatalogState,
    DefinitionMeasure,
    Measure,
    Rehearsal,
    Study,
    StudyRequest,
    as_study,
    count,
    study,
    whereabouts,
)
from recovery.spark.asking import Service, checked, sent
from tests.unit.pipelines.stub import Answer, Asked, serving

TOKEN = "a-token"
SERVICE = Service("http://nowhere", TOKEN)
REQUEST = StudyRequest(SERVICE, {"/p/q.py": "code"}, "/p", ("/p/q.py",), {}, "c", "s", "c.s.t")


def outcome_of(body: Any, *, status: int = 200, **headers: str) -> tuple[type[RepriseError], str]:
    """The class and the code of what a study raises where the service says this."""
    with serving(lambda _: Answer(status, body, headers)) as stub:
        request = replace(REQUEST, answers=Service(stub.url, TOKEN))
        with pytest.raises(RepriseError) as caught:
            study(request, timeout=1)
    assert TOKEN not in caught.value.sentence
    assert len(caught.value.sentence) < 3000
    return type(caught.value), caught.value.code


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b"", (Unreachable, "answer_unreadable")),
        (b"<html>", (Unreachable, "answer_unreadable")),
        (b"[" * 100_000, (Unreachable, "answer_unreadable")),
        (b'{"answer": ', (Unreachable, "answer_unreadable")),
        ([], (Unreachable, "answer_unreadable")),
        ({}, (Unreachable, "answer_unreadable")),
        ({"answer": 3}, (Unreachable, "answer_unreadable")),
        ({"error": "of another version"}, (Unreachable, "answer_unreadable")),
        ({"answer": {"rows": "many"}}, (Unreachable, "answer_unreadable")),
        ({"answer": {"rows": {"new": -1}}}, (Unreachable, "answer_unreadable")),
        ({"answer": {"problem": "x" * 200_000}}, (Unreachable, "answer_unreadable")),
        ({"answer": {"x": "x" * 300_000}}, (Refused, "answer_too_large")),
        ({"error": "too_large"}, (Refused, "answer_too_large")),
        ({"error": "late"}, (Unreachable, "answer_late")),
        ({"error": "ended"}, (Refused, "refused")),
        ({"error": "unreadable"}, (Unreachable, "answer_unreadable")),
        ({"error": "refused", "sentence": "x" * 9000}, (Refused, "refused")),
        ({"error": "unreachable", "sentence": "No."}, (Unreachable, "unreachable")),
        ({"error": "wrong_use", "sentence": "No."}, (WrongUse, "wrong_use")),
    ],
)
def test_what_is_no_answer_is_refused_or_not_known(
    body: Any, outcome: tuple[type[RepriseError], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_ANSWER", 250_000)
    assert outcome_of(body) == outcome


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (401, (Unreachable, "questions_token")),
        (403, (Unreachable, "questions_token")),
        (404, (Unreachable, "no_questions")),
        (400, (Refused, "refused")),
        (413, (Refused, "refused")),
        (500, (Unreachable, "unreachable")),
        (302, (Unreachable, "unreachable")),
    ],
)
def test_a_refusal_of_the_service_says_what_to_do(
    status: int, outcome: tuple[type[RepriseError], str]
) -> None:
    body = {"error_code": "X", "message": f"no {TOKEN} " + "x" * 9000}
    assert outcome_of(body, status=status, Location="http://127.0.0.1:1/") == outcome


def test_a_place_that_the_service_shows_to_no_question_is_refused() -> None:
    body = {"error_code": "PERMISSION_DENIED", "message": "no place of data"}
    assert outcome_of(body, status=403) == (Refused, "refused")


def test_a_bug_on_the_other_side_is_seen_as_one() -> None:
    with (
        serving(lambda _: Answer(200, {"error": "bug", "sentence": "KeyError: 'x'"})) as stub,
        pytest.raises(RuntimeError, match="KeyError"),
    ):
        whereabouts(Service(stub.url, TOKEN), [])


def test_the_service_is_asked_with_its_token_and_is_told_no_secret_in_the_request() -> None:
    with serving(lambda _: Answer(200, {"answer": {"rows": {"new": 3}}})) as stub:
        service = Service(stub.url + "/", TOKEN, "eu", environment="staging")
        found = study(replace(REQUEST, answers=service), timeout=7)
    (asked,) = stub.asked
    assert found.rows == {"new": 3}
    assert (asked.method, asked.path) == ("POST", "/api/2.0/x-reprise/questions")
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in json.dumps(asked.body)
    assert (asked.body["question"], asked.body["seconds"], asked.body["spark"]) == ("study", 7, "eu")
    assert asked.body["environment"] == "staging"
    assert asked.body["request"] == sent(REQUEST)


def test_a_service_that_answers_enough_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PAUSE_SECONDS", 0.01)
    answers = iter([Answer(429), Answer(503), Answer(200, b'\n\n{"answer": {"rows": 5}}\n')])

    def answer(asked: Asked) -> Answer:
        return next(answers)

    with serving(answer) as stub:
        assert count(Service(stub.url, TOKEN), "t", {}) == 5
    assert len(stub.asked) == 3


def test_what_was_asked_once_and_lost_is_not_asked_again() -> None:
    with serving(lambda _: Answer(drop=True)) as stub, pytest.raises(Unreachable) as caught:
        whereabouts(Service(stub.url, TOKEN), [])
    assert (caught.value.code, len(stub.asked)) == ("unreachable", 1)


def test_an_address_that_nobody_allowed_is_not_asked() -> None:
    with serving(lambda _: Answer()) as stub, pytest.raises(Unreachable) as caught:
        whereabouts(Service(stub.url, TOKEN, allowed=parse_allowed("")), [])
    assert (caught.value.code, stub.asked) == ("outbound", [])


@contextmanager
def dripping(head: bytes, piece: bytes) -> Iterator[str]:
    """A server that sends `head`, then `piece` again and again, for as long as it is heard."""
    ending = threading.Event()

    def serve(listener: socket.socket) -> None:
        line = listener.accept()[0]
        with line:
            line.sendall(head)
            try:
                while not ending.wait(0.02):
                    line.sendall(piece)
            except OSError:
                return

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=serve, args=[listener])
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ending.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_blanks_without_end_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GRACE_SECONDS", 0.2)
    with dripping(HEAD, b"1\r\n\n\r\n") as url, pytest.raises(Unreachable) as caught:
        whereabouts(Service(url, TOKEN), [], timeout=0.3)
    assert caught.value.code == "answer_late"


def test_a_line_on_which_nothing_comes_is_not_waited_for_as_long_as_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "SILENCE_SECONDS", 0.2)
    with dripping(HEAD, b"") as url, pytest.raises(Unreachable) as caught:
        whereabouts(Service(url, TOKEN), [], timeout=600)
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (
            Study,
            {
                "operators": ["dedupe"],
                "columns": ["a"],
                "rests_on": [],
            },
        ),
        (Measure, {"samples": {"missing": [{"a": 1}]}, "whole": {"samples": [{"a": None}], "absent": 0}}),
        (DefinitionMeasure, {"unsure": ["rand"], "rows": 3}),
        (Rehearsal, {"rows": 1, "watermark_ms": -5, "why": ""}),
        (CatalogState, {"driver": "d", "tables": {"t": {"location": "file:/t", "made": ""}}}),
    ],
)
def test_an_answer_is_a_value_of_its_class_whose_lists_are_tuples(kind: Any, answer: dict[str, Any]) -> None:
    value = checked(kind, answer)
    assert isinstance(value, kind)
    assert json.loads(json.dumps(sent(value))) == json.loads(
        json.dumps(sent(value) | answer | partial(value, answer))
    )
    for name, given in answer.items():
        if isinstance(given, list):
            assert getattr(value, name) == tuple(given)


def partial(value: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """Values of other classes inside of it have fields that were not given."""
    return {"whole": sent(value)["whole"]} if isinstance(answer.get("whole"), dict) else {}


@pytest.mark.parametrize(
    "answer",
    [
        {"rows": []},
        {"rows": {"a": 1.5}},
        {"rows": {"a": None}},
        {"operators": "dedupe"},
        {"columns": [None]},
        {"sources": ["x"]},
        {"table_rows": -1},
        {"problem": {"a": 1}},
        {"driver": None},
    ],
)
def test_a_study_of_another_shape_is_no_study(answer: dict[str, Any]) -> None:
    with pytest.raises(Unreachable) as caught:
        as_study(answer)
    assert caught.value.code == "answer_unreadable"


@pytest.mark.parametrize(
    "source",
    [
        "kafka",
        {"format": 3},
        {"path": "x" * 200_000},
        {"options": {"x": 3}},
        {"options": {"x" * 200_000: ""}},
    ],
)
def test_an_answer_of_other_peoples_code_with_a_reader_of_another_shape_is_none(source: object) -> None:
    with pytest.raises(Unreachable) as caught:
        as_study({"sources": [source]})
    assert caught.value.code == "answer_unreadable"


def test_a_reader_in_an_answer_is_a_value() -> None:
    """What a newer release knows of it is left out."""
    by_name = {"format": "delta", "path": "shop.orders", "table": "shop.orders"}
    sent_by_spark = {**by_name, "options": {"startingVersion": "3"}, "location": None, "newer": True}
    reader = SourceReader(**by_name, options={"startingVersion": "3"})
    assert as_study({"sources": [sent_by_spark]}).sources == (reader,)
