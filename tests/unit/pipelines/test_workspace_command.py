"""`bin/manage workspace`: the same door as the page, exit codes of the contract."""

import io
import json
import sys
from typing import Any

import pytest
from django.core.management import load_command_class

from recovery.management.commands import workspace as command
from recovery.models import Workspace
from recovery.people.roles import Role
from recovery.pipelines.workspace_answers import AnswerResult, Question, WorkspaceAnswer, WorkspaceTest
from recovery.pipelines.workspaces import token_of as secret_of
from tests.unit.people.run import run, run_json, token_of

pytestmark = pytest.mark.django_db
SECRET = "dapi0123456789abcdef0123456789abcdef"
URL = "http://127.0.0.1:9"


@pytest.fixture
def admin() -> str:
    return token_of("ada", Role.ADMIN)


def add(monkeypatch: pytest.MonkeyPatch, token: str, *more: str) -> tuple[int, Any]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{SECRET}\n"))
    return run_json(monkeypatch, token, "workspace", "add", "main-eu", "--url", URL, "--secret", "-", *more)


def test_add_list_change_off_remove(monkeypatch: pytest.MonkeyPatch, admin: str) -> None:
    code, made = add(monkeypatch, admin)
    assert (code, made["workspace"]["environment"]) == (0, "production")
    assert secret_of(Workspace.objects.get()) == SECRET
    code, told = run_json(monkeypatch, admin, "workspace", "list")
    assert (code, [w["name"] for w in told["workspaces"]]) == (0, ["main-eu"])
    assert SECRET not in str(told)
    code, _ = run_json(monkeypatch, admin, "workspace", "change", "main-eu", "--environment", "staging")
    assert (code, Workspace.objects.get().environment) == (0, "staging")
    assert run_json(monkeypatch, admin, "workspace", "off", "main-eu")[1]["workspace"]["on"] is False
    assert run_json(monkeypatch, admin, "workspace", "remove", "main-eu", "--reason", "moved")[0] == 0
    assert run_json(monkeypatch, admin, "workspace", "list")[1] == {"workspaces": []}


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (((Question.ANSWERS, AnswerResult.HOLDS), (Question.SPARK, AnswerResult.HOLDS)), 0),
        (((Question.ANSWERS, AnswerResult.HOLDS), (Question.SPARK, AnswerResult.FAILS)), 1),
        (((Question.ANSWERS, AnswerResult.FAILS),), 2),
    ],
)
def test_test_ends_as_its_answers(
    monkeypatch: pytest.MonkeyPatch, admin: str, answers: tuple[tuple[Question, AnswerResult], ...], code: int
) -> None:
    add(monkeypatch, admin)
    found = WorkspaceTest("2026-11-23T03:00:00+00:00", 1.0, tuple(WorkspaceAnswer(*a) for a in answers))
    monkeypatch.setattr(command, "keep_test", lambda pk: found)
    ended, told = run_json(monkeypatch, admin, "workspace", "test", "main-eu")
    assert ended == code
    assert [q["result"] for q in told["test"]["questions"]] == [a[1].value for a in answers]
    assert run(monkeypatch, admin, "workspace", "test", "main-eu")[0] == code


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (
            ("add", "x", "--url", "http://169.254.169.254", "--secret", "env:REPRISE_WORKSPACE_X"),
            1,
            "outbound",
        ),
        (("add", "x", "--url", URL, "--secret", "env:HOME"), 2, "reference_name"),
        (("add", "x", "--url", URL, "--secret", "-", "--questions-secret", "-"), 2, "wrong_use"),
        (("test", "none"), 2, "not_found"),
    ],
)
def test_refusals(
    monkeypatch: pytest.MonkeyPatch, admin: str, arguments: tuple[str, ...], exit_code: int, code: str
) -> None:
    ended, told = run_json(monkeypatch, admin, "workspace", *arguments)
    assert (ended, told["error"]["code"]) == (exit_code, code)


def test_a_responder_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = add(monkeypatch, token_of("rob", Role.RESPONDER))
    assert (code, told["error"]["code"]) == (1, "denied")


@pytest.mark.parametrize("arguments", [("workspace", "add"), ("audit", "archive")])
def test_wrong_use_of_a_subcommand_is_one_json_object_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", *arguments, "--json"])
    name, *rest = arguments
    made = load_command_class("recovery", name)
    made._called_from_command_line = True
    with pytest.raises(SystemExit) as ended:
        made.create_parser("manage.py", name).parse_args([*rest, "--json"])
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "wrong_use"
