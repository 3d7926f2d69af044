"""Moves a request along the transition table, compare-and-set; and ends it when its recovery moves on without it."""

from datetime import datetime

from django.db.models import F
from django.utils import timezone

from recovery.approvals import events, rules, selectors
from recovery.errors import Refused
from recovery.models import ApprovalRequest, Recovery
from recovery.people.roles import SYSTEM, Actor
from recovery.workflow.journal import note
from recovery.workflow.transitions import APPROVAL, APPROVAL_ARROWS, Guard, guard_of, may_move

COUNTS_NO_MORE = ("expired", "voided")


def approval_to(request: ApprovalRequest, new: str, *, says: str, now: datetime | None = None) -> None:
    """Take a request to state `new`, only if no one moved it since it was read. With a request that expired or is void
    its votes count no more.

    Raises Refused when the table or the arrow's guard forbids it, or when somebody else was faster.
    """
    now = now or timezone.now()
    if not may_move(APPROVAL, request.state, new):
        raise Refused(
            f"The request for approval is {request.state}, so it cannot become {new}.", code="wrong_state"
        )
    if not _holds(guard_of(APPROVAL_ARROWS, request.state, new), request, now):
        raise Refused(f"The request for approval cannot become {new} now.", code="guard")
    values = {"decided_at": now} if new == "approved" else {} if new == "used" else {"ended_at": now}
    moved = ApprovalRequest.objects.filter(pk=request.pk, state=request.state, version=request.version)
    if not moved.update(state=new, version=F("version") + 1, says=says, **values):
        raise Refused("Someone else decided a moment ago. Reload the page.", code="lost_race")
    if new in COUNTS_NO_MORE:
        request.votes.filter(voided_at=None).update(voided_at=now)
    request.refresh_from_db()


def _holds(guard: Guard, request: ApprovalRequest, now: datetime) -> bool:
    asked = selectors.request_facts(request)
    if guard is Guard.ENOUGH:
        votes = selectors.votes_cast(selectors.votes_in_force(request))
        return not asked.late(now) and rules.tally_votes(asked.rule, votes).enough
    if guard is Guard.LATE:
        return asked.late(now)
    return guard is not Guard.IN_TIME or not asked.late(now)


def settle_request(recovery: Recovery, new: str, says: str) -> None:
    """The recovery has moved to `new`: a request on which something still hung is used or void.

    Called by `workflow.moves.move` in its transaction, so that no way of leaving a state forgets it.
    """
    if new in ("awaiting_approval", "approved", "needs_attention"):
        return
    request = selectors.live_request(recovery)
    if request is None:
        return
    now = timezone.now()
    glass = selectors.glass_of(request.plan)
    if new == "running" and request.state == "approved" and now < request.expires_at and (
        glass is None or glass.until <= now
    ):  # fmt: skip
        approval_to(request, "used", says="The plan was started.", now=now)
        return
    why = says or f"The recovery is {new.replace('_', ' ')}."
    void_request(
        request, "It began by break-glass, without this approval." if new == "running" and glass else why
    )


def void_request(request: ApprovalRequest, says: str, by: Actor = SYSTEM) -> None:
    """The request and its votes count no more; what changed stands with it and in the audit log."""
    given = request.votes.filter(voided_at=None).count()
    was = request.state
    approval_to(request, "voided", says=says)
    note("approval.void", request.recovery, f"Request for approval void, {given} votes with it: {says}", by=by,
         before={"state": was, "votes": given}, after={"state": "voided", "plan": request.plan.hash})  # fmt: skip
    events.announce_decision(request, "voided", says, by=by)
