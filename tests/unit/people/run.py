"""Runs a command as somebody: what it printed, and how it ended."""

import io
import json
from typing import Any

import pytest
from django.core.management import call_command

from recovery.models import Person
from recovery.people.actions import actor_for_user, create_person, create_token
from recovery.people.roles import SYSTEM, Role


def token_of(name: str, role: Role, *, service: bool = False) -> str:
    """A new person's token."""
    found = Person.objects.filter(user__username=name).first()
    password = None if service else "four calm words here"
    person = found or create_person(name=name, role=role, password=password, by=SYSTEM, service=service)
    by = actor_for_user(person.user, via="command")
    return create_token(owner=person.user, name="tests", by=by)


def run(monkeypatch: pytest.MonkeyPatch, token: str | None, *arguments: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command that acts by this token."""
    monkeypatch.delenv("REPRISE_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("REPRISE_TOKEN", token)
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def run_json(monkeypatch: pytest.MonkeyPatch, token: str | None, *arguments: str) -> tuple[int, Any]:
    """(exit code, the one JSON object on stdout)."""
    code, out, _ = run(monkeypatch, token, *arguments, "--json")
    assert out.count("\n") == 1, out
    return code, json.loads(out)
