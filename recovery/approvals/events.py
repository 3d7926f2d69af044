"""What happened to a request, told to people through the outbox: in the transaction of the change, so both are kept or
neither.
"""

from recovery.models import ApprovalRequest, Recovery
from recovery.notify.actions import announce_event
from recovery.people.roles import SYSTEM, Actor


def announce_request(request: ApprovalRequest, *, by: Actor) -> None:
    """People are asked for their votes. Call after the move, like the others here."""
    facts = {
        "approvals": f"0 of {request.rule['votes']}",
        "reason": request.reason,
        "expires_at": f"{request.expires_at:%Y-%m-%d %H:%M} UTC",
    }
    _tell("approval.requested", request, "requested", facts, by)


def announce_decision(request: ApprovalRequest, how: str, says: str, *, by: Actor = SYSTEM) -> None:
    """The request has ended, or has all its votes. `how`: approved, rejected, expired or voided.

    A vote that decides nothing is not announced.
    """
    _tell("approval.decided", request, how, {"decision": how, "reason": says}, by)


def broke_glass(recovery: Recovery, says: str, *, by: Actor) -> None:
    announce_event(event="recovery.break_glass", recovery=recovery, facts={"reason": says}, by=by)


def _tell(event: str, request: ApprovalRequest, what: str, facts: dict[str, str], by: Actor) -> None:
    recovery = Recovery.objects.select_related("flow__pipeline__workspace").get(pk=request.recovery_id)
    name, link = f"request {request.pk}: {what}", f"/approvals/{request.pk}"
    announce_event(event=event, recovery=recovery, facts=facts, by=by, dedupe=name, link=link)
