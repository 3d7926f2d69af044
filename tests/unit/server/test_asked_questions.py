"""The route of questions: who may ask, what a question may name, and what comes back while the fork works."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory

from recovery.errors import WrongUse
from recovery.server import instance as instances
from recovery.server.confinement import Confinement, PathAccess
from recovery.server.instance import ServerInstance
from recovery.server.jail import machine_confinement
from recovery.server.problems import ApiProblem
from recovery.server.process import parse_remotes
from recovery.server.questions import AskedQuestion, TooManyQuestions
from recovery.server.reach import refuse_paths_beyond
from recovery.sources.input_ranges import InputRange
from recovery.spark.api import MeasureRequest, RehearsalRequest, StudyRequest, WholeInput
from recovery.spark.asking import Service, sent
from tests.unit.server.api import TOKEN, Asker

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])

PLACE = "/x-reprise/questions"
QUESTION = {"question": "places", "request": {"tables": []}, "seconds": 5}
NOBODY = Service("http://nowhere", "")


class Forks:
    """Notes what it is asked, and answers at once; or is busy."""

    def __init__(self) -> None:
        self.asked: list[AskedQuestion] = []
        self.busy = False

    def ask(self, asked: AskedQuestion, *, gone: Any) -> Iterator[bytes]:
        if self.busy:
            raise TooManyQuestions
        self.asked.append(asked)
        return iter([b"\n", b'{"answer": {"driver": "d", "tables": {}}}\n'])


@pytest.fixture
def forks(asker: Asker) -> Forks:
    made = Forks()
    here: Any = instances.current_instance()
    here.questions, here.remotes = made, {"eu": "sc://eu:443/;token=t"}
    here.connect_to = lambda name: ServerInstance.connect_to(here, name) if name else "sc://own"
    return made


def test_the_answer_comes_after_blanks(asker: Asker, forks: Forks) -> None:
    request = RequestFactory().post(
        f"/api/2.0{PLACE}", json.dumps(QUESTION), "application/json", HTTP_AUTHORIZATION=f"Bearer {TOKEN}"
    )
    with contextlib.closing(asker.handler.get_response(request)) as response:
        assert response.status_code == 200
        body = b"".join(response.streaming_content)  # type: ignore[attr-defined]
    assert body.startswith(b"\n")
    assert json.loads(body) == {"answer": {"driver": "d", "tables": {}}}
    assert forks.asked == [AskedQuestion("places", {"tables": []}, 5, "sc://own")]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic Z29vZC10b2tlbjo=", f"Bearer {TOKEN}x"])
def test_whoever_shows_no_good_token_is_answered_nothing(
    asker: Asker, forks: Forks, header: str | None
) -> None:
    more = {} if header is None else {"HTTP_AUTHORIZATION": header}
    request = RequestFactory().post(f"/api/2.0{PLACE}", json.dumps(QUESTION), "application/json", **more)
    assert asker.handler.get_response(request).status_code == 401
    assert forks.asked == []


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"question": "shell"}, 400),
        ({"question": None}, 400),
        ({"request": None}, 400),
        ({"request": []}, 400),
        ({"seconds": 0}, 400),
        ({"seconds": 10**9}, 400),
        ({"seconds": None}, 400),
        ({"spark": "elsewhere"}, 400),
        ({"remote": "sc://elsewhere"}, 400),
        ({"request": {"scratch": "/etc/a"}}, 403),
        ({"request": {"scratch": "file:/HOME/secret"}}, 403),
    ],
)
def test_what_is_no_question_is_refused_before_a_fork_is_made(
    asker: Asker, forks: Forks, changed: dict[str, Any], status: int
) -> None:
    body = json.loads(json.dumps({**QUESTION, **changed}).replace("/HOME", str(asker.home)))
    assert asker.send("POST", PLACE, body).status == status
    assert forks.asked == []


def test_a_server_that_answers_enough_says_so(asker: Asker, forks: Forks) -> None:
    forks.busy = True
    assert asker.send("POST", PLACE, QUESTION).status == 429


def test_another_spark_is_named_and_its_address_stays_here(forks: Forks) -> None:
    here = instances.current_instance()
    assert here.connect_to("eu") == "sc://eu:443/;token=t"
    with pytest.raises(ApiProblem) as refused:
        here.connect_to("us")
    assert refused.value.status == 400


def test_other_sparks_are_given_a_line_each() -> None:
    text = "\neu  sc://eu:443/;token=t\nus sc://us:443/\n"
    assert parse_remotes(text) == {"eu": "sc://eu:443/;token=t", "us": "sc://us:443/"}
    with pytest.raises(WrongUse) as refused:
        parse_remotes("eu https://eu/?token=very-secret")
    assert "very-secret" not in refused.value.sentence


def every_path(path: str) -> list[dict[str, Any]]:
    """A question for each field that names a file, as the console sends it."""
    study = StudyRequest(NOBODY, {}, "", (), {}, "c", "s", "c.s.t")
    slices = {"new": {"0": InputRange("files", (path,)).as_dict()}}
    with_sets = StudyRequest(NOBODY, {}, "", (), {}, "c", "s", "c.s.t", sets={"new": (path,)})
    written = StudyRequest(NOBODY, {}, "", (), {}, "c", "s", "c.s.t", write={"new": path})
    sliced = StudyRequest(NOBODY, {}, "", (), {}, "c", "s", "c.s.t", slices=slices)
    requests: list[Any] = [
        *(with_sets, written, sliced),
        MeasureRequest(NOBODY, "t", (path,), (), study),
        MeasureRequest(NOBODY, "t", (), (path,), study),
        MeasureRequest(NOBODY, "t", (), (), with_sets),
        MeasureRequest(NOBODY, "t", (), (), study, expected=path),
        MeasureRequest(NOBODY, "t", (), (), study, whole=WholeInput(files=(path,))),
        MeasureRequest(NOBODY, "t", (), (), study, whole=WholeInput(slices=slices["new"])),
        RehearsalRequest(study, path),
    ]
    return [json.loads(json.dumps(sent(request))) for request in requests]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("{home}/storage/a", True),
        ("file:{home}/warehouse/a", True),
        ("file://{home}/incident/a#1?", True),
        ("{data}/a", True),
        ("s3a://bucket/a", True),
        ("{home}/pipelines.token", False),
        ("file:{home}/pipelines.sqlite3", False),
        ("FILE:///{home}/logs", False),
        ("{home}/storage/../audit.key", False),
        ("{data}/link/audit.key", False),
        ("/etc/passwd", False),
        ("/sys/kernel/a", False),
        ("relative/a", False),
        ("http://127.0.0.1/a", False),
        ("zip://a::file:/b", False),
    ],
)
def test_a_question_names_places_of_data_and_nothing_of_the_server_s_own(
    tmp_path: Path, path: str, shown: bool
) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    for folder in (home / "storage", home / "warehouse", home / "incident", home / "logs", data):
        folder.mkdir(parents=True)
    (data / "link").symlink_to(home)
    path = path.format(home=home, data=data)
    confinement = machine_confinement(home=home, writable=[home / "incident"])
    for request in every_path(path):
        if shown:
            refuse_paths_beyond(request, confinement)
            continue
        with pytest.raises(ApiProblem) as refused:
            refuse_paths_beyond(request, confinement)
        assert refused.value.status == 403


def test_where_roots_are_set_nothing_lies_beside_them(tmp_path: Path) -> None:
    for name in ("home/storage", "data", "other"):
        (tmp_path / name).mkdir(parents=True)
    confinement = machine_confinement(home=tmp_path / "home", data_roots=[tmp_path / "data"])
    allowed = []
    for name in ("data", "home/storage", "other", "home"):
        with contextlib.suppress(ApiProblem):
            refuse_paths_beyond({"scratch": f"{tmp_path}/{name}/a"}, confinement)
            allowed.append(name)
    assert allowed == ["data", "home/storage"]


def test_the_machine_is_asked_once_for_the_paths_of_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Confinement] = []
    entries = Confinement.entries

    def counted(self: Confinement) -> dict[Path, PathAccess]:
        asked.append(self)
        return entries(self)

    monkeypatch.setattr(Confinement, "entries", counted)
    files = [f"file://{tmp_path}/{number}/part.json" for number in range(300)]
    refuse_paths_beyond({"files": files}, Confinement(hidden=(tmp_path / "hidden",)))
    assert len(asked) == 1
