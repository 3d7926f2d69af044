"""By beat: tell people of a queue whose tasks wait."""

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from recovery.health import queues
from recovery.notify.actions import announce_event
from recovery.notify.wording import Fact


@shared_task(name="recovery.health.tasks.watch_queues")
def watch_queues() -> None:
    """Tell, once an hour, of each queue that is late. Of `control` itself this comes when it works again: the metric
    tells it from outside."""
    now = timezone.now()
    for queue in queues.measure_queues(now):
        if queue.is_late:
            facts: dict[str, Fact] = {
                "queue": queue.name,
                "seconds": round(queue.oldest),
                "tasks": queue.length,
            }
            with transaction.atomic():
                announce_event(event="queue.late", facts=facts, dedupe=f"{queue.name}:{now:%Y-%m-%dT%H}")
