"""Celery's wake-ups. The outbox says what is due: a lost one is made good by the next sweep."""

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from recovery.notify import actions, delivering, outbox


@shared_task(name="recovery.notify.tasks.deliver_channel", time_limit=180)
def deliver_channel(channel_id: int) -> None:
    delivering.deliver_channel(channel_id)


@shared_task(name="recovery.notify.tasks.sweep")
def sweep() -> None:
    """By beat: give up what is too old, tell of channels that fail, wake a worker for whatever is due."""
    now = timezone.now()
    for delivery in outbox.overdue_deliveries(now).select_related("channel", "message")[:100]:
        with transaction.atomic():
            says = delivery.last_error or "It waited too long: the channel was off, or no worker ran."
            if (
                outbox.overdue_deliveries(now)
                .filter(pk=delivery.pk)
                .update(state="failed", last_error=says[:400])
            ):
                delivering.give_up_delivery(delivery, says)
    actions.announce_failing(now)
    for channel_id in outbox.channels_due(now):
        deliver_channel.delay(channel_id)


@shared_task(name="recovery.notify.tasks.prune")
def prune() -> None:
    outbox.prune_messages(timezone.now())
