"""Who answers for a recovery: given by its owner, or taken over with a reason. In an audited try, under the lock."""

from django.utils import timezone

from recovery.errors import Refused
from recovery.models import Recovery
from recovery.notify.actions import announce_event
from recovery.people import holders
from recovery.people.roles import Actor, Right
from recovery.workflow.moves import only_in
from recovery.workflow.transitions import OPEN


def give(recovery: Recovery, *, to: str, reason: str, was: str, by: Actor) -> None:
    """Write the new owner, and tell both. Raises Refused."""
    only_in(recovery, *sorted(OPEN))
    if was and was != recovery.owner:
        raise Refused(
            f"{recovery.label} was {was}'s and is now {recovery.owner}'s: someone else was faster. Look again.",
            code="lost_race",
        )
    if to == recovery.owner:
        raise Refused(f"{recovery.label} is already {to}'s.", code="same_owner")
    if by.name not in (to, recovery.owner):
        raise Refused(
            f"Only {recovery.owner} can hand {recovery.label} over. Take it over first, with a reason.",
            code="not_owner",
        )
    if to == by.name and not reason:
        raise Refused(
            f"Give a reason for taking {recovery.label} over from {recovery.owner}.", code="no_reason"
        )
    if to != by.name and to not in candidates(recovery):
        raise Refused(
            f"{recovery.label} cannot be handed to {to or 'no one'}: no person of that name may recover in "
            f"{recovery.flow.pipeline.environment}.",
            code="no_candidate",
        )
    before = recovery.owner
    # not a move, so the version stays: a worker that is about to move the recovery must not lose its turn by this
    Recovery.objects.filter(pk=recovery.pk).update(owner=to)
    recovery.refresh_from_db()
    facts = {"owner": to, "was": before, "reason": reason}
    name = f"{recovery.label}:{timezone.now().isoformat()}"
    announce_event(
        event="recovery.handed_over", recovery=recovery, facts=facts, by=by, dedupe=name, people=(to, before)
    )


def candidates(recovery: Recovery) -> list[str]:
    """Names of the people who may recover in its environment, its owner left out, in order."""
    able = holders.holders_of_right(Right.RECOVER, recovery.flow.pipeline.environment)
    names = able.exclude(user__username=recovery.owner).order_by("user__username")
    return list(names.values_list("user__username", flat=True))
