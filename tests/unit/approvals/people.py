"""People with accounts, and a planned recovery, for the tests of approval."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from recovery.approvals import actions
from recovery.models import ApprovalRequest, AuditEntry, Person, Recovery
from recovery.people.roles import Actor, Role
from tests.unit.workflow.rows import flow, plan, recovery


def actor(name: str, role: Role = Role.APPROVER, *, service: bool = False) -> Actor:
    user = User.objects.create(username=name)
    Person.objects.create(user=user, role=role.value, service=service)
    return Actor(name, role, user.pk, via="page", request_id="req-1")


def planned(environment: str = "production", *kinds: str) -> Recovery:
    """A recovery whose plan was sealed by ada and has not begun."""
    row = recovery(
        "planned", flow=flow(environment=environment), choices={"strategy": "continue", "patch": {}}
    )
    made = plan(row, *(kinds or ("stop", "seed", "rerun", "verify")))
    made.body |= {"environment": environment}
    made.save()
    return row


class Clock:
    """What `timezone.now` answers; moved by the test."""

    def __init__(self, patch: Any) -> None:
        self.now = timezone.now().replace(microsecond=0)
        patch.setattr(timezone, "now", lambda: self.now)

    def on(self, **delta: float) -> None:
        self.now += timedelta(**delta)


def entries(*actions: str) -> list[tuple[str, str, str]]:
    """(action, outcome, actor) of the log, oldest first; only these actions when given."""
    rows = AuditEntry.objects.order_by("seq")
    found = rows.filter(action__in=actions) if actions else rows
    return [(e.action, e.outcome, e.actor) for e in found]


def ask(row: Recovery, by: Actor) -> ApprovalRequest:
    made = actions.request_approval(recovery_id=row.pk, reason="ticket CRM-881", by=by)
    row.refresh_from_db()
    return made


def yes(row: Recovery, by: Actor, **values: Any) -> ApprovalRequest:
    made = actions.cast_vote(
        recovery_id=row.pk, choice="approve", reason="Numbers match R-142.", by=by, **values
    )
    row.refresh_from_db()
    made.refresh_from_db()
    return made


REJECTED = "Wait for the export."


def no(row: Recovery, by: Actor) -> ApprovalRequest:
    made = actions.cast_vote(recovery_id=row.pk, choice="reject", reason=REJECTED, by=by)
    row.refresh_from_db()
    made.refresh_from_db()
    return made
