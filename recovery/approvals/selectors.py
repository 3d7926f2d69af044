"""Reads about approvals that actions, pages and commands share; the deciding is `rules`."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TypedDict

from django.db.models import QuerySet
from django.utils import timezone

from recovery.approvals import rules
from recovery.approvals.freezes import read_stored_freeze
from recovery.approvals.rules import (
    LIVE,
    ApprovalRefusal,
    ApprovalRule,
    ApprovalStanding,
    CastVote,
    RequestFacts,
    Voter,
    VoterGroup,
)
from recovery.models import (
    ApprovalRequest,
    BreakGlass,
    EnvironmentRule,
    JointPlan,
    Pipeline,
    Plan,
    Recovery,
    Vote,
)
from recovery.people import holders, visible
from recovery.people.roles import Actor, Right


def rule_for(environment: str) -> ApprovalRule:
    """The rule in force: an admin's, else the shipped one; production's for an environment no one described."""
    rows = {
        r.environment: r for r in EnvironmentRule.objects.filter(environment__in=(environment, "production"))
    }
    if environment in rows:
        return as_rule(rows[environment])
    if environment in rules.SHIPPED or "production" not in rows:
        return rules.shipped_rule(environment)
    return as_rule(rows["production"], environment)


def as_rule(row: EnvironmentRule, environment: str = "") -> ApprovalRule:
    return ApprovalRule(
        environment=environment or row.environment,
        votes=row.votes,
        groups=tuple(VoterGroup(g["name"], tuple(g["members"]), g["votes"]) for g in row.groups),
        requester_may_vote=row.requester_may_vote,
        expiry_hours=row.expiry_hours,
        waiting_minutes=row.waiting_minutes,
        freezes=tuple(read_stored_freeze(line) for line in row.freezes),
        strategies=None if row.strategies is None else tuple(row.strategies),
        break_glass=row.break_glass,
        break_glass_minutes=row.break_glass_minutes,
    )


def list_environments() -> list[str]:
    """Every environment that has a rule or a pipeline; the shipped ones first."""
    seen = {*Pipeline.objects.filter(gone=False).values_list("environment", flat=True),
            *EnvironmentRule.objects.values_list("environment", flat=True)}  # fmt: skip
    return [*rules.SHIPPED, *sorted(seen - set(rules.SHIPPED) - {""})]


def plan_in_force(recovery: Recovery) -> Plan | None:
    """The newest plan that is not void. None while another one is made, though one before it may have run."""
    if recovery.state == "diagnosing":
        return None
    return recovery.plans.filter(voided_at=None).order_by("-pk").first()


def plans_in_force(recoveries: Iterable[Recovery]) -> dict[int, Plan]:
    """By recovery, the plan in force of each that has one: one query."""
    sealed = [recovery.pk for recovery in recoveries if recovery.state != "diagnosing"]
    plans = Plan.objects.filter(recovery__in=sealed, voided_at=None).select_related("joint").order_by("pk")
    return {plan.recovery_id: plan for plan in plans}


def request_of(plan: Plan | None) -> ApprovalRequest | None:
    """The newest request for this plan, whatever became of it."""
    return None if plan is None else plan.requests.order_by("-pk").first()


def live_request(recovery: Recovery) -> ApprovalRequest | None:
    return recovery.requests.filter(state__in=LIVE).select_related("plan").first()


def request_or_404(request_id: int, by: Actor) -> ApprovalRequest:
    """Raises NotFound, with the same words for one that `by` may not see."""
    wanted = ApprovalRequest.objects.select_related("plan__joint", "recovery__flow__pipeline__workspace")
    found = wanted.filter(pk=request_id).first()
    missing = f"There is no request for approval {request_id}. See the list of approvals."
    visible.require_visible_flow(found.recovery.flow if found else None, by, missing)
    assert found is not None
    return found


def glass_of(plan: Plan | None) -> BreakGlass | None:
    """The newest broken glass for this plan, in force or over."""
    return None if plan is None else plan.glasses.order_by("-pk").first()


def glass_over(plan: Plan | None, now: datetime | None = None) -> datetime | None:
    """Since when the broken glass under which this plan runs is over; None while it holds, or where votes carry it."""
    glass, request = glass_of(plan), request_of(plan)
    if (
        glass is None
        or glass.until > (now or timezone.now())
        or (request is not None and request.state == "used")
    ):
        return None
    return glass.until


def editors_of_plan(plan: Plan) -> tuple[Voter, ...]:
    """Who edited the code that the plan changes."""
    return tuple(Voter(editor.name, editor.user_id) for editor in plan.contents.editors)


def _sealer_of(plan: Plan | JointPlan) -> Voter:
    return Voter(plan.sealed_by, plan.sealed_by_id)


def request_facts(request: ApprovalRequest) -> RequestFacts:
    """The row as rules see it."""
    return RequestFacts(
        state=request.state,
        hash=request.plan.hash,
        rule=rules.from_dict(request.rule),
        requester=Voter(request.requested_by, request.requested_by_id),
        author=_sealer_of(request.plan),
        editors=editors_of_plan(request.plan),
        joiner=_sealer_of(request.plan.joint) if request.plan.joint else None,
        expires_at=request.expires_at,
        decided_at=request.decided_at,
    )


def votes_in_force(request: ApprovalRequest | None, able: Collection[int] | None = None) -> list[Vote]:
    """The votes that count: not void, and of people who could still give them; who lost the right, or was switched
    off since, agrees to nothing any more. `able`: `voters(environment)`, where many requests are looked at."""
    if request is None:
        return []
    still = voter_ids(request.environment) if able is None else able
    return [vote for vote in request.votes.all() if vote.voided_at is None and vote.voter_id in still]


def voter_ids(environment: str) -> frozenset[int]:
    """User ids of everybody who may vote there."""
    return frozenset(holders.holders_of_right(Right.APPROVE, environment).values_list("user_id", flat=True))


def votes_cast(votes: Iterable[Vote]) -> list[CastVote]:
    return [CastVote(Voter(v.voter, v.voter_id), v.choice) for v in votes]


def approval_standing(recovery: Recovery, plan: Plan) -> ApprovalStanding:
    """All that decides whether this plan may run, read now."""
    request, glass, contents = request_of(plan), glass_of(plan), plan.contents
    return ApprovalStanding(
        rule=rule_for(recovery.flow.pipeline.environment),
        hash=plan.hash,
        strategy=contents.strategy,
        sealed_in=contents.environment,
        asked=request_facts(request) if request is not None else None,
        votes=votes_cast(votes_in_force(request)),
        glass_until=glass.until if glass is not None else None,
        resuming=recovery.state not in ("planned", "awaiting_approval", "approved"),
    )


def run_refusal(recovery: Recovery, plan: Plan, now: datetime | None = None) -> ApprovalRefusal | None:
    """Why the environment's rules do not let this plan run now; None when they do."""
    return rules.may_run(approval_standing(recovery, plan), now or timezone.now())


class AwaitedConsent(TypedDict):
    """Why a plan may not run now."""

    code: str
    says: str


class ApprovalState(TypedDict):
    """The votes of a plan as JSON. `voters`: names of who may vote; `expires_at`: ISO time, UTC, null without a
    request; `awaits`: null where the plan may run now."""

    needed: int
    given: int
    missing: int
    voters: list[str]
    expires_at: str | None
    awaits: AwaitedConsent | None


def read_approvals(recovery: Recovery, plan: Plan) -> ApprovalState:
    """The votes of a plan now."""
    standing = approval_standing(recovery, plan)
    request, count = request_of(plan), rules.tally_votes(standing.rule, standing.votes)
    no = run_refusal(recovery, plan)
    return {
        "needed": count.needed,
        "given": count.given,
        "missing": count.missing,
        "voters": names_of_approvers(standing.rule, request, plan) if count.needed else [],
        "expires_at": request.expires_at.isoformat() if request else None,
        "awaits": {"code": no.code, "says": no.says} if no else None,
    }


def names_of_approvers(
    rule: ApprovalRule, request: ApprovalRequest | None = None, plan: Plan | None = None
) -> list[str]:
    """Names of those in `list_approvers`."""
    return [who.name for who in list_approvers(rule, request, plan)]


def list_approvers(
    rule: ApprovalRule, request: ApprovalRequest | None = None, plan: Plan | None = None
) -> list[Voter]:
    """The people whose vote would count in the rule's environment, by their role there, in the order of their names;
    the requester, the plan's author and the editors of its code left out."""
    people = (
        holders.holders_of_right(Right.APPROVE, rule.environment)
        .order_by("user__username")
        .values_list("user__username", "user_id")
    )
    own: list[Voter] = []
    if not rule.requester_may_vote:
        own += [Voter(request.requested_by, request.requested_by_id)] if request else []
        own += [_sealer_of(plan), *editors_of_plan(plan)] if plan else []
        own += [_sealer_of(plan.joint)] if plan and plan.joint else []
    return rules.voters_that_count(rule, [Voter(name, user_id) for name, user_id in people], own)


def list_requests(by: Actor) -> QuerySet[ApprovalRequest]:
    """Every request that `by` may see, with what a list shows, newest first."""
    seen = ApprovalRequest.objects.filter(visible.filter_visible(by, "recovery__flow__pipeline__"))
    return seen.select_related("plan__joint", "recovery__flow__pipeline__workspace").order_by("-pk")


def open_requests(now: datetime, by: Actor) -> QuerySet[ApprovalRequest]:
    """Open and not late, of those that `by` may see: what can still be voted on; what ends first comes first."""
    return list_requests(by).filter(state="open", expires_at__gt=now).order_by("expires_at")


def expired_request_ids(now: datetime) -> Sequence[int]:
    """Ids of requests on which something hangs and whose time is over."""
    return list(
        ApprovalRequest.objects.filter(state__in=LIVE, expires_at__lte=now).values_list("pk", flat=True)
    )
