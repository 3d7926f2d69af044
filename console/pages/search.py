"""Search: what the box in the top bar leads to."""

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from console.middleware import PageRequest
from console.pages.base import page, render_page
from console.presenters import verifying
from console.presenters.doubting import flow_badge
from console.presenters.inventory import first_sentence
from console.presenters.pipelines import badge_of
from recovery.people.roles import Actor, Right
from recovery.pipelines.alone import say_pipeline
from recovery.search import MOST, FoundBy, search
from recovery.workflow.doubting import doubts_of

WHY = {
    FoundBy.LABEL: "its label",
    FoundBy.PLAN: "its plan",
    FoundBy.PERSON: "a person in it",
    FoundBy.ERROR: "its error",
}


@page(Right.VIEW)
def show_results(request: PageRequest, by: Actor) -> HttpResponse:
    """What fits `q`. A recovery's label leads straight to the recovery."""
    results = search(request.GET.get("q", ""), by)
    if results.exact is not None:
        return redirect("recovery", results.exact.pk)
    shown = [flow.pk for flow in (*results.flows, *results.errors)]
    doubts = doubts_of(shown, timezone.now())
    context = {
        "section": "search",
        "found": results,
        "most": MOST,
        "flows": [(f, flow_badge(f, doubts.get(f.pk))) for f in results.flows],
        "errors": [(f, flow_badge(f, doubts.get(f.pk)), first_sentence(f.causes)) for f in results.errors],
        "recoveries": [(f, verifying.proof_badge(f.recovery), WHY[f.by]) for f in results.recoveries],
        "pipelines": [(p, badge_of(p), say_pipeline(p)) for p in results.pipelines],
    }
    return render_page(request, "search.html", context)
