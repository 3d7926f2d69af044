"""What happened to a request, told to people through the outbox: in the transaction of the change, so both are kept or
neither.
"""

from dataclasses import dataclass
from typing import Final

from recovery.models import ApprovalRequest, Recovery
from recovery.notify.actions import announce
from recovery.people.roles import SYSTEM, Actor

DECIDED: Final = ("approved", "rejected", "expired", "voided")
KINDS: Final = ("requested", "voted", *DECIDED, "break_glass")


@dataclass(frozen=True)
class Happened:
    """`says` is one sentence for people; `request_id` 0 where no request exists (broken glass)."""

    kind: str
    recovery: str
    environment: str
    says: str
    request_id: int = 0


def happened(what: Happened, *, by: Actor = SYSTEM) -> None:
    """Announce it; a vote that decides nothing is told to nobody. Call after the move, in its transaction."""
    recovery = Recovery.objects.select_related("flow__pipeline__workspace").get(pk=int(what.recovery[2:]))
    if what.kind == "break_glass":
        announce(event="recovery.break_glass", recovery=recovery, facts={"reason": what.says}, by=by)
        return
    link, name = f"/approvals/{what.request_id}", f"request {what.request_id}: {what.kind}"
    if what.kind == "requested":
        request = ApprovalRequest.objects.get(pk=what.request_id)
        facts = {
            "approvals": f"0 of {request.rule['votes']}",
            "reason": request.reason,
            "expires_at": f"{request.expires_at:%Y-%m-%d %H:%M} UTC",
        }
        announce(event="approval.requested", recovery=recovery, facts=facts, by=by, dedupe=name, link=link)
    elif what.kind in DECIDED:
        facts = {"decision": what.kind, "reason": what.says}
        announce(event="approval.decided", recovery=recovery, facts=facts, by=by, dedupe=name, link=link)
