"""Workspaces by API: the same door, the same refusals, no secret in an answer."""

import json
from typing import Any

import pytest
from django.test import Client

from recovery.models import AuditEntry, Workspace
from recovery.pipelines import tasks
from recovery.workflow import broker
from tests.unit.people.run import token_of

pytestmark = pytest.mark.django_db
SECRET = "dapi0123456789abcdef0123456789abcdef"
GIVEN = {"name": "main-eu", "url": "http://127.0.0.1:9", "token": SECRET}


def call(method: str, path: str, body: Any = None, role: str = "admin") -> tuple[int, Any]:
    token = token_of(role, role)  # type: ignore[arg-type]
    answer = Client().generic(
        method,
        f"/api/v1/{path}",
        data=json.dumps(body or {}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert SECRET not in answer.content.decode()
    return answer.status_code, json.loads(answer.content)


def test_from_added_to_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(tasks.test_workspace, "delay", lambda *args: None)
    code, made = call("POST", "workspaces", GIVEN)
    assert (code, made["environment"], made["token"], made["test"]) == (
        201,
        "production",
        "kept encrypted",
        None,
    )
    assert call("PATCH", "workspaces/main-eu", {"environment": "staging"})[1]["environment"] == "staging"
    assert call("PATCH", "workspaces/main-eu", {"on": False})[1]["on"] is False
    assert call("POST", "workspaces/main-eu/test")[0] == 202
    assert call("GET", "workspaces")[1]["workspaces"][0]["test_asked_at"]
    assert call("DELETE", "workspaces/main-eu", {"reason": "moved"})[0] == 200
    assert call("GET", "workspaces/main-eu")[0] == 404
    assert Workspace.objects.get().removed_at is not None


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", "workspaces", {"name": "x", "url": "http://169.254.169.254", "token": "t"}, 409),
        ("POST", "workspaces", {"name": "x", "url": "http://127.0.0.1:9", "tokne": "t"}, 400),
        ("POST", "workspaces", {"name": "x", "url": "http://127.0.0.1:9"}, 400),
        ("PATCH", "workspaces/none", {"environment": "staging"}, 404),
    ],
)
def test_refusals(method: str, path: str, body: Any, code: int) -> None:
    assert call(method, path, body)[0] == code
    assert not Workspace.objects.exists()


def test_a_change_that_is_refused_changes_nothing() -> None:
    call("POST", "workspaces", GIVEN)
    for body in ({"environment": "development", "on": "no"}, {"on": False, "environment": "live"}):
        assert call("PATCH", "workspaces/main-eu", body)[0] == 400
        row = Workspace.objects.get()
        assert (row.environment, row.on) == ("production", True)
    told = call("PATCH", "workspaces/main-eu", {"environment": "staging", "on": False})[1]
    assert (told["environment"], told["on"]) == ("staging", False)
    assert AuditEntry.objects.filter(action="workspace.change", outcome="done").count() == 1


def test_only_an_admin() -> None:
    assert call("POST", "workspaces", GIVEN, "responder")[0] == 403
    assert call("GET", "workspaces", role="viewer")[0] == 403
