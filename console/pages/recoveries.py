"""The list of recoveries, and the one address of a recovery that always leads to where it is."""

from urllib.parse import quote

from django.http import HttpResponse
from django.shortcuts import redirect

from console.middleware import PageRequest
from console.pages.base import page, render_page
from console.presenters import stepper, verifying
from recovery.errors import NotFound
from recovery.people.roles import Actor, Right
from recovery.workflow import selectors


@page(Right.VIEW)
def list_recoveries(request: PageRequest, by: Actor) -> HttpResponse:
    """Open ones first, then the ended ones, newest first."""
    wanted = request.GET.get("show", "")
    every = selectors.recoveries(by)
    kept = {"open": [r for r in every if r.active], "ended": [r for r in every if not r.active]}.get(
        wanted, every
    )
    context = {
        "section": "recoveries",
        "rows": [(r, verifying.proof_badge(r)) for r in sorted(kept, key=lambda r: not r.active)],
        "show": wanted if wanted in ("open", "ended") else "",
        "counts": {
            "": len(every),
            "open": sum(r.active for r in every),
            "ended": sum(not r.active for r in every),
        },
    }
    return render_page(request, "recoveries.html", context)


@page(Right.VIEW)
def go_on(request: PageRequest, by: Actor, label: str) -> HttpResponse:
    """`/recoveries/R-12` or `/recoveries/12`: the page on which it goes on."""
    recovery = selectors.recovery_or_404(label, by)
    slug = stepper.current_slug(recovery, list(recovery.steps.all()), selectors.plan_of(recovery))
    return redirect(slug, recovery.pk)


@page(Right.VIEW)
def go_to_page(request: PageRequest, by: Actor, label: str, part: str) -> HttpResponse:
    """`/recoveries/R-12/run`: the same page by its number."""
    recovery = selectors.recovery_or_404(label, by)
    if label.isdigit():
        raise NotFound(f"{recovery.label} has no page of this name.")
    query = request.META.get("QUERY_STRING", "")
    return redirect(f"/recoveries/{recovery.pk}/{quote(part)}{f'?{query}' if query else ''}")
