"""How long tasks wait in each queue: by the rows that wait in the database, and by what is in the broker.

A queue whose oldest task waits for `LATE_SECONDS` has no worker, or one that does not keep up.
"""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from celery import current_app
from django.conf import settings
from django.db.models import Min, Q
from kombu.exceptions import OperationalError

from recovery.health import SENT_AT
from recovery.models import Step

log = logging.getLogger(__name__)

LATE_SECONDS: Final = 60.0
PATIENCE: Final = {"socket_connect_timeout": 2, "socket_timeout": 2}


@dataclass(frozen=True)
class Queue:
    """`oldest`: seconds that the oldest task has waited, by rows and broker together; `length`: messages that no worker
    has taken, None while the broker does not answer."""

    name: str
    oldest: float
    length: int | None

    @property
    def is_late(self) -> bool:
        return self.oldest > LATE_SECONDS


def list_queue_names() -> list[str]:
    """Every queue that a task can go to."""
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()}
    return sorted({*routed, settings.CELERY_TASK_DEFAULT_QUEUE})


def waiting_rows(now: datetime) -> dict[str, float]:
    """Seconds that the oldest row has waited for a task of its queue: a step that was woken, a look that is due."""
    oldest_times = Step.objects.aggregate(
        steps=Min("woken_at", filter=Q(state="pending")), control=Min("look_at", filter=Q(look_at__lt=now))
    )
    return {name: max((now - since).total_seconds(), 0.0) for name, since in oldest_times.items() if since}


def late_queues(now: datetime) -> list[Queue]:
    """Queues that are late by the rows alone: one query, for pages."""
    queues = [Queue(name, oldest, None) for name, oldest in sorted(waiting_rows(now).items())]
    return [queue for queue in queues if queue.is_late]


def measure_queues(now: datetime) -> list[Queue]:
    """Every queue. A broker that does not answer within 2 s leaves what the rows say."""
    rows, messages = waiting_rows(now), _read_queues()
    return [
        Queue(
            name,
            max(rows.get(name, 0.0), messages[name][1] if messages else 0.0),
            messages[name][0] if messages else None,
        )
        for name in list_queue_names()
    ]


def _read_queues() -> Mapping[str, tuple[int, float]]:
    """By queue: how many messages lie in the broker, and the age of the oldest; {} where it does not answer."""
    try:
        with current_app.connection_for_read(transport_options=PATIENCE) as connection:
            # Else the first use of the channel tries again and again, and whoever asks for the numbers waits for it.
            connection.ensure_connection(max_retries=0, timeout=PATIENCE["socket_timeout"])
            client: Any = getattr(connection.default_channel, "client")  # noqa: B009  (of a Redis channel alone)
            return {
                name: (client.llen(name), _message_age(client.lindex(name, -1)))
                for name in list_queue_names()
            }
    except (OperationalError, OSError) as problem:
        log.warning("The broker does not say what waits: %s", problem)
        return {}


def _message_age(message: Any) -> float:
    if message is None:
        return 0.0
    sent_at = json.loads(message).get("headers", {}).get(SENT_AT)
    return max(time.time() - float(sent_at), 0.0) if sent_at else 0.0
