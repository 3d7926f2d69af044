"""Sends what is due, in a worker: claim, send outside of any transaction, mark."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from recovery.audit.actions import append_entry
from recovery.errors import RepriseError
from recovery.models import Delivery
from recovery.notify import mailing, outbox, posting, references, shapes, signing, wording
from recovery.people.roles import SYSTEM

log = logging.getLogger(__name__)

BUDGET_SECONDS: Final = 30.0
"""After this long a worker is given back; the sweep wakes another one for the rest."""


def deliver_channel(channel_id: int) -> int:
    """Send what is due to one channel, oldest first; answers how many were delivered.

    Stops after the first try that fails: the rest has the same receiver, and workers are few.
    """
    sent, until = 0, time.monotonic() + BUDGET_SECONDS
    if outbox.is_channel_busy(channel_id, timezone.now()):
        return 0
    while time.monotonic() < until:
        now = timezone.now()
        delivery = (
            outbox.waiting_deliveries(now)
            .filter(channel=channel_id)
            .select_related("message", "channel")
            .first()
        )
        if delivery is None or not outbox.claim_delivery(delivery, now):
            break
        if not attempt_delivery(delivery):
            break
        sent += 1
    return sent


def attempt_delivery(delivery: Delivery) -> bool:
    """One try of a delivery that this worker has claimed. False: the channel seems not to work."""
    try:
        SENDERS[delivery.channel.kind](delivery)
    except posting.NotDelivered as failure:
        _note_missed(delivery, failure.sentence, again=failure.again, pause=failure.pause)
        return not failure.again  # a message that was refused says nothing about the next one
    except (
        RepriseError
    ) as failure:  # a reference that cannot be read, a secret that is none: a person can repair it
        _note_missed(delivery, failure.sentence, again=True, pause=0)
        return False
    except Exception as bug:
        log.exception("delivery %s", delivery.pk)
        _note_missed(
            delivery, f"A fault in Reprise ended the try ({type(bug).__name__}).", again=True, pause=0
        )
        return False
    outbox.mark_delivered(delivery)
    return True


def _note_missed(delivery: Delivery, says: str, *, again: bool, pause: int) -> None:
    with transaction.atomic():
        if outbox.not_delivered(delivery, says, again=again, pause=pause):
            give_up_delivery(delivery, says)


def give_up_delivery(delivery: Delivery, says: str) -> None:
    """Write down that a message is given up; inside the caller's transaction."""
    append_entry(
        action="message.lost",
        outcome="failed",
        by=SYSTEM,
        target_kind="channel",
        target=delivery.channel.name,
        recovery=delivery.message.recovery,
        says=f"{delivery.message.event} was given up after {delivery.attempts} tries: {says}",
        after={"message": str(delivery.message.uid), "event": delivery.message.event},
    )


def deep_link(delivery: Delivery) -> str:
    """The deep link of a message, at the console's public address."""
    base, path = str(settings.REPRISE_PUBLIC_URL), str(delivery.message.body["link"])
    return f"{base.rstrip('/')}/{path.lstrip('/')}"


def _deliver_mail(delivery: Delivery) -> None:
    message, body = delivery.message, delivery.message.body
    text = wording.message_text(body["title"], body["facts"], deep_link(delivery))
    mailing.send_mail(to=delivery.channel.address, uid=str(message.uid), title=body["title"], text=text)


def _deliver_webhook(delivery: Delivery) -> None:
    message = delivery.message
    body = shapes.webhook_body(
        uid=str(message.uid), event=message.event, at=message.created_at, recovery=message.recovery,
        environment=message.environment, body=message.body, url=deep_link(delivery),
    )  # fmt: skip
    secret = references.read_reference(delivery.channel.secret_ref)
    headers = signing.signed_headers(secret, str(message.uid), int(time.time()), body)
    posting.post_message(_resolve_address(delivery), body, headers)


def _deliver_chat(delivery: Delivery) -> None:
    body = shapes.chat_body(body=delivery.message.body, url=deep_link(delivery))
    posting.post_message(_resolve_address(delivery), body, {"webhook-id": str(delivery.message.uid)})


def _resolve_address(delivery: Delivery) -> str:
    address = delivery.channel.address
    return references.read_reference(address) if references.is_reference(address) else address


SENDERS: Mapping[str, Callable[[Delivery], None]] = {
    "mail": _deliver_mail,
    "webhook": _deliver_webhook,
    "chat": _deliver_chat,
}
