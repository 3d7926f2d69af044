"""Every component on one page, for who builds pages; for admins, and for everybody where DEBUG is on."""

from typing import Any

from django.conf import settings
from django.http import HttpResponse

from console.middleware import PageRequest
from console.pages.base import page, render_page, require_right
from console.presenters import approving, charts, dag, diff, samples, status, wizard
from recovery.people.roles import Actor, Right


@page(Right.VIEW)
def show_gallery(request: PageRequest, by: Actor) -> HttpResponse:
    if not settings.DEBUG:
        require_right(request, by, Right.MANAGE)
    section = "settings" if by.may(Right.MANAGE) else ""
    return render_page(request, "components.html", {"section": section, **_component_samples()})


def _component_samples() -> dict[str, Any]:
    """One of each."""
    return {
        "statuses": [
            ("Flows", status.FLOW.values()),
            ("Recoveries", status.RECOVERY.values()),
            ("Steps", status.STEP.values()),
            ("Outcomes", status.OUTCOME.values()),
            ("Findings", status.SEVERITY.values()),
            ("Requests for approval", approving.STATES.values()),
        ],
        "dots": status.update_dots(["ok", "failed", "running", "unknown"]),
        "diff": diff.compare_texts("pipeline.py", samples.BEFORE, samples.AFTER),
        "findings": samples.FINDINGS,
        "forecast": wizard.forecast_view(samples.FORECAST),
        "positions": wizard.position_rows(samples.POSITIONS),
        "ladder": samples.LADDER,
        "asks": samples.ASKS,
        "steps": samples.STEPS,
        "log": samples.LOG,
        "dag": dag.draw_graph(
            "sample", "One source feeds a flow and its table.", samples.ITEMS, samples.EDGES
        ),
        "charts": [charts.draw_chart("Rows read", "per batch", samples.BATCHES, 8)],
        "bar": wizard.ActionBar(
            "Names what it does, before it is pressed.",
            "And how it is undone.",
            wizard.Primary("The one primary act", href="#"),
            (wizard.Link("#", "A second one"),),
        ),
    }
