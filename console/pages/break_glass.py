"""Break glass: run a plan without enough votes, where the environment's rules have it. Loud before and afterwards."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from console.forms.approvals import reason_problem
from console.middleware import PageRequest
from console.pages import freshness, together
from console.pages.base import page, refusal_of, render_page, require_right
from console.pages.recovery_page import RecoveryPage, read_recovery_page
from console.pages.run import what_to_confirm
from recovery.approvals import rules, selectors
from recovery.errors import RepriseError, WrongUse
from recovery.models import Plan
from recovery.people.roles import Actor, Right
from recovery.workflow import joining
from recovery.workflow.journal import right_to_run


@page(Right.BREAK_GLASS, methods=("GET", "POST"))
def break_glass(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Asks for a reason and the flow's name, and in production who it is; POST runs the plan that was read."""
    page = read_recovery_page(recovery_id, by)
    for right in (Right.BREAK_GLASS, right_to_run(page.plan)):
        require_right(request, by, right, page.environment)
    if page.plan is None:
        return redirect("review", recovery_id)
    reason = request.POST.get("reason", "").strip()
    kept = freshness.take_kept_form(request, request.path) if request.method == "GET" else {}
    refusal: RepriseError | None = None
    if request.method == "POST":
        if page.environment not in rules.LENIENT and not freshness.is_fresh(request):
            freshness.keep_form(
                request,
                request.path,
                f"break glass for {page.recovery.label}: “{reason}”",
                {"reason": reason},
            )
            return freshness.redirect_to_prove(request.path)
        refusal = _break_glass(request, page, reason, by)
        if refusal is None:
            return redirect("run", recovery_id)
    context = {
        **_show_plan(page, page.plan),
        "reason": reason or kept.get("reason", ""),
        "typed": request.POST.get("typed", ""),
    }
    return render_page(
        request, "run/break_glass.html", context, refusal=refusal, status=422 if refusal else None
    )


def _break_glass(request: PageRequest, page: RecoveryPage, reason: str, by: Actor) -> RepriseError | None:
    name = page.recovery.flow.short
    if problem := reason_problem(reason):
        return WrongUse(problem, code="no_reason")
    if request.POST.get("typed", "").strip() != name:
        return WrongUse(
            f"That is not the flow's name. Type {name}; nothing was started.", code="not_the_name"
        )
    seen = request.POST.get("hash", "")
    return refusal_of(lambda: together.break_glass(page.pk, by, reason, seen))


def _show_plan(page: RecoveryPage, plan: Plan) -> dict[str, Any]:
    standing, now = selectors.approval_standing(page.recovery, plan), timezone.now()
    no, missing = rules.may_break_glass(standing, now), rules.may_run(standing, now)
    return {
        **what_to_confirm(page),
        "name": page.recovery.flow.short,
        "signed": joining.signed_hash(plan),
        "joint": together.panel_of(plan),
        "minutes": standing.rule.break_glass_minutes,
        "why_not": no.says if no is not None else None,
        "missing": missing.says if missing is not None else "",
    }
