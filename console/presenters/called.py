"""Whom to call when a recovery does not go on: only who is written down."""

from dataclasses import dataclass
from typing import Final

from recovery.models import Recovery
from recovery.people.holders import holders_of_right
from recovery.people.roles import Right

MOST: Final = 10


@dataclass(frozen=True)
class CalledLine:
    """One line: in what part, and who."""

    role: str
    names: str


def who_to_call(recovery: Recovery) -> list[CalledLine]:
    """Its owner, and who may recover there; of more than `MOST` their number."""
    environment = recovery.flow.pipeline.environment
    people = holders_of_right(Right.RECOVER, environment).order_by("user__username")
    names = [n for n in people.values_list("user__username", flat=True)[: MOST + 1] if n != recovery.owner]
    more = " and others" if len(names) > MOST else ""
    contacts = [CalledLine("Owner of this recovery", recovery.owner)]
    if names:
        contacts.append(CalledLine(f"May recover in {environment}", ", ".join(names[:MOST]) + more))
    return contacts
