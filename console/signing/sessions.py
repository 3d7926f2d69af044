"""A person's open sessions: where, with what, when last used; and their end."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.db import transaction

from console.middleware import PageRequest, why_session_ended
from recovery.audit.actions import append_entry
from recovery.numbers import whole
from recovery.people.roles import Actor

BROWSERS: Final = (
    ("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"),
    ("python-requests", "Python"), ("curl", "curl"),
)  # fmt: skip
SYSTEMS: Final = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("Mac OS", "macOS"),
    ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


@dataclass(frozen=True)
class SessionRow:
    """One open session as its owner reads it."""

    pk: int
    device: str
    address: str
    began: datetime
    seen: datetime
    here: bool


def describe_device(agent: str) -> str:
    """`Firefox on Linux`, from what the browser says of itself; a hint for people, never a proof."""
    browser = next((words for mark, words in BROWSERS if f"{mark}/" in agent), "")
    system = next((words for mark, words in SYSTEMS if mark in agent), "")
    return f"{browser} on {system}" if browser and system else browser or system or "Unknown program"


def session_rows(request: PageRequest, owner: User) -> list[SessionRow]:
    """The sessions that are open still, the one that asks first, then the last used."""
    open_ones = UserSession.objects.purge_and_list(owner)
    here = request.session.session_key
    rows = [
        SessionRow(
            s.pk, describe_device(s.user_agent), s.ip, s.created_at, s.last_seen_at, s.session_key == here
        )
        for s in open_ones
        if not why_session_ended(s)
    ]
    return sorted(rows, key=lambda r: (not r.here, -r.seen.timestamp()))


def end_sessions(request: PageRequest, owner: User, by: Actor, *, only: str | None = None) -> int:
    """End one session of the owner (by its number), or all but the one that asks. How many ended; audited."""
    sessions = UserSession.objects.filter(user=owner)
    if only is not None:
        number = whole(only)
        sessions = sessions.filter(pk=number) if number is not None else sessions.none()
    else:
        sessions = sessions.exclude(session_key=request.session.session_key or "")
    with transaction.atomic():
        ended = list(sessions)
        for session in ended:
            session.end()
        if ended:
            places = ", ".join(sorted({s.ip for s in ended}))
            word = "session" if len(ended) == 1 else "sessions"
            append_entry(
                action="session.end", outcome="done", by=by, target_kind="person", target=owner.get_username(),
                says=f"Ended {len(ended)} {word} of {owner.get_username()} (from {places}).",
            )  # fmt: skip
    return len(ended)
