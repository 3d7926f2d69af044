"""Settings, read only: workspaces as the poller sees them. People have a page of their own."""

from django.db.models import Count
from django.http import HttpResponse

from console.middleware import Request
from console.pages.base import page, show
from recovery.models import Workspace
from recovery.people.roles import Actor, Right


@page(Right.MANAGE)
def overview(request: Request, by: Actor) -> HttpResponse:
    context = {
        "section": "settings",
        "workspaces": Workspace.objects.annotate(pipelines_count=Count("pipelines")).order_by("name"),
    }
    return show(request, "settings/overview.html", context)
