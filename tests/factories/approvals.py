"""Recoveries on which votes are asked for, given, refused, out of time; and one that ran by break-glass."""

from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from recovery.approvals.selectors import rule_for
from recovery.models import ApprovalRequest, BreakGlass, Flow, Recovery, Vote
from recovery.pipelines.listing import together
from tests.factories.flows import ago, incident, person
from tests.factories.runs import into, running
from tests.factories.wizard import planned


@together()
def asked(of: Flow | None = None, strategy: str = "continue", **values: Any) -> Recovery:
    """A plan for which approval was asked some minutes ago."""
    made = planned(of or incident("production"), strategy)
    environment = made.flow.pipeline.environment
    given = {
        "state": "open", "reason": "Same change as in development, ticket CRM-881. Marketing export at 06:00 UTC.",
        "requested_by": "responder", "requested_at": ago(minutes=6), "expires_at": ago(hours=-7.9),
        "environment": environment, "rule": rule_for(environment).as_dict(), **values,
    }  # fmt: skip
    ApprovalRequest.objects.create(recovery=made, plan=made.plans.get(), **given)
    return into(made, "awaiting_approval")


def voted(of: Flow | None = None, *voters: str, choice: str = "approve") -> Recovery:
    """Asked, and each of these has voted; without names one vote of approver-2."""
    made = asked(of)
    for name in voters or ("approver-2",):
        vote(made, name, choice)
    return made


def vote(of: Recovery, name: str, choice: str = "approve") -> Vote:
    request = of.requests.get()
    user = User.objects.filter(username=name).first() or person("approver", name)
    return Vote.objects.create(
        request=request, plan=request.plan, voter=name, voter_id=user.pk,
        role="approver", choice=choice, reason="Numbers match R-142, readers informed.", hash=request.plan.hash,
        via="page", at=ago(minutes=3),
    )  # fmt: skip


def end(of: Recovery, state: str, says: str = "", **values: Any) -> Recovery:
    """The request is in this state, and the recovery where that leads."""
    ended = {} if state in ("approved", "used") else {"ended_at": timezone.now()}
    decided = {"decided_at": timezone.now()} if state in ("approved", "used") else {}
    of.requests.update(state=state, says=says, **ended, **decided, **values)
    goal = {"approved": "approved", "rejected": "diagnosing", "voided": "diagnosing", "expired": "expired"}[
        state
    ]
    if goal in ("diagnosing", "expired"):
        drift = [{"what": "approval", "planned": "", "now": "", "says": says}]
        of.plans.update(voided_at=timezone.now(), drift=drift)
    return into(of, goal, reason=says if goal != "approved" else "")


def approved(of: Flow | None = None) -> Recovery:
    return end(voted(of, "approver-1", "approver-2"), "approved")


def rejected(of: Flow | None = None) -> Recovery:
    made = voted(of)
    vote(made, "approver-1", "reject")
    return end(
        made, "rejected", f"approver-1 rejected plan {made.plans.get().hash[:8]}: wait for the export."
    )


def voided(of: Flow | None = None) -> Recovery:
    made = voted(of)
    Vote.objects.filter(request__recovery=made).update(voided_at=timezone.now())
    return end(made, "voided", "customers.py was edited since the plan was made.")


def expired(of: Flow | None = None) -> Recovery:
    made = asked(of, expires_at=ago(minutes=1))
    return end(made, "expired", "Not decided until 2026-11-21 05:36 UTC. Expired is not approved.")


def glass(of: Flow | None = None) -> Recovery:
    """Runs without enough votes."""
    made = running(of or incident("staging"))
    BreakGlass.objects.create(
        recovery=made, plan=made.plans.get(), by="responder", at=ago(minutes=2), until=ago(minutes=-58),
        reason="The export reads the view at 06:00 UTC and nobody answers.",
        missing="Environment staging asks for 1 approval by other people, and nobody has asked them about it yet.",
    )  # fmt: skip
    return made
