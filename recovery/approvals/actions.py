"""The doors of approval: ask, vote, break glass, let expire. Keyword-only, `by=` who, ids not objects.

Each checks the right, takes the recovery's lock (`workflow.moves.lock`) before anything is read, and writes the change
and its audit row in one transaction. A refusal or denial is a row as well. No one waits for an answer: what waits is a
row, and no worker. Whoever tells people about it listens to `approvals.events`.
"""

import logging
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from recovery.approvals import events, rules, selectors
from recovery.approvals.moves import approval_to
from recovery.approvals.rules import ApprovalRefusal, Voter
from recovery.audit.actions import Attempt
from recovery.errors import Denied, Refused, RepriseError, WrongUse
from recovery.models import ApprovalRequest, BreakGlass, Person, Plan, Recovery, Vote
from recovery.people.roles import SYSTEM, Actor, Right
from recovery.workflow import broker, further, joining, sealing, starting
from recovery.workflow.journal import note, right_to_run, trying
from recovery.workflow.moves import lock, move, only_in
from recovery.workflow.selectors import recovery_or_404

log = logging.getLogger(__name__)


def request_approval(
    *, recovery_id: int, reason: str = "", plan_hash: str | None = None, by: Actor
) -> ApprovalRequest:
    """Ask the people whom the environment's rule names for their votes on the plan in force.

    From a recovery that needs attention too, where an earlier approval has ended: it stays where it is. `plan_hash`:
    the plan that was looked at, when it was. Raises Denied, Refused.
    """
    with trying("approval.request", recovery_or_404(recovery_id, by), by, reason=reason) as attempted:
        recovery = lock(recovery_id)
        joining.refuse_alone(recovery)
        return ask_for_votes(recovery, attempted, reason, timezone.now(), plan_hash=plan_hash, by=by)


def ask_for_votes(
    recovery: Recovery,
    attempted: Attempt,
    reason: str,
    now: datetime,
    *,
    plan_hash: str | None = None,
    by: Actor,
) -> ApprovalRequest:
    """What `request_approval` does, inside its try and under the recovery's lock."""
    only_in(recovery, "planned", "awaiting_approval", "approved", "needs_attention")
    plan = starting.require_plan(recovery, seen=plan_hash)
    _refuse(rules.may_ask(selectors.approval_standing(recovery, plan), now))
    rule = selectors.rule_for(recovery.flow.pipeline.environment)
    # given for a request that has ended
    Vote.objects.filter(plan=plan, voided_at=None).update(voided_at=now)
    made = _ask(recovery, plan, rule, reason, now, by)
    if recovery.state == "planned":
        move(recovery, "awaiting_approval")
    until = rules.at_text(made.expires_at)
    says = f"Asked for {rules.votes_text(rule.votes)} of {_named(plan)} until {until}."
    signed = {"plan": plan.hash, **_joint_hash(plan)}
    attempted.done(says, after={**signed, "request": made.pk, "rule": rule.as_dict(), "reason": reason})
    events.announce_request(made, by=by)
    return made


def _named(plan: Plan) -> str:
    """`plan 1f2e3d4c`, with the joint plan that it is part of."""
    joint = joining.joint_of_plan(plan)
    return f"plan {plan.hash[:8]}" + (f" in {joint.label}, {joint.hash[:8]}" if joint else "")


def _joint_hash(plan: Plan) -> dict[str, str]:
    """For the log: the hash that is signed where plans are signed together."""
    joint = joining.joint_of_plan(plan)
    return {"joint": joint.hash} if joint else {}


def _ask(
    recovery: Recovery, plan: Plan, rule: rules.ApprovalRule, reason: str, now: datetime, by: Actor
) -> ApprovalRequest:
    try:
        with transaction.atomic():
            return ApprovalRequest.objects.create(
                recovery=recovery, plan=plan, environment=rule.environment, rule=rule.as_dict(), reason=reason.strip(),
                requested_by=by.name, requested_by_id=by.user_id, requested_at=now,
                expires_at=now + timedelta(hours=rule.expiry_hours),
            )  # fmt: skip
    except IntegrityError:
        raise Refused(rules.ASKED, code="asked") from None


def cast_vote(
    *, recovery_id: int, choice: str, reason: str, plan_hash: str | None = None, by: Actor
) -> ApprovalRequest:
    """Approve or reject the plan that approval is asked for. `plan_hash`: the plan that was looked at; a vote on an
    older one is refused and says what changed. The last vote that is needed approves; one rejection ends the request.

    Raises Denied, WrongUse (no reason), Refused.
    """
    action = "approval.reject" if choice == "reject" else "approval.vote"
    with trying(action, recovery_or_404(recovery_id, by), by, Right.APPROVE, reason=reason) as attempted:
        recovery = lock(recovery_id)
        joining.refuse_alone(recovery)
        return vote_on(recovery, attempted, choice, reason.strip(), plan_hash=plan_hash, by=by)


def vote_on(
    recovery: Recovery,
    attempted: Attempt,
    choice: str,
    reason: str,
    *,
    plan_hash: str | None = None,
    by: Actor,
) -> ApprovalRequest:
    """What `cast_vote` does, inside its try and under the recovery's lock."""
    if choice not in ("approve", "reject"):
        raise WrongUse(f"A vote is approve or reject, not {choice!r}.")
    person, who = _voter(by), Voter(by.name, by.user_id)
    request = _voted_on(recovery, plan_hash)
    signed = plan_hash or request.plan.hash
    given = selectors.votes_cast(selectors.votes_in_force(request))
    _refuse(rules.may_vote(selectors.request_facts(request), who, given, choice, signed, timezone.now()))
    if selectors.rule_for(recovery.flow.pipeline.environment) != selectors.request_facts(request).rule:
        raise Refused(
            f"The rules of {request.environment} changed after approval was requested. Request it again.",
            code="rules_changed",
        )
    if not reason:
        raise WrongUse("A vote needs a reason: it is kept in the audit log.")
    _cast(request, choice, reason, person, by)
    _decide(recovery, request, choice, reason, by, attempted)
    return request


def _voter(by: Actor) -> Person:
    """A person's vote counts, never a service account's: a vote is somebody's judgement."""
    person = Person.objects.filter(user_id=by.user_id).first() if by.user_id is not None else None
    if person is None or person.service:
        raise Denied(f"{by.name} is not a person's account, and only people vote on plans.")
    return person


def _voted_on(recovery: Recovery, plan_hash: str | None) -> ApprovalRequest:
    request = selectors.live_request(recovery)
    if request is not None and plan_hash in (None, request.plan.hash):
        return request
    old = Plan.objects.filter(recovery=recovery, hash=plan_hash).first() if plan_hash else None
    ended = (
        old.requests.order_by("-pk").first() if old is not None else recovery.requests.order_by("-pk").first()
    )
    if old is not None and old.voided_at is not None:
        changed = " ".join(d["says"] for d in old.drift) or (ended.says if ended else "")
        raise Refused(
            f"Plan {old.hash[:8]} is void, so your vote was not counted: {changed}", code="stale_plan"
        )
    if request is not None:
        raise Refused(
            f"{recovery.label} now has another plan, {request.plan.hash[:8]}, so your vote was not counted. Read "
            "that plan, then vote.",
            code="stale_plan",
        )
    if ended is None:
        raise Refused(f"Approval of {recovery.label} has not been requested yet, so there is nothing to vote on.",
                      code="not_asked")  # fmt: skip
    state = (
        "expired"
        if selectors.request_facts(ended).late(timezone.now()) and ended.state in rules.LIVE
        else ended.state
    )
    raise Refused(
        f"The request for approval of {recovery.label} is {state}: {ended.says}".rstrip(": "), code="not_open"
    )


def _cast(request: ApprovalRequest, choice: str, reason: str, person: Person, by: Actor) -> None:
    try:
        with transaction.atomic():
            Vote.objects.create(
                request=request, plan=request.plan, voter=by.name, voter_id=person.user_id, role=_role(request, by),
                choice=choice, reason=reason, hash=joining.signed_hash(request.plan), via=by.via, at=timezone.now(),
            )  # fmt: skip
    except IntegrityError:
        raise Refused(rules.VOTED, code="voted") from None


def _role(request: ApprovalRequest, by: Actor) -> str:
    """The role by which somebody votes there."""
    return by.grant(request.recovery.flow.pipeline.environment).role.value


def _decide(
    recovery: Recovery, request: ApprovalRequest, choice: str, reason: str, by: Actor, attempted: Attempt
) -> None:
    """Whether this vote was the one that decides. The audit rows come last."""
    digest, named = request.plan.hash, _named(request.plan)
    after = {"plan": digest, **_joint_hash(request.plan), "request": request.pk, "reason": reason}
    if choice == "reject":
        says = f"{by.name} rejected {named}: {reason}"
        approval_to(request, "rejected", says=says)
        if further.may_be_given_up(recovery):
            further.give_up(recovery, says)
        elif recovery.state in ("awaiting_approval", "approved"):
            sealing.withdraw(recovery, says, what="approval")
        attempted.done(says, after=after)
        events.announce_decision(request, "rejected", says, by=by)
        return
    asked = selectors.request_facts(request)
    count = rules.tally_votes(asked.rule, selectors.votes_cast(selectors.votes_in_force(request)))
    voted = f"{by.name} approved {named}, vote {count.given} of {count.needed}: {reason}"
    if count.enough:
        approval_to(request, "approved", says="")
        if recovery.state == "awaiting_approval":
            move(recovery, "approved")
    attempted.done(voted, after={**after, "votes": count.given, "needed": count.needed})
    if count.enough:
        says = f"Plan {digest[:8]} is approved; it may run until {rules.at_text(request.expires_at)}."
        note("approval.decide", recovery, says, by=by, after={"plan": digest, "request": request.pk})
        events.announce_decision(request, "approved", says, by=by)


def break_glass(*, recovery_id: int, reason: str, plan_hash: str | None = None, by: Actor) -> BreakGlass:
    """Run (or resume) the plan now, without enough votes, where the rule allows it. Loud: an audit action of its own,
    a banner on every page of the recovery, a time limit after which no further step begins, and a review afterwards.

    Raises Denied, WrongUse (no reason), Refused.
    """
    found = recovery_or_404(recovery_id, by)
    with trying("recovery.break_glass", found, by, Right.BREAK_GLASS, reason=reason) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        before = recovery.state
        glass, missing = put_glass(recovery, reason.strip(), timezone.now(), plan_hash=plan_hash, by=by)
        starting.start(recovery, by=by)
        tell_glass(glass, missing, attempted, was=before, by=by)
    return glass


def put_glass(
    recovery: Recovery, reason: str, now: datetime, *, plan_hash: str | None = None, by: Actor
) -> tuple[BreakGlass, ApprovalRefusal]:
    """The broken glass under which the plan may then start, and what stood against it. Under the recovery's lock."""
    only_in(recovery, "planned", "awaiting_approval", "approved", "needs_attention")
    plan = starting.require_plan(recovery, seen=plan_hash)
    by.check(right_to_run(plan), recovery.flow.pipeline.environment)
    standing = selectors.approval_standing(recovery, plan)
    _refuse(rules.may_break_glass(standing, now))
    if not reason:
        raise WrongUse("Breaking glass needs a reason: others read it in the review.")
    missing = rules.may_run(standing, now)
    assert missing is not None, "may_break_glass refuses what is not needed"
    until = now + timedelta(minutes=standing.rule.break_glass_minutes)
    glass = BreakGlass.objects.create(
        recovery=recovery, plan=plan, by=by.name, by_id=by.user_id, reason=reason, missing=missing.says,
        at=now, until=until,
    )  # fmt: skip
    return glass, missing


def tell_glass(
    glass: BreakGlass, missing: ApprovalRefusal, attempted: Attempt, *, was: str, by: Actor
) -> None:
    """Write down and tell that the plan was started under broken glass."""
    says = f"Broke glass: ran {_named(glass.plan)}. Missing: {missing.says} Reason: {glass.reason}"
    after = {"state": "running", "plan": glass.plan.hash, **_joint_hash(glass.plan), "until": glass.until}
    environment = glass.recovery.flow.pipeline.environment
    attempted.done(
        says,
        before={"state": was, "missing": missing.code},
        after={**after, "reason": glass.reason, "environment": environment},
    )
    events.broke_glass(glass.recovery, says, by=by)


def _refuse(no: ApprovalRefusal | None) -> None:
    if no is not None:
        raise Refused(no.says, code=no.code)


def expire_requests() -> int:
    """End every request whose time is over; answers how many. By time they had ended before: this only writes it down,
    frees the flow and says so. One that somebody moves at this moment is left to the next round."""
    ended = 0
    for request_id in selectors.expired_request_ids(timezone.now()):
        try:
            ended += _expire(request_id)
        except RepriseError as lost:
            log.info("request %s was not expired: %s", request_id, lost.sentence)
    return ended


def _expire(request_id: int) -> int:
    with transaction.atomic():
        request = ApprovalRequest.objects.select_related("plan__joint").get(pk=request_id)
        joint = joining.joint_of_plan(request.plan)
        together = (
            [request.recovery_id] if joint is None else [p.recovery_id for p in joining.plans_of(joint)]
        )
        held = {pk: lock(pk) for pk in sorted(together)}
        live = [
            request_of_member for pk in together if (request_of_member := selectors.live_request(held[pk]))
        ]
        if request.pk not in [request_of_member.pk for request_of_member in live]:
            return 0
        if joint is not None and held[request.recovery_id].state in ("awaiting_approval", "approved"):
            joining.void_joint(joint)  # all of them expire: none takes the others back
        for ending in live:
            _write_expired(ending, held[ending.recovery_id])
    return len(live)


def _write_expired(request: ApprovalRequest, recovery: Recovery) -> None:
    was, given = request.state, request.votes.filter(voided_at=None).count()
    says = (
        f"{'Approved, but not started' if was == 'approved' else 'Not decided'} until "
        f"{rules.at_text(request.expires_at)}. Expired is not approved."
    )
    approval_to(request, "expired", says=says)
    if recovery.state in ("awaiting_approval", "approved"):
        move(recovery, "expired", reason=says)  # its guard reads the plan, which is voided after it
        sealing.end_plan(recovery, says)
    note("approval.expire", recovery, says, by=SYSTEM, before={"state": was, "votes": given},
         after={"state": recovery.state, "plan": request.plan.hash})  # fmt: skip
    events.announce_decision(request, "expired", says)
