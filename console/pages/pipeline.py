"""One pipeline as a whole: how it is by its newest updates, and why the newest failed. Reads only."""

from django.http import HttpResponse
from django.utils import timezone

from console.middleware import PageRequest
from console.pages.base import page, render_page
from console.pages.recover_together import FEWEST, list_broken
from console.presenters import flow as flows
from console.presenters import pipelines
from console.presenters.doubting import flow_badge
from recovery.errors import NotFound
from recovery.models import Pipeline
from recovery.people.roles import Actor, Right
from recovery.people.visible import filter_visible
from recovery.pipelines.alone import health_of, list_behind, say_pipeline
from recovery.workflow.diagnosing import diagnose_pipeline
from recovery.workflow.doubting import doubts_of


@page(Right.VIEW)
def show_pipeline(request: PageRequest, by: Actor, pipeline_pk: int) -> HttpResponse:
    """What is so, since when, and what to do; its flows, where it has some."""
    pipeline = Pipeline.objects.filter(filter_visible(by), pk=pipeline_pk).select_related("workspace").first()
    if pipeline is None:
        raise NotFound("There is no such pipeline. It may have been removed from its workspace.")
    health, now = health_of(pipeline), timezone.now()
    failure, behind = health.failure, list_behind([pipeline]).get(pipeline.pk, ())
    own = list(pipeline.flows.order_by("name"))
    doubts = doubts_of([f.pk for f in own], now)
    broken = list_broken(pipeline)
    context = {
        "section": "flows",
        "broken": broken if len(broken) >= FEWEST else [],
        "failing": next((f for f in own if f.state == "failed"), None),
        "is_stream": pipeline.workspace.has_streams,
        "run_noun": pipeline.workspace.run_noun,
        "pipeline": pipeline,
        "workspace": pipeline.workspace.name,
        "environment": pipeline.environment,
        "badge": pipelines.pipeline_header(pipeline, now, behind=bool(behind), doubted=bool(doubts)),
        "health": health,
        "says": say_pipeline(pipeline, behind),
        "failure": failure,
        "diagnosis": diagnose_pipeline(pipeline, failure) if failure else None,
        "causes": flows.list_causes(failure.causes) if failure else [],
        "flows": [(f, flow_badge(f, doubts.get(f.pk))) for f in own],
    }
    return render_page(request, "pipeline/overview.html", context)
