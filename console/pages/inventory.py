"""The inventory: every flow of every workspace, what needs attention first."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from console.middleware import Request
from console.pages.base import no_news, page, show, unchanged
from console.presenters import inventory, pipelines, versions
from recovery.models import Flow, Pipeline, Recovery, Workspace
from recovery.people.roles import Actor, Right
from recovery.people.visible import where
from recovery.pipelines.alone import pipelines_alone
from recovery.pipelines.retention import with_sources


@page(Right.VIEW)
def flows(request: Request, by: Actor) -> HttpResponse:
    """The list; with `part=list` only the part that is polled."""
    wanted = inventory.Wanted.of(request.GET.dict())
    context = _context(wanted, by)
    if request.GET.get("part") != "list":
        return show(request, "inventory/page.html", context)
    if unchanged(request, context["version"]):
        return no_news()
    return render(request, "inventory/_list.html", context)


def _context(wanted: inventory.Wanted, by: Actor) -> dict[str, Any]:
    now = timezone.now()
    seen = Flow.objects.filter(where(by, "pipeline__"), pipeline__gone=False)
    found = with_sources(seen.select_related("pipeline__workspace"))
    open_ones = {r.flow_id: r for r in Recovery.objects.filter(where(by, "flow__pipeline__"), active=True)}
    every = inventory.rows(found, open_ones, now)
    alone = pipelines.rows(pipelines_alone(by))
    query = wanted.query()
    return {
        "section": "flows",
        "wanted": wanted,
        "inventory": inventory.arrange(every, wanted, alone),
        "shows": [(s, words, urlencode(wanted.query(show=s))) for s, words in inventory.SHOWS],
        "sorts": {s: urlencode(wanted.query(sort=s)) for s in inventory.SORTS},
        "environments": sorted(
            {r.flow.pipeline.environment for r in every} | {r.pipeline.environment for r in alone}
        ),
        "conditions": sorted(({r.flow.condition for r in every} | {r.condition for r in alone}) - {""}),
        "workspaces": list(Workspace.objects.active().order_by("name")),
        "pipelines": Pipeline.objects.filter(where(by), gone=False).count(),
        "poll": urlencode({**query, "part": "list"}),
        "version": versions.of_rows(every, now, alone),
    }


@page(Right.VIEW)
def polled(request: Request, by: Actor) -> HttpResponse:
    """How fresh the inventory is: the foot of the rail, which every page asks for again and again."""
    return render(request, "_components/polled.html")
