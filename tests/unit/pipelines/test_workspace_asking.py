"""The test of a workspace: six questions, what each answers, and what each missing right costs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Unreachable
from recovery.models import Workspace
from recovery.pipelines import workspace_asking, workspace_words
from recovery.pipelines.workspace_answers import (
    AnswerResult,
    LackOf,
    Question,
    WorkspaceLack,
    WorkspaceTest,
)
from recovery.spark.api import CatalogState
from tests.unit.pipelines.stub import Answer, Asked, serving

JSON = {"Content-Type": "application/json"}
SPEC = {"storage": "", "libraries": [{"glob": {"include": "/Users/x/p/**"}}]}


def grants(level: str, who: str = "svc") -> dict[str, Any]:
    return {"access_control_list": [{"user_name": who, "all_permissions": [{"permission_level": level}]}]}


def answering(tmp_path: Path, **changed: Any) -> Callable[[Asked], Answer]:
    """A workspace that grants everything; `changed` by the last part of a path: a status, or a body."""
    good: dict[str, Any] = {
        "pipelines": {"statuses": [{"pipeline_id": "p-1", "name": "shop"}]},
        "p-1": {
            "pipeline_id": "p-1", "name": "shop", "latest_updates": [{}],
            "spec": {**SPEC, "storage": f"file:{tmp_path}"},
        },
        "Me": {"userName": "svc", "groups": [{"display": "admins"}]},
        "events": {"events": [{"id": "e"}]},
        "get-status": {"object_type": "DIRECTORY"},
        "list": {"jobs": []},
        "permissions": grants("CAN_MANAGE"),
    }  # fmt: skip

    def answer(asked: Asked) -> Answer:
        kind = "permissions" if "/permissions/" in asked.path else asked.path.rsplit("/", 1)[-1]
        told = changed.get(kind, good.get(kind, 404))
        if isinstance(told, int):
            return Answer(told, {"error_code": "X", "message": f"no: {kind}"}, JSON)
        return Answer(200, told, JSON)

    return answer


def asked_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, questions: bool = True, **changed: Any
) -> tuple[WorkspaceTest, list[str]]:
    (tmp_path / "_checkpoints").mkdir(exist_ok=True)
    monkeypatch.setenv("T", "rp_1")
    monkeypatch.setattr(
        workspace_asking, "whereabouts", lambda *a, **k: CatalogState("local-1 1763860000000 4.2.0", {})
    )
    with serving(answering(tmp_path, **changed)) as stub:
        row = Workspace(
            name="main", url=stub.url, token_ref="env:T", questions_url=stub.url if questions else ""
        )
        return workspace_asking.answers_of(row), stub.paths()


def results(test: WorkspaceTest) -> list[str]:
    return [a.result.value for a in test.answers]


def lacks(test: WorkspaceTest) -> dict[str, tuple[str, ...]]:
    return {f"{a.question}:{lack.code}": lack.pipelines for a in test.answers for lack in a.lacks}


def test_where_nothing_is_missing_all_six_hold_and_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test, paths = asked_of(monkeypatch, tmp_path)

    assert [a.question for a in test.answers] == [q for q in Question if q is not Question.LOGS]
    assert results(test) == ["holds"] * 6
    assert {p.split()[0] for p in paths} == {"GET"}
    by = {a.question: a for a in test.answers}
    assert by[Question.TOKEN].account == "svc"
    assert (by[Question.READ].tried, by[Question.READ].held) == (1, 1)
    assert by[Question.SPARK].version == "4.2.0"
    assert by[Question.ANSWERS].milliseconds is not None
    assert WorkspaceTest.from_dict(test.as_dict()) == test


def test_a_test_of_a_later_version_is_read_without_what_is_not_known_here() -> None:
    known = {"question": "spark", "result": "fails", "later": 1}
    lacks = [
        {"code": code, "pipelines": [], "detail": ""} for code in ("of_a_later_version", "spark_no_answer")
    ]
    answers = [
        {**known, "lacks": lacks},
        {**known, "result": "of_a_later_version", "lacks": []},
        {**known, "question": "of_a_later_version", "lacks": []},
    ]

    found = WorkspaceTest.from_dict({"at": "2026-11-23T04:00:00+00:00", "seconds": 1.0, "answers": answers})

    assert found is not None
    assert [(a.question, a.result, a.lacks) for a in found.answers] == [
        (Question.SPARK, AnswerResult.FAILS, (WorkspaceLack(LackOf.SPARK),)),
        (Question.SPARK, AnswerResult.UNKNOWN, ()),
    ]


@pytest.mark.parametrize(
    ("changed", "question", "result", "code"),
    [
        ({"pipelines": 500}, Question.ANSWERS, AnswerResult.FAILS, LackOf.ANSWER),
        ({"pipelines": 404}, Question.ANSWERS, AnswerResult.FAILS, LackOf.API),
        ({"pipelines": 401, "Me": 401}, Question.TOKEN, AnswerResult.FAILS, LackOf.TOKEN),
        ({"pipelines": 403}, Question.READ, AnswerResult.FAILS, LackOf.LIST),
        ({"p-1": 403}, Question.READ, AnswerResult.FAILS, LackOf.PIPELINE),
        ({"events": 403}, Question.READ, AnswerResult.PART, LackOf.EVENTS),
        ({"get-status": 403}, Question.READ, AnswerResult.PART, LackOf.CODE),
        ({"list": 403}, Question.READ, AnswerResult.PART, LackOf.JOBS),
        ({"Me": 404}, Question.ACT, AnswerResult.UNKNOWN, LackOf.ACCOUNT),
        ({"permissions": 403}, Question.ACT, AnswerResult.UNKNOWN, LackOf.RIGHTS),
        ({"permissions": grants("CAN_RUN")}, Question.ACT, AnswerResult.PART, LackOf.EDIT),
        ({"permissions": grants("CAN_VIEW")}, Question.ACT, AnswerResult.FAILS, LackOf.RUN),
        ({"permissions": grants("IS_OWNER", "somebody")}, Question.ACT, AnswerResult.FAILS, LackOf.RUN),
        (
            {"p-1": {"pipeline_id": "p-1", "name": "shop", "spec": SPEC}},
            Question.CHECKPOINTS,
            AnswerResult.FAILS,
            LackOf.STORAGE,
        ),
    ],
)
def test_what_is_missing_has_a_code_and_a_cost(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    changed: dict[str, Any],
    question: Question,
    result: AnswerResult,
    code: LackOf,
) -> None:
    test, _ = asked_of(monkeypatch, tmp_path, **changed)

    answer = next(a for a in test.answers if a.question is question)
    assert answer.result is result
    assert code in [lack.code for lack in answer.lacks]
    line = workspace_words.lines(test)[list(Question).index(question)]
    assert workspace_words.COSTS[code] in line.means


def test_a_job_api_that_is_not_there_is_no_missing_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test, _ = asked_of(monkeypatch, tmp_path, list=404)
    assert results(test) == ["holds"] * 6


def test_after_an_answer_that_forbids_it_nothing_more_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test, paths = asked_of(monkeypatch, tmp_path, pipelines=401, Me=401)
    assert results(test) == ["holds", "fails", "not_asked", "not_asked", "not_asked", "holds"]
    assert not [p for p in paths if "p-1" in p]


def test_a_group_grants_its_members(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    level = [{"permission_level": "CAN_MANAGE"}]
    by_group = {"access_control_list": [{"group_name": "admins", "all_permissions": level}]}
    assert asked_of(monkeypatch, tmp_path, permissions=by_group)[0].held == 6


NO_FOLDER = WorkspaceLack(LackOf.CHECKPOINTS, ("shop",), "no such folder")


@pytest.mark.parametrize("root", ["", "none"])
@pytest.mark.parametrize(
    ("newest", "listed", "lacks_without_a_root"),
    [
        ([], [], ()),
        ([{"state": "FAILED"}], [{"state": "FAILED"}], ()),
        ([{"state": "FAILED"}], [{"state": "FAILED"}, {"state": "COMPLETED"}], (NO_FOLDER,)),
        ([{"state": "FAILED"}], 403, (NO_FOLDER,)),
        ([{"state": "COMPLETED"}], [], (NO_FOLDER,)),
        ([{"state": "CANCELED"}], [], (NO_FOLDER,)),
        ([{}], [], (NO_FOLDER,)),
    ],
)
def test_no_checkpoints_are_new_where_the_root_is_seen_or_no_update_got_on(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    root: str,
    newest: list[Any],
    listed: list[Any] | int,
    lacks_without_a_root: tuple[WorkspaceLack, ...],
) -> None:
    (tmp_path / "seen").mkdir()
    pipeline = {
        "pipeline_id": "p-1", "name": "shop", "latest_updates": newest,
        "spec": {"storage": f"file:{tmp_path}/seen{'/' + root if root else ''}"},
    }  # fmt: skip
    updates = {"updates": listed} if isinstance(listed, list) else listed

    test, _ = asked_of(monkeypatch, tmp_path, **{"p-1": pipeline, "updates": updates})

    answer = next(a for a in test.answers if a.question is Question.CHECKPOINTS)
    lacks = lacks_without_a_root if root else ()
    assert (answer.lacks, answer.new, answer.held) == (lacks, 0 if lacks else 1, 0 if lacks else 1)


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T", "rp_1")
    test = workspace_asking.answers_of(Workspace(name="x", url="http://127.0.0.1:9", token_ref="env:T"))
    assert results(test) == ["fails", *["not_asked"] * 4, "fails"]
    assert not test.reached
    assert set(lacks(test)) == {"answers:no_answer", "spark:questions_not_named"}


def test_an_address_that_turned_inward_is_not_asked(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setenv("T", "rp_1")
    settings.REPRISE_OUTBOUND_ALLOW = ""
    with serving(lambda asked: Answer()) as stub:
        test = workspace_asking.answers_of(Workspace(name="x", url=stub.url, token_ref="env:T"))
        assert stub.asked == []
    assert "answers:address_not_allowed" in lacks(test)


def test_a_token_that_cannot_be_read_here_is_not_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    test = workspace_asking.answers_of(Workspace(name="x", url="http://127.0.0.1:9", token_ref="env:NOT_SET"))
    assert (test.answers[0].result, set(lacks(test))) == (
        AnswerResult.UNKNOWN,
        {"answers:secret_not_readable", "spark:questions_not_named"},
    )


def test_spark_that_does_not_answer_costs_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise Unreachable("gone; token=abc")

    monkeypatch.setenv("T", "rp_1")
    monkeypatch.setattr(workspace_asking, "whereabouts", away)
    row = Workspace(
        name="main", url="http://127.0.0.1:9", token_ref="env:T", questions_url="http://127.0.0.1:9"
    )
    spark = workspace_asking.answers_of(row).answers[5]
    assert (spark.result, spark.lacks[0].code) == (AnswerResult.FAILS, LackOf.SPARK)


def test_every_code_has_its_words_and_its_cost() -> None:
    assert set(workspace_words.LACKS) == set(workspace_words.COSTS) == set(LackOf)
    assert set(workspace_words.ASKED) == set(Question)
    assert set(workspace_words.RESULTS) == set(AnswerResult)
