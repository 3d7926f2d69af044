"""Workspaces by API: as the page and `bin/manage workspace`. A test is a worker's: 202, then ask again with GET."""

from typing import Any

from console.api import fields
from console.api.base import Body
from recovery.contracts import codec
from recovery.models import Workspace
from recovery.people.roles import Actor
from recovery.pipelines import actions, workspace_words
from recovery.pipelines.actions import WorkspaceDetails
from recovery.pipelines.workspace_answers import WorkspaceTest

GIVEN = (
    *("url", "environment", "token_ref", "token"),
    *("questions_url", "questions_token_ref", "questions_token", "questions_spark", "roots"),
    *("kind", "event_logs"),
)
LISTS = ("roots", "event_logs")


def list_workspaces(body: Body, by: Actor) -> tuple[int, Body]:
    """`{workspaces: [...]}`, by name."""
    fields.allow_only(body, ())
    return 200, {"workspaces": [_show_workspace(w) for w in Workspace.objects.kept().order_by("name")]}


def add_workspace(body: Body, by: Actor) -> tuple[int, Body]:
    """{name, url, token_ref | token, environment, questions_url, questions_token_ref | questions_token,
    questions_spark, roots}, or {name, kind: streams, event_logs, environment, roots}: 201. Secrets never come back."""
    fields.allow_only(body, ("name", *GIVEN))
    row = actions.add_workspace(name=fields.read_text(body, "name"), given=_read_given(body), by=by)
    return 201, _show_workspace(row)


def show_workspace(body: Body, by: Actor, workspace: str) -> tuple[int, Body]:
    """One workspace with the answers of its last test."""
    fields.allow_only(body, ())
    return 200, _show_workspace(actions.workspace_named(workspace))


def change_workspace(body: Body, by: Actor, workspace: str) -> tuple[int, Body]:
    """What is not sent stays; {on: false} switches it off, {on: true} on."""
    fields.allow_only(body, ("on", *GIVEN))
    given, on = _read_given(body), fields.read_flag(body, "on") if "on" in body else None
    if set(body) - {"on"}:
        row = actions.change_workspace(name=workspace, given=given, on=on, by=by)
    elif on is not None:
        row = actions.switch_workspace(name=workspace, on=on, by=by)
    else:
        row = actions.workspace_named(workspace)
    return 200, _show_workspace(row)


def remove_workspace(body: Body, by: Actor, workspace: str) -> tuple[int, Body]:
    """{reason}: its secrets are erased; its recoveries and audit stay."""
    fields.allow_only(body, ("reason",))
    row = actions.remove_workspace(name=workspace, reason=fields.read_text(body, "reason", ""), by=by)
    return 200, {"removed": row.name}


def test_workspace(body: Body, by: Actor, workspace: str) -> tuple[int, Body]:
    """Have it tested; `test_asked_at` is null again when the answers are there."""
    fields.allow_only(body, ())
    return 202, _show_workspace(actions.request_test(name=workspace, by=by))


def _read_given(body: Body) -> WorkspaceDetails:
    texts = {name: fields.read_text(body, name, "") for name in GIVEN if name in body and name not in LISTS}
    roots, logs = (tuple(fields.read_texts(body, name)) if name in body else None for name in LISTS)
    return WorkspaceDetails(**texts, roots=roots, event_logs=logs)


def _show_workspace(row: Workspace) -> dict[str, Any]:
    return {
        **codec.to_json(actions.describe_workspace(row)),
        "polled_at": row.polled_at.isoformat() if row.polled_at else None,
        "problem": row.poll_error or None,
        "test_asked_at": row.test_asked_at.isoformat() if row.test_asked_at else None,
        "test": workspace_words.as_json(WorkspaceTest.from_dict(row.tested)),
    }
