"""Who acts on the command line: the owner of the token, or nobody."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class
from django.db import OperationalError

from recovery.errors import WrongUse
from recovery.management.commands._base import shown, table, token_text
from recovery.models import AuditEntry, Token
from recovery.people.roles import Role
from tests import command_server
from tests.unit.people.run import run, run_json, token_of

COMMANDS = [("flows",), ("diagnose", "shop"), ("audit", "verify"), ("audit", "export"), ("token",)]


@pytest.mark.django_db
@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_token_nothing_is_done(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    code, out, err = run(monkeypatch, None, *command)
    assert (code, out) == (2, "")
    assert "set REPRISE_TOKEN" in err
    code, found = run_json(monkeypatch, None, *command)
    assert (code, found["error"]["code"]) == (2, "wrong_use")


@pytest.mark.django_db
@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_token_is_denied_and_audited(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    code, found = run_json(monkeypatch, "rp_wrong", *command)
    assert (code, found["error"]["code"]) == (1, "denied")
    assert "not known here" in found["error"]["says"]
    assert AuditEntry.objects.values_list("action", "outcome").get() == ("token.refused", "denied")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "role", "code"),
    [
        (("flows",), Role.VIEWER, 0),
        (("audit", "verify"), Role.VIEWER, 1),
        (("audit", "verify"), Role.RESPONDER, 0),
        (("audit", "export"), Role.RESPONDER, 1),
        (("audit", "export"), Role.AUDITOR, 0),
    ],
)
def test_the_owners_rights_decide(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], role: Role, code: int
) -> None:
    token = token_of("ada", role)
    assert run(monkeypatch, token, *command)[0] == code
    denied = AuditEntry.objects.filter(outcome="denied", actor="ada", via="command")
    assert denied.count() == (1 if code else 0)


@pytest.mark.django_db
def test_a_token_makes_another_for_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of("ada", Role.VIEWER)
    code, found = run_json(monkeypatch, token, "token", "--name", "second", "--days", "7")
    assert (code, found["owner"], found["name"]) == (0, "ada", "second")
    assert run(monkeypatch, found["token"], "flows")[0] == 0
    assert Token.objects.get(name="second").expires_at is not None
    assert "Keep it now" in run(monkeypatch, token, "token")[1]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("by", "account", "code", "says"),
    [
        (Role.ADMIN, "bot", 0, ""),
        (Role.VIEWER, "bot", 1, "may not"),
        (Role.ADMIN, "eve", 1, "no one can act as someone else"),
        (Role.ADMIN, "nobody", 2, "no account 'nobody'"),
    ],
)
def test_a_token_for_a_service_account_is_an_admins(
    monkeypatch: pytest.MonkeyPatch, by: Role, account: str, code: int, says: str
) -> None:
    token_of("bot", Role.RESPONDER, service=True)
    token_of("eve", Role.VIEWER)
    ended, _, err = run(monkeypatch, token_of("ada", by), "token", account)
    assert ended == code
    assert says in err


def test_a_token_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").write_text("rp_file\n")
    (tmp_path / "empty").write_text("")
    monkeypatch.setenv("REPRISE_TOKEN", "rp_environment")
    assert token_text(str(tmp_path / "t")) == "rp_file"
    assert token_text(None) == "rp_environment"
    for bad in ("empty", "missing", "."):
        with pytest.raises(WrongUse):
            token_text(str(tmp_path / bad))
    monkeypatch.delenv("REPRISE_TOKEN")
    monkeypatch.setenv("REPRISE_TOKEN_FILE", str(tmp_path / "t"))
    assert token_text(None) == "rp_file"


def manage(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "REPRISE_HOME": str(home), "REPRISE_TOKEN": "rp_x"}
    return command_server.run(arguments, environment)


def test_a_database_without_tables_is_one_sentence(home: Path) -> None:
    ended = manage(home, "flows", "--json")
    assert ended.returncode == 2
    assert json.loads(ended.stdout)["error"]["code"] == "no_tables"
    assert "Traceback" not in ended.stderr


def test_wrong_use_is_exit_2_and_one_object(home: Path) -> None:
    ended = manage(home, "audit", "burn", "--json")
    assert ended.returncode == 2
    assert ended.stdout.startswith('{"error": {"code": "wrong_use"')
    assert manage(home, "audit", "burn").stdout == ""


def test_columns_are_aligned_and_safe_on_a_terminal() -> None:
    lines = table(("A", "LONG"), [("x", "y"), ("longer", "\x1b[31mz")]).splitlines()
    assert lines == ["A       LONG", "x       y", "longer  \\x1b[31mz"]
    assert shown("a\nb") == "a\\nb"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("database is locked", "locked by another process"),
        ("canceling statement due to lock timeout\nLINE 1: …", "locked by another process"),
        ("no such table: recovery_token", "has no tables yet"),
        ('database "reprise" does not exist', "has no tables yet"),
        ("connection refused", r"cannot be used: connection refused\. Check REPRISE_HOME"),
    ],
)
def test_a_database_that_does_not_answer_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, said: str, words: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError(said)

    monkeypatch.setattr("recovery.management.commands._base.actor_for_token", fail)
    code, out, err = run(monkeypatch, "rp_any", "flows")
    assert (code, out) == (2, "")
    assert re.search(words, err)


def test_the_help_of_token_says_how_long_one_is_good(settings: Any) -> None:
    settings.REPRISE_TOKEN_DAYS = 90
    said = load_command_class("recovery", "token").create_parser("manage.py", "token").format_help()
    assert "most: 90 days." in " ".join(said.split())
    assert "for ever" not in said


@pytest.mark.parametrize("label", ["²", "R-²", "R-" + "9" * 5000])
@pytest.mark.django_db
def test_a_recovery_of_no_number_is_not_found(monkeypatch: pytest.MonkeyPatch, label: str) -> None:
    ada = token_of("ada", Role.RESPONDER)
    code, answer = run_json(monkeypatch, ada, "cancel", label, "--reason", "a test")
    assert (code, answer["error"]["code"]) == (2, "not_found")
