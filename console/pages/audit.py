"""The audit log: filters in the address, pages, one entry opened, the chain checked, export for who may."""

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.utils import timezone

from console.middleware import Request
from console.pages.base import page, require, show
from console.presenters import auditing
from recovery.audit import actions
from recovery.audit.tags import ACTIONS, OUTCOMES
from recovery.errors import WrongUse
from recovery.models import AuditEntry
from recovery.people.roles import Actor, Right

PER_PAGE = 50


@page(Right.READ_AUDIT)
def log(request: Request, by: Actor) -> HttpResponse:
    """Newest first."""
    wanted = auditing.Wanted.of(request.GET.dict())
    found = _filtered(wanted)
    pages = Paginator(found, PER_PAGE)
    shown = pages.get_page(request.GET.get("page"))
    context = {
        **_lists(),
        "section": "audit",
        "wanted": wanted,
        "rows": auditing.rows(shown),
        "shown": shown,
        "query": urlencode(wanted.query()),
        "total": pages.count,
        "may_export": by.may(Right.EXPORT_AUDIT),
    }
    return show(request, "audit/log.html", context)


def _filtered(wanted: auditing.Wanted) -> QuerySet[AuditEntry]:
    found = AuditEntry.objects.order_by("-seq")
    fields = {
        "recovery": wanted.recovery,
        "actor": wanted.who,
        "outcome": wanted.outcome,
        "action": wanted.act,
    }
    found = found.filter(**{name: value for name, value in fields.items() if value})
    since: datetime | None = wanted.since
    return found.filter(at__gte=since) if since else found


def _lists() -> dict[str, Any]:
    return {
        "people": list(AuditEntry.objects.order_by("actor").values_list("actor", flat=True).distinct()[:200]),
        "acts": sorted(ACTIONS.items(), key=lambda a: a[1]),
        "outcomes": OUTCOMES,
    }


@page(Right.READ_AUDIT)
def entry(request: Request, by: Actor, seq: int) -> HttpResponse:
    """Before and after, and where the entry stands in the chain."""
    found = AuditEntry.objects.filter(seq=seq).first()
    if found is None:
        raise Http404(f"There is no audit entry {seq}.")
    same = AuditEntry.objects.exclude(pk=found.pk).exclude(request_id="").filter(request_id=found.request_id)
    context = {
        "section": "audit",
        "row": auditing.row(found),
        "changes": auditing.changes(found.before, found.after),
        "same": auditing.rows(same[:20]),
        "newest": AuditEntry.objects.order_by("-seq").values_list("seq", flat=True).first(),
    }
    return show(request, "audit/entry.html", context)


@page(Right.READ_AUDIT)
def chain(request: Request, by: Actor) -> HttpResponse:
    """Reads the whole log and says whether it is unbroken."""
    begun = timezone.now()
    found = actions.verify()
    took = (timezone.now() - begun).total_seconds()
    return show(request, "audit/chain.html", {"section": "audit", "chain": found, "took": took, "at": begun})


@page(Right.READ_AUDIT)
def export(request: Request, by: Actor) -> HttpResponse:
    """The whole log as a file; the export is an entry of it."""
    require(request, by, Right.EXPORT_AUDIT)
    fmt = request.GET.get("format", "csv")
    if fmt not in ("csv", "json"):
        raise WrongUse("The audit log is exported as csv or json.")
    stream = io.StringIO()
    actions.export(fmt=fmt, stream=stream, by=by)
    kind = "text/csv" if fmt == "csv" else "application/json"
    name = f"reprise-audit-{timezone.now():%Y%m%dT%H%M%SZ}.{fmt}"
    return HttpResponse(
        _lines(stream),
        content_type=f"{kind}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _lines(stream: io.StringIO) -> Iterator[bytes]:
    stream.seek(0)
    for line in stream:
        yield line.encode()
