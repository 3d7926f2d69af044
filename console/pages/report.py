"""The report of a recovery: a page that prints well, the same as JSON, and the closing text for the channel."""

from django.conf import settings
from django.http import HttpResponse, JsonResponse

from console.middleware import Request
from console.pages.base import page, show
from console.presenters import below, diff, reporting, reviewing, verifying
from recovery.people.roles import Actor, Right
from recovery.verification.below import uncompared
from recovery.workflow import selectors
from recovery.workflow.reporting import report


@page(Right.VIEW)
def overview(request: Request, by: Actor, recovery_id: int) -> HttpResponse:
    """Everything on one page, in print too."""
    recovery = selectors.recovery_or_404(recovery_id, by)
    found = report(recovery, by)
    plan = selectors.plan_of(recovery) or recovery.plans.order_by("-pk").first()
    body = plan.body if plan else {}
    measured = recovery.measured or {}
    accepted = reviewing.accepted(plan) if plan else []
    criteria = verifying.criteria(measured, plan.criteria if plan else ())
    context = {
        "section": "recoveries",
        "recovery": recovery,
        "flow": recovery.flow,
        "workspace": found.workspace,
        "environment": found.environment,
        "report": found,
        "badge": verifying.badge(recovery),
        "verdict": verifying.verdict(recovery, measured, accepted, plan.forecast if plan else None),
        "uncompared": uncompared(measured),
        "asks": reporting.asks(found),
        "spent": reporting.spent(found.times),
        "timeline": reporting.timeline(found),
        "against": verifying.against(plan.forecast, measured) if plan and measured else [],
        "numbers": reporting.numbers(found.measured),
        "criteria": criteria,
        "left": below.effects(plan.forecast.left_behind) if plan else [],
        "whole_flow": verifying.whole_flow(measured),
        "not_measured": verifying.not_measured(measured),
        "tables_below": below.refreshed(measured),
        "counted": verifying.counted(criteria),
        "diffs": [
            diff.compare(str(p["path"]), str(p.get("before") or ""), str(p.get("after") or ""))
            for p in body.get("patch") or []
        ],
        "closing": reporting.closing(found, settings.REPRISE_PUBLIC_URL, accepted),
    }
    return show(request, "run/report.html", context)


@page(Right.VIEW)
def as_json(request: Request, by: Actor, recovery_id: int) -> HttpResponse:
    """The same, for a file: what `GET /api/v1/recoveries/R-7/report` answers."""
    found = report(selectors.recovery_or_404(recovery_id, by), by)
    name = f"{found.recovery}.json"
    return JsonResponse(found.as_dict(), headers={"Content-Disposition": f'attachment; filename="{name}"'})
