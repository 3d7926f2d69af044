"""Channels and deliveries as Settings shows them: the state of each, in words, without an address's secret part."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presenters import versions
from console.presenters.status import Badge
from recovery.models import Channel, Delivery
from recovery.notify.channels import shown_address
from recovery.notify.events import EVENTS, SUBSCRIBED
from recovery.notify.selectors import FAILING_AFTER

KINDS: Final = (
    ("mail", "Mail", "plain text to one address"),
    ("webhook", "Webhook", "signed JSON to a program"),
    ("chat", "Chat", "Slack's incoming webhook, or one of its shape"),
)
DELIVERY: Final = {
    "pending": Badge("pending", "Waits"),
    "sending": Badge("running", "Being sent", spin=True),
    "delivered": Badge("ok", "Delivered"),
    "failed": Badge("failed", "Given up"),
}
_NAMES: Final = {code: name for code, name, _ in KINDS}


@dataclass(frozen=True)
class ChannelRow:
    channel: Channel
    badge: Badge
    kind: str
    address: str
    told: str
    where: str


@dataclass(frozen=True)
class DeliveryRow:
    delivery: Delivery
    badge: Badge
    words: str
    title: str
    #: may be sent again now
    again: bool


def channel_row(channel: Channel, now: datetime) -> ChannelRow:
    every = len(channel.events) == len(SUBSCRIBED)
    return ChannelRow(
        channel,
        _channel_badge(channel, now),
        _NAMES[channel.kind],
        shown_address(channel),
        "everything" if every else f"{len(channel.events)} of {len(SUBSCRIBED)} events",
        ", ".join(channel.environments),
    )


def _channel_badge(channel: Channel, now: datetime) -> Badge:
    if not channel.on:
        return Badge("stopped", "Off")
    if channel.failing_since is not None:
        long = now - channel.failing_since > FAILING_AFTER
        return Badge("failed", "Fails") if long else Badge("attention", "Last try failed")
    return Badge("ok", "Works") if channel.delivered_at else Badge("pending", "Never used")


def delivery_row(delivery: Delivery) -> DeliveryRow:
    message = delivery.message
    tried = delivery.state == "pending" and delivery.attempts > 0
    return DeliveryRow(
        delivery,
        Badge("attention", "Tried, waits") if tried else DELIVERY[delivery.state],
        EVENTS[message.event].words if message.event in EVENTS else message.event,
        str(message.body.get("title", "")),
        delivery.channel.on and (tried or delivery.state == "failed"),
    )


def list_version(channels: Iterable[ChannelRow], deliveries: Iterable[DeliveryRow], now: datetime) -> str:
    return versions.list_digest(
        [(c.channel.pk, c.channel.name, c.badge, c.address) for c in channels],
        [(d.delivery.pk, d.delivery.state, d.delivery.attempts, d.delivery.next_at) for d in deliveries],
        versions.clock_tick(now, 30),
    )


def list_choices(codes: Iterable[str], chosen: Iterable[str]) -> list[tuple[str, str, bool]]:
    """(code, words, ticked) of every event that can be subscribed to, or of every environment."""
    ticked = set(chosen)
    return [(c, EVENTS[c].words if c in EVENTS else c, c in ticked) for c in codes]
