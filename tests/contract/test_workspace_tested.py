"""`workspace test` against the real server, its storage and its Spark: every question has its true answer."""

from pathlib import Path

from recovery.models import Workspace
from recovery.pipelines.workspace_answers import AnswerResult, LackOf, Question
from recovery.pipelines.workspace_asking import answers_of
from tests.contract.lab import Api, PipelinesServer, Stream


def test_of_the_own_server_all_six_hold_and_a_wrong_token_fails(
    pipelines_server: PipelinesServer, api: Api, tmp_path: Path
) -> None:
    Stream(
        api, "tested"
    )  # at least one pipeline to try it on; what others do here may hinder a look at theirs
    (tmp_path / "wrong").write_text("rp_wrong")
    row = Workspace(
        name="own",
        url=pipelines_server.url,
        token_ref=f"file:{pipelines_server.home}/pipelines.token",
        questions_url=pipelines_server.url,
    )

    test = answers_of(row)

    by = {a.question: a for a in test.answers}
    lacks = {q: a.lacks for q, a in by.items() if a.result is not AnswerResult.HOLDS}
    assert set(lacks) <= {Question.CHECKPOINTS, Question.ACT, Question.READ}
    # a pipeline that another test deletes between the list and the question cannot be read, and has no rights list
    assert LackOf.LIST not in {lack.code for lack in lacks.get(Question.READ, ())}
    assert all(lack.pipelines for lack in lacks.get(Question.READ, ()))
    assert {lack.code for lack in lacks.get(Question.ACT, ())} <= {LackOf.RIGHTS}
    assert not [lack for found in lacks.values() for lack in found if "tested" in lack.pipelines]
    assert by[Question.SPARK].version.startswith("4.")
    assert by[Question.TOKEN].account
    assert by[Question.READ].tried

    row.token_ref = f"file:{tmp_path}/wrong"
    denied = {a.question: a for a in answers_of(row).answers}
    assert denied[Question.TOKEN].lacks[0].code is LackOf.TOKEN
    assert denied[Question.READ].result is AnswerResult.NOT_ASKED
