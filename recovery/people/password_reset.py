"""A link to set a new password, by mail, for someone who forgot theirs.

Who asks is no one yet, and must not find out who has an account: the page takes any address, says the same and takes
the same time, and a worker looks whose it is. What came of it is in the audit log. The link is an invitation of
one hour: it works once, sets the password, ends open sessions, and takes no second factor away.
"""

import secrets
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery.audit.actions import append_entry
from recovery.errors import Refused
from recovery.models import Invitation, Person
from recovery.people.identity import sha256_hex
from recovery.people.roles import AnonymousActor
from recovery.workflow import broker

GOOD: Final = timedelta(hours=1)
BY: Final = "themselves, by mail"
"""`created_by` of such a link."""

TITLE: Final = "Set a new password"
TEXT: Final = """Someone asked for a link to set a new password for {name} in Reprise.

{link}

It works once, until {until} UTC. If it was not you, do nothing: nothing has changed, and no one else got this mail.
"""


def can_send_reset() -> bool:
    """Is there a mail server?"""
    from recovery.notify import mailing

    return mailing.is_mail_configured()


def request_reset(*, email: str, place: str) -> None:
    """Have a worker look whose address this is. Raises Refused (no mail server), Unreachable (no broker)."""
    from recovery.people import tasks

    if not can_send_reset():
        raise Refused("This console sends no mail. Ask an admin for a new link.")
    broker.check()
    with transaction.atomic():
        broker.send_on_commit(tasks.send_link, email.strip()[:254], place)


def send_link(*, email: str, place: str) -> None:
    """Make the link and mail it. Whoever has no password to forget gets none; the try is in the audit log."""
    from recovery.notify import mailing
    from recovery.notify.posting import NotDelivered

    where = f" from {place}" if place else ""
    person = _find_owner(email)
    if person is None:
        _write_entry(
            "denied",
            email,
            f"Asked{where} for a new password by mail: no person with a password has this address.",
        )
        return
    name = person.user.get_username()
    with transaction.atomic():
        person.invitations.filter(created_by=BY, used_at=None, ended_at=None).update(ended_at=timezone.now())
        text = secrets.token_urlsafe(32)
        made = Invitation.objects.create(
            person=person, sha256=sha256_hex(text), created_by=BY, expires_at=timezone.now() + GOOD
        )
        _write_entry(
            "done", name, f"Asked{where} for a new password: a link goes to the mail address of {name}."
        )
    link = f"{settings.REPRISE_PUBLIC_URL.rstrip('/')}/invitation/{text}"
    try:
        mailing.send_mail(
            to=person.user.email, uid=f"password-{made.pk}", title=TITLE,
            text=TEXT.format(name=name, link=link, until=f"{made.expires_at:%Y-%m-%d %H:%M}"),
        )  # fmt: skip
    except NotDelivered as problem:
        with transaction.atomic():
            Invitation.objects.filter(pk=made.pk).update(ended_at=timezone.now())
            _write_entry("failed", name, f"The link for {name} was not sent: {problem}")


def _find_owner(email: str) -> Person | None:
    """Whose address it is: one person's, with a role, switched on, with a password of their own."""
    users = list(User.objects.filter(email__iexact=email)[:2]) if email else []
    if len(users) != 1 or not users[0].is_active or not users[0].has_usable_password():
        return None
    return Person.objects.select_related("user").filter(user=users[0], service=False).first()


def _write_entry(outcome: str, name: str, says: str) -> None:
    append_entry(
        action="person.forgot", outcome=outcome, by=AnonymousActor(via="task"), target_kind="person",
        target=name[:150], says=says,
    )  # fmt: skip
