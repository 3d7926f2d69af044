"""The outbox: which deliveries are due, who has one, and what becomes of it. Compare-and-set, never `save()`.

A claim is a lease. A worker that dies between sending and marking leaves it in `sending`; when the lease is over
the delivery is anybody's again, and goes out a second time under the same id. So: at least once, rarely twice.
"""

import random
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from recovery.models import Channel, Delivery, Message

LEASE: Final = timedelta(seconds=60)
"""Longer than one try can take (`posting.WHOLE_SECONDS`, SMTP's timeout)."""

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 3600.0
KEEP: Final = timedelta(days=90)
_CHANCE: Final = random.SystemRandom()


def waiting_deliveries(now: datetime) -> QuerySet[Delivery]:
    """Deliveries that a worker may claim now, oldest message first.

    One that follows an undelivered message about the same recovery waits for it, so that no one reads "approved"
    before "asks for approval"; other recoveries do not wait for either.
    """
    due = Q(state="pending", next_at__lte=now) | Q(state="sending", claimed_until__lt=now)
    before = Delivery.objects.filter(
        channel=OuterRef("channel"), message__recovery=OuterRef("message__recovery"), pk__lt=OuterRef("pk"),
        state__in=("pending", "sending"),
    ).exclude(message__recovery="")  # fmt: skip
    return Delivery.objects.filter(due, ~Exists(before), channel__on=True).order_by("pk")


def channels_due(now: datetime) -> list[int]:
    return list(waiting_deliveries(now).order_by("channel").values_list("channel", flat=True).distinct())


def is_channel_busy(channel_id: int, now: datetime) -> bool:
    """Is a worker sending to this channel? Then it will see what else is due; a second one need not wait with it."""
    return Delivery.objects.filter(channel=channel_id, state="sending", claimed_until__gte=now).exists()


def claim_delivery(delivery: Delivery, now: datetime) -> bool:
    """Make this worker the only one that sends it, until the lease is over. False: another one was faster."""
    due = Q(state="pending") | Q(state="sending", claimed_until__lt=now)
    claimed = Delivery.objects.filter(due, pk=delivery.pk, attempts=delivery.attempts)
    changed = claimed.update(state="sending", attempts=F("attempts") + 1, claimed_until=now + LEASE)
    if changed:
        delivery.refresh_from_db()
    return bool(changed)


def _claimed_delivery(delivery: Delivery) -> QuerySet[Delivery]:
    return Delivery.objects.filter(pk=delivery.pk, state="sending", attempts=delivery.attempts)


def mark_delivered(delivery: Delivery) -> None:
    """sending -> delivered, and the channel works. Nothing, when the lease was lost: the next attempt marks it."""
    now = timezone.now()
    _claimed_delivery(delivery).update(state="delivered", delivered_at=now, last_error="", claimed_until=None)
    Channel.objects.filter(pk=delivery.channel_id).update(failing_since=None, delivered_at=now)


def not_delivered(delivery: Delivery, says: str, *, again: bool, pause: float) -> bool:
    """sending -> pending with a later time, or failed for good. True when it is given up."""
    now = timezone.now()
    next_at = now + timedelta(seconds=max(pause, backoff_seconds(delivery.attempts)))
    lost = not again or next_at > delivery.give_up_at
    values = {"state": "failed"} if lost else {"state": "pending", "next_at": next_at}
    changed = _claimed_delivery(delivery).update(**values, last_error=says[:400], claimed_until=None)
    Channel.objects.filter(pk=delivery.channel_id, failing_since=None).update(failing_since=now)
    return bool(lost and changed)


def backoff_seconds(attempts: int) -> float:
    """Seconds until the next try: 10, 20, 40 … at most an hour, each a quarter more or less (by chance)."""
    seconds: float = min(FIRST_PAUSE * 2 ** min(attempts - 1, 20), LONGEST_PAUSE)
    return seconds * _CHANCE.uniform(0.75, 1.25)


def give_up_at(now: datetime) -> datetime:
    return now + timedelta(hours=settings.REPRISE_NOTIFY_HOURS)


def overdue_deliveries(now: datetime) -> QuerySet[Delivery]:
    """Those that waited longer than a message is worth: their channel was off, or no worker ran."""
    return Delivery.objects.filter(state="pending", give_up_at__lt=now)


def prune_messages(now: datetime) -> int:
    """Forget messages older than KEEP that no delivery waits for; answers how many."""
    open_ = Delivery.objects.filter(message=OuterRef("pk"), state__in=("pending", "sending"))
    old = Message.objects.filter(~Exists(open_), created_at__lt=now - KEEP)
    return old.delete()[1].get("recovery.Message", 0)
