"""Settings > Workspaces: added, tested, changed, switched off and removed in the browser, no secret shown again."""

from typing import Any

import pytest
from django.test import Client

from console.pages import workspaces as pages
from recovery.models import AuditEntry, Workspace
from recovery.pipelines import tasks
from recovery.pipelines.workspace_answers import (
    AnswerResult,
    LackOf,
    Question,
    WorkspaceAnswer,
    WorkspaceLack,
    WorkspaceTest,
)
from recovery.pipelines.workspaces import token_of
from recovery.workflow import broker
from tests import factories

pytestmark = pytest.mark.django_db
SECRET = "dapi0123456789abcdef0123456789abcdef"
GIVEN = {"name": "main-eu", "url": "http://127.0.0.1:9", "environment": "production", "token": SECRET}
TESTED = WorkspaceTest(
    "2026-11-23T03:00:00+00:00",
    3.4,
    (
        WorkspaceAnswer(Question.ANSWERS, AnswerResult.HOLDS, milliseconds=84),
        WorkspaceAnswer(
            Question.READ,
            AnswerResult.PART,
            (WorkspaceLack(LackOf.EVENTS, ("shop",)),),
            pipelines=3,
            tried=3,
            held=2,
        ),
    ),
)


@pytest.fixture
def admin(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    client.force_login(factories.person("admin"))
    monkeypatch.setattr(pages, "unless_fresh", lambda request: None)
    monkeypatch.setattr(broker, "check", lambda: None)
    return client


def test_one_is_added_with_a_token_that_is_not_shown_again(admin: Client) -> None:
    assert admin.post("/settings/workspaces/new", GIVEN).status_code == 302
    row = Workspace.objects.get()
    assert (row.environment, token_of(row)) == ("production", SECRET)
    for path in ("/settings", "/settings/workspaces/main-eu"):
        page = admin.get(path).content.decode()
        assert "main-eu" in page
        assert SECRET not in page
        assert row.token_kept not in page


def test_a_new_one_is_production_unless_somebody_says_otherwise(admin: Client) -> None:
    page = admin.get("/settings/workspaces/new").content.decode()
    assert "<option selected>production</option>" in page


def test_what_was_typed_stays_after_a_refusal_but_no_secret(admin: Client) -> None:
    answer = admin.post("/settings/workspaces/new", {**GIVEN, "url": "http://169.254.169.254"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "main-eu" in page
    assert SECRET not in page
    assert not Workspace.objects.exists()


def test_it_is_changed_and_an_empty_secret_leaves_what_is_there(admin: Client) -> None:
    admin.post("/settings/workspaces/new", GIVEN)
    changed = {"url": GIVEN["url"], "environment": "staging", "token": "", "token_ref": ""}
    assert admin.post("/settings/workspaces/main-eu", changed).status_code == 302
    row = Workspace.objects.get()
    assert (row.environment, token_of(row)) == ("staging", SECRET)
    moved = {**changed, "url": "http://127.0.0.1:10"}
    assert admin.post("/settings/workspaces/main-eu", moved).status_code == 422


def test_it_is_switched_off_and_on_and_removed(admin: Client) -> None:
    admin.post("/settings/workspaces/new", GIVEN)
    for act, on in (("off", False), ("on", True)):
        assert admin.post("/settings", {act: "main-eu"}).status_code == 302
        assert Workspace.objects.get().on is on
    gone = {"remove": "1", "reason": "moved"}
    assert admin.post("/settings/workspaces/main-eu", gone).status_code == 302
    assert 'href="/settings/workspaces/main-eu"' not in admin.get("/settings").content.decode()
    assert AuditEntry.objects.get(action="workspace.remove").reason == "moved"
    assert admin.get("/settings/workspaces/main-eu").status_code == 404


def test_test_is_a_workers_and_its_answers_stand_on_the_page(
    admin: Client, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    admin.post("/settings/workspaces/new", GIVEN)
    sent: list[Any] = []
    monkeypatch.setattr(tasks.test_workspace, "delay", lambda *args: sent.append(args))
    with django_capture_on_commit_callbacks(execute=True):
        admin.post("/settings", {"test": "main-eu"})
        admin.post("/settings", {"test": "main-eu"})
    row = Workspace.objects.get()
    assert sent == [(row.pk,)]
    assert "disabled" in admin.get("/settings").content.decode()

    Workspace.objects.update(tested=TESTED.as_dict(), test_asked_at=None)
    page = admin.get("/settings").content.decode()
    assert 'data-code="read" data-value="part"' in page
    assert "1 of 2 hold" in page


def test_a_change_asks_for_a_fresh_sign_in(client: Client) -> None:
    client.force_login(factories.person("admin"))
    answer = client.post("/settings/workspaces/new", GIVEN)
    assert answer.headers["Location"].startswith("/reauthenticate")
    assert not Workspace.objects.exists()
