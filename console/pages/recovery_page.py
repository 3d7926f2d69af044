"""What every page of one recovery shows around its own part: where, the stepper, hand-over, polling."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone

from console.middleware import PageRequest
from console.pages import together
from console.pages.base import is_unchanged, no_news, render_page
from console.presenters import handover, reporting, reviewing, stepper, verifying, versions
from recovery.errors import RepriseError
from recovery.models import BreakGlass, Plan, Recovery, Step
from recovery.people.roles import Actor, Right
from recovery.workflow import joining, selectors
from recovery.workflow.reporting import report
from recovery.workflow.transitions import OPEN

TITLES = dict(stepper.NAMES) | {"run": "Run", "positions": "Start offsets"}


@dataclass(frozen=True)
class RecoveryPage:
    """One recovery as it is now: its row, its steps in order, the plan in force."""

    recovery: Recovery
    steps: list[Step]
    plan: Plan | None
    by: Actor

    @property
    def pk(self) -> int:
        return self.recovery.pk

    @property
    def environment(self) -> str:
        return str(self.recovery.flow.pipeline.environment)

    @property
    def is_stream(self) -> bool:
        """Is it of a plain stream, which no Pipelines API runs?"""
        return bool(self.recovery.flow.pipeline.workspace.has_streams)

    @property
    def what_runs(self) -> str:
        """`pipeline`, or `stream`: what is stopped and started."""
        return str(self.recovery.flow.pipeline.workspace.what_runs)

    @property
    def run_noun(self) -> str:
        """As `Workspace.run_noun`."""
        return str(self.recovery.flow.pipeline.workspace.run_noun)

    @property
    def is_open(self) -> bool:
        """May the wizard's choices still be changed?"""
        return self.recovery.state in ("diagnosing", "planned")

    @property
    def early_stop(self) -> Step | None:
        step: Step | None = stepper.early_stop(self.steps)
        return step

    @property
    def current(self) -> str:
        return stepper.current_slug(self.recovery, self.steps, self.plan)


def read_recovery_page(recovery_id: int, by: Actor) -> RecoveryPage:
    """Read it all once. Raises NotFound."""
    recovery = selectors.recovery_or_404(recovery_id, by)
    return RecoveryPage(recovery, list(recovery.steps.order_by("ordinal")), selectors.plan_of(recovery), by)


def newest_broken_glass(recovery: Recovery) -> BreakGlass | None:
    """The newest broken glass of this recovery: it is on every one of its pages."""
    return recovery.glasses.order_by("-pk").first()


def build_frame(page: RecoveryPage, slug: str, *, here: str = "") -> dict[str, Any]:
    """`slug` is the page; `here` the step it represents, where they differ (run)."""
    recovery, now = page.recovery, timezone.now()
    flow = recovery.flow
    return {
        "section": "recoveries",
        "title": TITLES[slug],
        "slug": slug,
        "recovery": recovery,
        "flow": flow,
        "plan": page.plan,
        "workspace": flow.pipeline.workspace.name,
        "environment": flow.pipeline.environment,
        "what_runs": page.what_runs,
        "run_noun": page.run_noun,
        "badge": verifying.proof_badge(recovery),
        "stepper": stepper.build_stepper(recovery, page.steps, page.plan, here or slug, now),
        "handover": _channel_text(page, now),
        "version": versions.of_recovery(recovery, page.steps, now),
        "glass": newest_broken_glass(recovery),
        "joint": together.panel_of(page.plan),
        "signed": joining.signed_hash(page.plan) if page.plan else "",
        "owned": _owner_action(page),
        "poll": 0,
    }


def _channel_text(page: RecoveryPage, now: datetime) -> str:
    """Words for the incident channel: where it is, or, once it has ended, how it ended and what was measured."""
    if page.recovery.state in reporting.CLOSED:
        accepted = reviewing.list_acceptances(page.plan) if page.plan else []
        return reporting.closing_text(report(page.recovery, page.by), settings.REPRISE_PUBLIC_URL, accepted)
    return handover.handover_text(page.recovery, page.plan, settings.REPRISE_PUBLIC_URL, now)


def _owner_action(page: RecoveryPage) -> str:
    """What this person may do about the owner: "hand over", "take over"; empty for nothing."""
    if page.recovery.state not in OPEN or not page.by.may(Right.RECOVER, page.environment):
        return ""
    return "hand over" if page.recovery.owner == page.by.name else "take over"


def show_live(
    request: PageRequest,
    template: str,
    context: dict[str, Any],
    *,
    refusal: RepriseError | None = None,
    status: int | None = None,
) -> HttpResponse:
    """The whole page; for a poll only its live part, or 204 when nothing is new."""
    if request.GET.get("part") != "live":
        return render_page(
            request, template, {**context, "shell": "base.html"}, refusal=refusal, status=status
        )
    if is_unchanged(request, context["version"]) and context["poll"]:
        return no_news()
    return render_page(request, template, {**context, "shell": "_part.html"})
