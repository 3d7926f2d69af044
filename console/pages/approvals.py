"""Approvals: who is asked for what, and the one page on which an approver reads and decides."""

from collections.abc import Collection, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.db.models import prefetch_related_objects
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from console.forms.approvals import reason_problem
from console.middleware import PageRequest
from console.pages import freshness, together
from console.pages.base import may_why, page, refusal_of, render_page, require_right
from console.pages.jobs import jobs_of_page
from console.presenters import approving, patching, reviewing
from recovery.approvals import rules, selectors
from recovery.approvals.rules import LIVE, Voter
from recovery.errors import RepriseError, WrongUse
from recovery.models import ApprovalRequest, Plan, Recovery
from recovery.people.roles import Actor, Right
from recovery.workflow import joining

SHOWN: Final = 100
"""Requests that have ended, on the list."""


@page(Right.VIEW)
def list_approvals(request: PageRequest, by: Actor) -> HttpResponse:
    """Open ones, what ends first at the top; approved ones that have not run; what has ended."""
    now, every = timezone.now(), selectors.list_requests(by)
    live = list(every.filter(state__in=LIVE, expires_at__gt=now).order_by("expires_at"))
    rows = _request_rows([*live, *every.exclude(pk__in=[r.pk for r in live])[:SHOWN]], by)
    going, ended = rows[: len(live)], rows[len(live) :]
    context = {
        "section": "approvals",
        "waiting": [row for row in going if row.request.state == "open"],
        "approved": [row for row in going if row.request.state == "approved"],
        "ended": ended,
    }
    return render_page(request, "approvals/list.html", context)


def _request_rows(requests: Iterable[ApprovalRequest], by: Actor) -> list[approving.RequestRow]:
    """Rows of a list. Votes, and who may still vote, are asked for all of them together."""
    listed, now = list(requests), timezone.now()
    prefetch_related_objects(listed, "votes")
    able = {place: selectors.voter_ids(place) for place in {request.environment for request in listed}}
    return [_request_row(request, by, able[request.environment], now) for request in listed]


def _request_row(
    request: ApprovalRequest, by: Actor, able: Collection[int], now: datetime
) -> approving.RequestRow:
    open_ = approving.state_by_clock(request, now) == "open" and by.user_id not in {
        v.voter_id for v in request.votes.all()
    }
    count = rules.tally_votes(
        selectors.request_facts(request).rule, selectors.votes_cast(selectors.votes_in_force(request, able))
    ).given
    return approving.request_row(request, count, open_ and _vote_counts(request, by), now)


def _vote_counts(request: ApprovalRequest, by: Actor) -> bool:
    """Would this person's vote on it ever count?"""
    may = by.may(Right.APPROVE, _environment_of(request))
    return may and rules.never_counts(selectors.request_facts(request), Voter(by.name, by.user_id)) is None


def _environment_of(request: ApprovalRequest) -> str:
    """Where rights are asked for: the pipeline's environment now, like for the act itself."""
    return str(request.recovery.flow.pipeline.environment)


@page(Right.VIEW, methods=("GET", "POST"))
def show_approval(request: PageRequest, by: Actor, request_id: int) -> HttpResponse:
    """Everything a vote rests on, on one page, and the vote. POST with `vote=approve|reject`, `reason`, `hash`."""
    approval = selectors.request_or_404(request_id, by)
    refusal = None
    if request.method == "POST":
        require_right(request, by, Right.APPROVE, _environment_of(approval))
        refusal, gone = _cast_vote(request, by, approval)
        if gone is not None:
            return gone
        approval = selectors.request_or_404(request_id, by)
    kept = freshness.take_kept_form(request, request.path) if request.method == "GET" else {}
    typed = request.POST.get("reason", kept.get("reason", ""))
    context = {**_show_request(request, by, approval), "reason": typed, "kept": kept}
    code = 422 if isinstance(refusal, WrongUse) else None
    return render_page(request, "approvals/request.html", context, refusal=refusal, status=code)


def _cast_vote(
    request: PageRequest, by: Actor, approval: ApprovalRequest
) -> tuple[RepriseError | None, HttpResponse | None]:
    choice, reason = request.POST.get("vote", ""), request.POST.get("reason", "").strip()
    signed = request.POST.get("hash", "")
    if problem := reason_problem(reason):
        return WrongUse(problem, code="no_reason"), None
    if approval.environment not in rules.LENIENT and not freshness.is_fresh(request):
        says = f"{choice} plan {signed[:8]}, recovery {approval.recovery.label}: “{reason}”"
        freshness.keep_form(request, request.path, says, {"reason": reason})
        return None, freshness.redirect_to_prove(request.path)
    act = partial(together.cast_vote, approval.recovery_id, by, choice, reason, signed)
    refusal = refusal_of(act)
    return refusal, None if refusal is not None else redirect("approval", approval.pk)


def _show_request(request: PageRequest, by: Actor, approval: ApprovalRequest) -> dict[str, Any]:
    now, asked = timezone.now(), selectors.request_facts(approval)
    given = list(approval.votes.all())
    able = selectors.list_approvers(asked.rule, approval, approval.plan)
    who = Voter(by.name, by.user_id)
    count = rules.tally_votes(asked.rule, selectors.votes_cast(selectors.votes_in_force(approval)))
    flow = approval.recovery.flow
    return {
        "section": "approvals", "of": approval, "recovery": approval.recovery, "plan": approval.plan, "flow": flow,
        "workspace": flow.pipeline.workspace.name, "environment": approval.environment,
        "title": approving.ask_for_vote(approval.plan.contents, together.contents_of(approval.plan)),
        "state": approving.state_by_clock(approval, now),
        "badge": approving.request_badge(approval, count.given, now),
        "review": reviewing.plan_view(approval.plan),
        "jobs_below": jobs_of_page(flow),
        "joint": together.panel_of(approval.plan), "signed": joining.signed_hash(approval.plan),
        "validation": patching.validation_result(approval.recovery),
        "votes": approving.vote_rows(given, asked, able, who, now),
        "effect": approving.describe_effects(asked, count.given, now),
        "why_not": _why_not(by, approval, "approve"),
        "why_not_reject": _why_not(by, approval, "reject"),
        "asks_again": approval.environment not in rules.LENIENT,
        "fresh": freshness.is_fresh(request), "proved_at": freshness.proved_at(request),
        "minutes": freshness.proof_minutes(),
        "ready_at": approving.when_ready(asked, now),
        "rule": approving.rule_lines(asked.rule),
        "queue": _request_rows(selectors.open_requests(now, by)[:20], by),
        "decided": _request_rows(selectors.list_requests(by).exclude(state="open")[:5], by),
        "back": reverse("review", args=[approval.recovery_id]),
    }  # fmt: skip


def approval_panel(recovery: Recovery, plan: Plan | None, by: Actor) -> dict[str, Any] | None:
    """What the plan's own page shows of its approval; None without a plan."""
    if plan is None:
        return None
    now, standing = timezone.now(), selectors.approval_standing(recovery, plan)
    request = selectors.request_of(plan)
    given = list(request.votes.all()) if request is not None else []
    able, who = selectors.list_approvers(standing.rule, request, plan), Voter(by.name, by.user_id)
    state = approving.state_by_clock(request, now) if request is not None else None
    if (
        state not in LIVE
        and not standing.rule.requester_may_vote
        and by.may(Right.RECOVER, recovery.flow.pipeline.environment)
    ):
        able = [voter for voter in able if not voter.same(who)]  # who asks next does not vote
    return {
        "rule": standing.rule,
        "rule_lines": approving.rule_lines(standing.rule),
        "request": request,
        "badge": approving.request_badge(request, rules.tally_votes(standing.rule, standing.votes).given, now)
        if request
        else None,
        "votes": approving.vote_rows(given, standing.asked, able, who, now) if standing.asked else [],
        "able": approving.name_voters_left(able, given, who),
        "waits_for_votes": state in (None, "open"),
    }


def _why_not(by: Actor, approval: ApprovalRequest, choice: str) -> str | None:
    """Why this person cannot vote so now; None when they can. The same rule lets the act through."""
    if why := may_why(by, Right.APPROVE, _environment_of(approval)):
        return why
    given = selectors.votes_cast(selectors.votes_in_force(approval))
    no = rules.may_vote(
        selectors.request_facts(approval),
        Voter(by.name, by.user_id),
        given,
        choice,
        approval.plan.hash,
        timezone.now(),
    )
    return no.says if no is not None else None
