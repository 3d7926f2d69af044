"""Channels to receivers on this machine, which the operator of these tests allows by name."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recovery.models import Channel, Delivery
from recovery.notify import actions, delivering
from recovery.notify.channels import ENVIRONMENTS
from recovery.notify.events import SUBSCRIBED
from recovery.people.roles import Actor, Role
from tests.unit.notify.receivers import Receiver, listening

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ADMIN = Actor("root", Role.ADMIN, via="page")
Make = Callable[..., Channel]


@pytest.fixture(autouse=True)
def allowed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REPRISE_OUTBOUND_ALLOW = "localhost"
    settings.REPRISE_PUBLIC_URL = "https://reprise.example"
    monkeypatch.setenv("REPRISE_NOTIFY_SECRET", SECRET)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as made:
        yield made


@pytest.fixture
def channel(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a channel; a webhook to `receiver` unless told otherwise."""
    monkeypatch.setenv("REPRISE_NOTIFY_CHAT_URL", receiver.url)

    def make(name: str = "ops", kind: str = "webhook", **values: Any) -> Channel:
        addresses = {
            "mail": "ops@example.com",
            "webhook": receiver.url,
            "chat": "env:REPRISE_NOTIFY_CHAT_URL",
        }
        given = {
            "address": addresses[kind],
            "secret_ref": "env:REPRISE_NOTIFY_SECRET" if kind == "webhook" else "",
            "environments": ENVIRONMENTS,
            "events": SUBSCRIBED,
            **values,
        }
        return actions.create_channel(name=name, kind=kind, by=ADMIN, **given)

    return make


def deliver(of: Channel | None = None) -> None:
    """What a worker does when it is woken, for one channel or for all."""
    for pk in [of.pk] if of else list(Channel.objects.values_list("pk", flat=True)):
        delivering.deliver_channel(pk)


def only() -> Delivery:
    return Delivery.objects.select_related("message", "channel").get()
