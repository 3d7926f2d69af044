"""Uses of access tokens: an entry for the first in an hour from an address, and none for the many after it.

A script that polls every few seconds would else bury the log. What a token *does* is an entry of its own each time.
"""

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from recovery.audit import origin
from recovery.audit.actions import append_entry
from recovery.models import Token, TokenSighting
from recovery.people.roles import Actor

KEPT: Final = timedelta(days=2)


def note_use(token: Token, *, by: Actor) -> None:
    """Append `token.use` unless this token was seen from this address in this hour. Two at once make one entry."""
    address = origin.current_origin().address
    now = timezone.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    if TokenSighting.objects.filter(token_id=token.pk, hour=hour, address=address).exists():
        return
    with transaction.atomic():
        _, first = TokenSighting.objects.get_or_create(token_id=token.pk, hour=hour, address=address)
        if not first:
            return
        TokenSighting.objects.filter(hour__lt=now - KEPT).delete()
        place = f"from {address}" if address else "on this machine"
        append_entry(
            action="token.use", outcome="done", by=by, target_kind="token",
            target=f"{token.user.get_username()}: {token.name}", says=f"Used access token {token.name} {place}.",
        )  # fmt: skip
