"""Reads that pages, commands and metrics share."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from recovery.errors import NotFound
from recovery.models import Channel, Delivery

FAILING_AFTER: Final = timedelta(minutes=10)
"""A channel that has failed for longer is shown to admins, and reported to the other channels."""


@dataclass(frozen=True)
class Outbox:
    """Figures for metrics: deliveries that wait, age of the oldest (s), given up within a day, failing channels."""

    waiting: int
    oldest_seconds: float
    lost_today: int
    failing: int


def outbox_status(now: datetime | None = None) -> Outbox:
    now = now or timezone.now()
    waits = Delivery.objects.filter(state__in=("pending", "sending"), channel__on=True)
    oldest = waits.order_by("message__created_at").values_list("message__created_at", flat=True).first()
    day = Q(state="failed", message__created_at__gte=now - timedelta(days=1))
    return Outbox(
        waiting=waits.count(),
        oldest_seconds=(now - oldest).total_seconds() if oldest else 0.0,
        lost_today=Delivery.objects.filter(day).count(),
        failing=failing_channels(now).count(),
    )


def failing_channels(now: datetime | None = None) -> QuerySet[Channel]:
    """Channels to which nothing has gone for FAILING_AFTER, though it was tried."""
    return Channel.objects.filter(on=True, failing_since__lt=(now or timezone.now()) - FAILING_AFTER)


def list_channels() -> QuerySet[Channel]:
    """All, by name, with `waits` and `lost`: how many deliveries wait, and how many were given up."""
    waits, lost = Q(deliveries__state__in=("pending", "sending")), Q(deliveries__state="failed")
    return Channel.objects.annotate(
        waits=Count("deliveries", filter=waits), lost=Count("deliveries", filter=lost)
    ).order_by("name")


def channel_or_404(channel_id: int) -> Channel:
    """Raises NotFound."""
    channel = list_channels().filter(pk=channel_id).first()
    if channel is None:
        raise NotFound("There is no such channel. See the list of channels.")
    return channel


def newest_deliveries(limit: int = 50) -> list[Delivery]:
    """The newest, first; each with its message and channel."""
    return list(Delivery.objects.select_related("message", "channel").order_by("-pk")[:limit])
