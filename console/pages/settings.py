"""Settings, read only: workspaces as the poller sees them, people and what their roles may."""

from django.contrib.auth.models import User
from django.db.models import Count
from django.http import HttpResponse

from console.middleware import Request
from console.pages.base import page, show
from recovery.models import Person, Workspace
from recovery.people.roles import RIGHTS, Actor, Right, Role

NOBODYS = {Right.PROVISION}
"""Rights of the system alone, which no person has."""


@page(Right.MANAGE)
def overview(request: Request, by: Actor) -> HttpResponse:
    people = (
        Person.objects.select_related("user")
        .annotate(tokens=Count("user__tokens"))
        .order_by("user__username")
    )
    roles = [r for r in Role if r is not Role.SYSTEM]
    rights = [
        (right.value, [(r.value, right in RIGHTS[r]) for r in roles])
        for right in Right
        if right not in NOBODYS
    ]
    context = {
        "section": "settings",
        "workspaces": Workspace.objects.annotate(pipelines_count=Count("pipelines")).order_by("name"),
        "people": people,
        "without": User.objects.filter(person=None).order_by("username"),
        "rights": rights,
        "roles": [r.value for r in roles],
    }
    return show(request, "settings/overview.html", context)
