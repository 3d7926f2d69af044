"""The report of a recovery: a page that prints well, the same as JSON, and the closing text for the channel."""

from django.conf import settings
from django.http import HttpResponse, JsonResponse

from console.middleware import PageRequest
from console.pages.base import page, render_page
from console.presenters import below, diff, left_behind, reporting, reviewing, verifying
from recovery.people.roles import Actor, Right
from recovery.verification.below import uncompared
from recovery.workflow import selectors
from recovery.workflow.reporting import report


@page(Right.VIEW)
def show_report(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Everything on one page, in print too."""
    recovery = selectors.recovery_or_404(recovery_id, by)
    facts = report(recovery, by)
    plan = selectors.plan_of(recovery) or recovery.plans.order_by("-pk").first()
    contents = plan.contents if plan else None
    measured = recovery.proof
    accepted = reviewing.list_acceptances(plan) if plan else []
    criteria = verifying.criterion_rows(measured, contents.criteria if contents else ())
    context = {
        "section": "recoveries",
        "recovery": recovery,
        "flow": recovery.flow,
        "workspace": facts.workspace,
        "environment": facts.environment,
        "report": facts,
        "badge": verifying.proof_badge(recovery),
        "verdict": verifying.proof_verdict(
            recovery, measured, accepted, contents.forecast if contents else None
        ),
        "uncompared": uncompared(measured),
        "asks": reporting.report_asks(facts),
        "spent": reporting.time_spent(facts.times),
        "time_taken": reporting.describe_time_taken(facts.time),
        "timeline": reporting.list_moments(facts),
        "against": verifying.forecast_against_outcome(contents.forecast, measured)
        if contents and measured
        else [],
        "numbers": reporting.proof_numbers(facts.measured),
        "criteria": criteria,
        "positions": reporting.list_positions(facts),
        "batches": reporting.describe_batches(facts),
        "left_behind": [
            *left_behind.cost_rows(measured),
            *left_behind.start_option_rows(recovery, list(recovery.steps.order_by("ordinal"))),
        ],
        "left": below.effect_rows(contents.forecast.left_behind) if contents else [],
        "whole_flow": verifying.whole_flow(measured),
        "not_measured": verifying.not_measured(measured),
        "tables_below": below.compare_refreshed(measured),
        "counted": verifying.count_criteria(criteria),
        "diffs": [
            diff.compare_texts(change.path, change.before, change.after)
            for change in (contents.patch if contents else ())
        ],
        "closing": reporting.closing_text(facts, settings.REPRISE_PUBLIC_URL, accepted),
    }
    return render_page(request, "run/report.html", context)


@page(Right.VIEW)
def as_json(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """The same, for a file: what `GET /api/v1/recoveries/R-7/report` answers."""
    facts = report(selectors.recovery_or_404(recovery_id, by), by)
    name = f"{facts.recovery}.json"
    return JsonResponse(facts.as_dict(), headers={"Content-Disposition": f'attachment; filename="{name}"'})
