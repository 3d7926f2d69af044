"""The inventory: every flow of every workspace, what needs attention first."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import F
from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone

from console.context import inventory_freshness
from console.middleware import PageRequest
from console.pages.base import no_news, page, render_page
from console.presenters import inventory
from recovery.contracts import codec
from recovery.contracts.positions import PositionChange
from recovery.models import FlowInput, Listed, Recovery, Workspace
from recovery.people.roles import Actor, Right
from recovery.pipelines import lists
from recovery.workflow.doubting import doubts_of

FACTS: Final = {
    "status": F("facts__status"),
    "at": F("facts__at"),
    "waiting_rows": F("facts__waiting_rows"),
    "positions": F("facts__options__0__positions"),
}


@page(Right.VIEW)
def list_flows(request: PageRequest, by: Actor) -> HttpResponse:
    """The list; with `part=list` only the part that is polled."""
    now, wanted = timezone.now(), inventory.FlowFilter.from_query(request.GET.dict())
    if request.GET.get("part") != "list":
        return render_page(request, "inventory/page.html", _list_context(wanted, by, now))
    if lists.is_current(request.GET.get("v", ""), by, now):
        return no_news()
    return render(request, "inventory/_part.html", _list_context(wanted, by, now))


def _list_context(asked: inventory.FlowFilter, by: Actor, now: datetime) -> dict[str, Any]:
    version = lists.current_version(by, now)
    counts = lists.count_rows(by, asked.filters, now)
    wanted = inventory.last_page(counts, asked)
    start = (wanted.page - 1) * lists.PAGE
    rows = _flow_rows(lists.page_of_rows(by, wanted.filters, now, start=start), now)
    return {
        "section": "flows",
        "wanted": wanted,
        "attention": counts.attention,
        "inventory": inventory.arrange_groups(rows, counts, wanted),
        "shows": [(s, words, urlencode(wanted.query(show=s))) for s, words in inventory.SHOWS],
        "sorts": {s: urlencode(wanted.query(sort=s)) for s in lists.ListOrder},
        "base": urlencode({"show": wanted.show, **wanted.query(page=1)}),
        "environments": lists.list_environments(by),
        "conditions": lists.list_conditions(by),
        "workspaces": list(Workspace.objects.active().order_by("name")),
        "poll": urlencode({**wanted.query(), "part": "list"}),
        "version": str(version),
    }


def _flow_rows(listed: Collection[Listed], now: datetime) -> list[inventory.FlowRow]:
    flow_ids = [row.flow_id for row in listed if row.flow_id is not None]
    sources: dict[int, list[FlowInput]] = defaultdict(list)
    seen = FlowInput.objects.filter(flow__in=flow_ids).order_by("index")
    for source in seen.only("flow", "index", "lost", *FlowInput.on_lists):
        sources[source.flow_id].append(source)
    recoveries, doubts = _open_recoveries(flow_ids), doubts_of(flow_ids, now)
    return [
        inventory.flow_row(row, sources[key], recoveries.get(key), now, doubts.get(key))
        for row, key in ((row, row.flow_id or 0) for row in listed)
    ]


def _open_recoveries(flow_ids: Collection[int]) -> dict[int, inventory.OpenRecovery]:
    """By flow. Of what was gathered only what a row shows is read."""
    rows = Recovery.objects.filter(active=True, flow__in=flow_ids).annotate(
        title=F("diagnosis__title"), **{f"facts_{name}": path for name, path in FACTS.items()}
    )
    fields = ("pk", "flow", "state", "reason", "title", *(f"facts_{name}" for name in FACTS))
    recoveries = {}
    for pk, flow, state, reason, title, status, at, waiting, positions in rows.values_list(*fields):
        places = tuple(codec.read(PositionChange, position) for position in positions or ())
        recoveries[flow] = inventory.OpenRecovery(
            pk, state, reason, str(title or ""), str(status or ""), str(at or ""), waiting, places
        )
    return recoveries


@page(Right.VIEW)
def show_freshness(request: PageRequest, by: Actor) -> HttpResponse:
    """How fresh the inventory is: the foot of the rail, which every page asks for again and again."""
    return HttpResponse(
        render_to_string("_components/polled.html", {"now": timezone.now(), **inventory_freshness()})
    )
