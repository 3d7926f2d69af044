"""Settings > Workspaces: which there are, what their last test found, and the forms that add and change one."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters

from console.middleware import PageRequest
from console.pages.base import is_unchanged, no_news, page, refusal_of, render_page
from console.pages.freshness import unless_fresh
from console.presenters import workspaces as presenting
from recovery import reach, references
from recovery.errors import RepriseError, WrongUse
from recovery.models import Flow, Workspace
from recovery.people.roles import ENVIRONMENTS, Actor, Right
from recovery.pipelines import actions
from recovery.pipelines.actions import WorkspaceDetails

FIELDS = (
    *("name", "url", "environment", "token_ref"),
    *("questions_url", "questions_token_ref", "questions_spark"),
)
"""What a form shows again; secrets that were typed are not among it."""


@page(Right.MANAGE, methods=("GET", "POST"))
def show_workspaces(request: PageRequest, by: Actor) -> HttpResponse:
    """All workspaces. POST `test` (a name), `test_all`, `on`, `off` acts."""
    refusal: RepriseError | None = None
    if request.method == "POST":
        act = _action_of(request.POST, by)
        refusal = refusal_of(act)
        if refusal is None:
            return redirect("settings")
    context = _overview_context()
    if request.GET.get("part") == "list":
        fresh = is_unchanged(request, context["version"])
        return no_news() if fresh else render(request, "settings/_workspaces.html", context)
    return render_page(request, "settings/overview.html", context, refusal=refusal)


def _action_of(given: QueryDict, by: Actor) -> Callable[[], object]:
    """What the pressed button does. Raises WrongUse for what no button sends."""
    if "test" in given:
        return partial(actions.request_test, name=given.get("test", ""), by=by)
    if "test_all" in given:
        names = Workspace.objects.active().order_by("name").values_list("name", flat=True)
        return lambda: [actions.request_test(name=name, by=by) for name in names]
    for act in ("on", "off"):
        if act in given:
            return partial(actions.switch_workspace, name=given.get(act, ""), on=act == "on", by=by)
    raise WrongUse("The page sent nothing that can be done here. Reload it, then try again.")


def _overview_context() -> dict[str, Any]:
    present = Q(pipelines__gone=False)
    workspaces = (
        Workspace.objects.kept()
        .annotate(flows_count=Count("pipelines__flows", filter=present, distinct=True))
        .order_by("name")
    )
    rows = [presenting.workspace_row(w) for w in workspaces]
    return {
        "section": "settings",
        "workspaces": rows,
        "flows_in_all": Flow.objects.filter(pipeline__gone=False).count(),
        "testing": any(r.testing for r in rows),
        "version": presenting.list_version(rows),
    }


@sensitive_post_parameters("token", "questions_token")
@page(Right.MANAGE, methods=("GET", "POST"))
def add_workspace(request: PageRequest, by: Actor) -> HttpResponse:
    """A new workspace: production, unless someone says otherwise."""
    given = {name: request.POST.get(name, "") for name in (*FIELDS, "roots", "kind", "event_logs")}
    if request.method != "POST":
        return _workspace_form(request, None, {**given, "environment": "production"}, None)
    if asked := unless_fresh(request):
        return asked
    refusal = refusal_of(
        lambda: actions.add_workspace(
            name=request.POST.get("name", ""), given=_read_given(request.POST), by=by
        )
    )
    if refusal is not None:
        return _workspace_form(request, None, given, refusal)
    messages.success(request, f"Workspace {given['name']} was added. Test it to see what it allows.")
    return redirect("settings")


@sensitive_post_parameters("token", "questions_token")
@page(Right.MANAGE, methods=("GET", "POST"))
def edit_workspace(request: PageRequest, by: Actor, workspace: str) -> HttpResponse:
    """Change a workspace; POST `remove` removes it. A secret that is left empty stays as it is."""
    row = actions.workspace_named(workspace)
    given = {field: getattr(row, field) for field in FIELDS} | {
        "roots": "\n".join(row.roots),
        "event_logs": "\n".join(row.event_logs),
    }
    if request.method != "POST":
        return _workspace_form(request, row, given, None)
    if asked := unless_fresh(request):
        return asked
    remove = "remove" in request.POST
    if remove:
        reason = request.POST.get("reason", "").strip()
        refusal = refusal_of(lambda: actions.remove_workspace(name=workspace, reason=reason, by=by))
    else:
        refusal = refusal_of(
            lambda: actions.change_workspace(name=workspace, given=_read_given(request.POST, row), by=by)
        )
    if refusal is not None:
        typed = {field: request.POST.get(field, given[field]) for field in given}
        return _workspace_form(request, row, given if remove else typed, refusal)
    said = "removed. Its recoveries and its audit entries stay" if remove else "changed. Test it again"
    messages.success(request, f"Workspace {workspace} was {said}.")
    return redirect("settings")


def _read_given(post: QueryDict, row: Workspace | None = None) -> WorkspaceDetails:
    """What the form sent; an empty secret, and a reference that is not another one, leave what is there."""
    refs = {
        field: post.get(field, "").strip()
        for field in ("token_ref", "questions_token_ref")
        if post.get(field, "").strip() != (getattr(row, field) if row else "")
    }
    token, questions_token = (post.get(name, "").strip() for name in ("token", "questions_token"))
    return WorkspaceDetails(
        url=post.get("url", "").strip(),
        environment=post.get("environment", ""),
        token_ref=refs.get("token_ref") or None,
        token=token or None,
        questions_url=post.get("questions_url", "").strip(),
        questions_token_ref=refs.get("questions_token_ref") or None,
        questions_token=questions_token or None,
        questions_spark=post.get("questions_spark", "").strip(),
        roots=reach.split(post.get("roots", "")),
        kind=None if row else post.get("kind") or None,
        event_logs=reach.split(post.get("event_logs", "")),
    )


def _workspace_form(
    request: PageRequest, row: Workspace | None, given: dict[str, Any], refusal: RepriseError | None
) -> HttpResponse:
    context = {
        "section": "settings",
        "workspace": row,
        "environment": row.environment if row else "",
        "given": given,
        "environments": ENVIRONMENTS,
        "rule": references.WORKSPACES.rule,
    }
    return render_page(
        request, "settings/workspace.html", context, refusal=refusal, status=422 if refusal else None
    )
