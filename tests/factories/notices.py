"""Notification channels with deliveries in every state."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from recovery.models import Channel, Delivery, Message
from recovery.notify.channels import ENVIRONMENTS
from recovery.notify.events import SUBSCRIBED
from tests.factories.flows import ago


def channel(name: str = "on-call", kind: str = "mail", **values: Any) -> Channel:
    given = {
        "address": {"mail": "on-call@example.com", "webhook": "https://hooks.example.com/incidents/in"}.get(
            kind, "env:REPRISE_NOTIFY_CHAT"
        ),
        "secret_ref": "file:/run/secrets/notify_signing" if kind == "webhook" else "",
        "environments": list(ENVIRONMENTS),
        "events": list(SUBSCRIBED),
        **values,
    }
    return Channel.objects.create(name=name, kind=kind, **given)


def message(
    event: str = "flow.failed", title: str = "customers_incremental_flow fails in production"
) -> Message:
    body = {"title": title, "facts": {"flow": "customers_incremental_flow"}, "link": "/", "by": "reprise"}
    number = Message.objects.count()
    return Message.objects.create(
        event=event, environment="production", dedupe=f"{event}:{number}", body=body
    )


def delivery(to: Channel, state: str = "delivered", of: Message | None = None, **values: Any) -> Delivery:
    now = timezone.now()
    given = {
        "attempts": 1, "next_at": now + timedelta(minutes=2), "give_up_at": now + timedelta(hours=23),
        "delivered_at": ago(minutes=3) if state == "delivered" else None, **values,
    }  # fmt: skip
    return Delivery.objects.create(message=of or message(), channel=to, state=state, **given)


def channels() -> None:
    """Channels that work, fail, are off and were never used; deliveries in every state."""
    mail = channel(delivered_at=ago(minutes=3))
    hook = channel(
        "incident desk", "webhook", failing_since=ago(minutes=34), events=["flow.failed", "audit.broken"]
    )
    chat = channel("data platform", "chat", on=False)
    channel("auditors", environments=["production"])
    asked = message("approval.requested", "Approval asked: R-7 of customers_incremental_flow in production")
    says = "https://hooks.example.com/… does not answer in time."
    delivery(hook, "failed", attempts=38, last_error=says)
    delivery(chat, "pending", attempts=0)
    delivery(mail, of=asked)
    delivery(hook, "pending", of=asked, attempts=9, last_error=says)
    delivery(hook, "sending")
