"""The only doors into the outbox: announce what happened, and manage who is notified.

`announce` writes inside the caller's transaction: the change and its message are both there or neither. Delivery
begins after the commit, by a worker; the sweep makes a lost wake-up good.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery.audit.actions import Attempt, audited_attempt
from recovery.errors import NotFound, Refused
from recovery.models import Channel, Delivery, Flow, Message, Pipeline, Recovery
from recovery.notify import events, outbox, selectors, subject, wording
from recovery.notify.channels import check_channel, describe_channel
from recovery.notify.events import EVENTS
from recovery.notify.wording import Fact
from recovery.people.roles import SYSTEM, Actor, Right
from recovery.workflow import broker


def announce_event(
    *,
    event: str,
    recovery: Recovery | None = None,
    flow: Flow | None = None,
    pipeline: Pipeline | None = None,
    facts: Mapping[str, Fact] | None = None,
    by: Actor = SYSTEM,
    dedupe: str = "",
    link: str = "",
    people: Collection[str] = (),
) -> Message | None:
    """Write a message for every channel that asked for this event; call in the transaction of the change.

    What it is about (a recovery, a flow, or a pipeline as a whole) gives the usual facts; `facts` adds to them: text,
    numbers, true, false, null, never a secret. `dedupe` names this very occurrence, and a second message of that name
    is not written (None is answered): by default the recovery and its version, so call it after the move. `link` is a
    path in the console; by default the recovery, the flow, the pipeline, or the event's own page. `people`: whom it
    concerns, by name; a mail channel to their own address is notified although it did not ask for the event.

    Raises ValueError for an unregistered event or decision, TypeError for a fact that is no plain value.
    """
    environment = subject.environment_of(recovery, flow, pipeline)
    to = _list_subscribed(event, environment)
    to += [c for c in _own_channels(people) if c not in to]
    usual = subject.facts_of_pipeline(pipeline) if pipeline else subject.facts_of_subject(recovery, flow)
    path = link or subject.page_path(event, recovery, flow, pipeline)
    return _write_message(event, recovery, environment, {**usual, **(facts or {})}, by, dedupe, path, to=to)


def _own_channels(people: Collection[str]) -> list[Channel]:
    """The mail channels that lead to these people's own addresses, where an admin has written them down."""
    known = User.objects.filter(username__in=people, is_active=True).exclude(email="")
    addresses = {email.lower() for email in known.values_list("email", flat=True)}
    mail = Channel.objects.filter(on=True, kind="mail") if addresses else ()
    return [channel for channel in mail if channel.address.lower() in addresses]


def _list_subscribed(event: str, environment: str) -> list[Channel]:
    return [
        channel
        for channel in Channel.objects.filter(on=True)
        if event in channel.events and (not environment or environment in channel.environments)
    ]


def _write_message(
    event: str,
    recovery: Recovery | None,
    environment: str,
    given: Mapping[str, Fact],
    by: Actor,
    dedupe: str,
    link: str,
    *,
    to: Iterable[Channel],
) -> Message | None:
    events.check_event(event)
    facts = {name: wording.plain_fact(value) for name, value in given.items()}
    if event == "approval.decided" and facts.get("decision") not in events.DECISIONS:
        raise ValueError(f"approval.decided needs a fact `decision`, one of {', '.join(events.DECISIONS)}.")
    if by is not SYSTEM:
        facts.setdefault("by", by.name)
    label = recovery.label if recovery else ""
    message = Message(
        event=event,
        recovery=label,
        environment=environment,
        dedupe=f"{event}:{dedupe or _occurrence_key(recovery)}"[:200],
        body={
            "title": wording.message_title(event, facts),
            "facts": facts,
            "link": link,
            "by": by.name,
        },
    )
    # a savepoint is not enough here: PostgreSQL would end the caller's transaction at the first double
    Message.objects.bulk_create([message], ignore_conflicts=True)
    written = Message.objects.filter(uid=message.uid).first()
    if written is not None:
        _hand_over(written, to)
    return written


def _occurrence_key(recovery: Recovery | None) -> str:
    return f"{recovery.label}:{recovery.version}" if recovery else uuid4().hex


def _hand_over(message: Message, to: Iterable[Channel]) -> None:
    now = timezone.now()
    made = [
        Delivery(message=message, channel=channel, next_at=now, give_up_at=outbox.give_up_at(now))
        for channel in to
    ]
    Delivery.objects.bulk_create(made)
    for delivery in made:
        _wake_channel(delivery.channel_id)


def _wake_channel(channel_id: int) -> None:
    from recovery.notify import tasks

    broker.send_on_commit(tasks.deliver_channel, channel_id)


def announce_failing(now: datetime) -> None:
    """Tell the other channels, once, of each one that has failed for some time. Called by the sweep."""
    for channel in selectors.failing_channels(now):
        others = [c for c in _list_subscribed("channel.failing", "") if c.pk != channel.pk]
        since = channel.failing_since
        assert since is not None, "a channel that fails has failed since some time"
        newest = channel.deliveries.exclude(last_error="").order_by("-pk").first()
        facts = {
            "channel": channel.name,
            "failing_since": f"{since:%Y-%m-%d %H:%M} UTC",
            "problem": newest.last_error if newest else "",
        }
        with transaction.atomic():
            name = f"{channel.pk}:{since.isoformat()}"
            _write_message(
                "channel.failing", None, "", facts, SYSTEM, name, EVENTS["channel.failing"].link, to=others
            )


def create_channel(*, name: str, by: Actor, **wanted: Any) -> Channel:
    """Add a channel. `wanted`: kind, address, secret_ref, environments, events. Right: MANAGE.

    Raises Denied, WrongUse; Refused for an address that the console may not call, and for a name that is taken.
    """
    with audited_attempt(action="channel.create", by=by, target_kind="channel", target=name[:80]) as trying:
        by.check(Right.MANAGE)
        values = check_channel(name, wanted)
        if Channel.objects.filter(name=values["name"]).exists():
            raise Refused(
                f"There is a channel named {values['name']} already. Take another name.", code="taken"
            )
        channel = Channel.objects.create(**values)
        trying.done(f"Channel {channel.name} ({channel.kind}) added.", after=describe_channel(channel))
    return channel


def change_channel(*, channel_id: int, name: str, by: Actor, **wanted: Any) -> Channel:
    """Change a channel; what waits goes to the new address, and an empty one leaves it as it is. Right: MANAGE.

    Raises as `create_channel`, and NotFound.
    """
    with _manage_channel("channel.change", channel_id, by) as (trying, channel):
        if not wanted.get("address") and wanted.get("kind") == channel.kind:
            wanted["address"] = (
                channel.address
            )  # the page does not show a URL again, whose path may be a password
        before, values = describe_channel(channel), check_channel(name, wanted)
        if Channel.objects.filter(name=values["name"]).exclude(pk=channel_id).exists():
            raise Refused(
                f"There is a channel named {values['name']} already. Take another name.", code="taken"
            )
        Channel.objects.filter(pk=channel_id).update(**values, failing_since=None)
        channel.refresh_from_db()
        trying.done(f"Channel {channel.name} changed.", before=before, after=describe_channel(channel))
    return channel


def switch_channel(*, channel_id: int, on: bool, by: Actor) -> None:
    """Switch a channel on or off. What waits stays, and goes out when it is on again, unless it is too old then."""
    with _manage_channel("channel.switch", channel_id, by) as (trying, channel):
        Channel.objects.filter(pk=channel_id).update(on=on, failing_since=None)
        if on:
            _wake_channel(channel_id)
        trying.done(
            f"Channel {channel.name} switched {'on' if on else 'off'}.",
            before={"on": channel.on},
            after={"on": on},
        )


def remove_channel(*, channel_id: int, by: Actor) -> None:
    """Remove a channel with its deliveries; messages that waited for it are not sent."""
    with _manage_channel("channel.remove", channel_id, by) as (trying, channel):
        waits = channel.deliveries.filter(state__in=("pending", "sending")).count()
        before = {**describe_channel(channel), "waiting": waits}
        channel.delete()
        trying.done(f"Channel {channel.name} removed; {waits} waiting messages with it.", before=before)


def send_test(*, channel_id: int, by: Actor) -> Message:
    """Send a test message to one channel, by the way that every message goes. Refused while it is off."""
    with _manage_channel("channel.test", channel_id, by) as (trying, channel):
        if not channel.on:
            raise Refused(
                f"Channel {channel.name} is off: nothing is sent to it. Switch it on first.",
                code="channel_off",
            )
        facts: dict[str, Fact] = {"channel": channel.name, "by": by.name}
        message = _write_message(
            "channel.test", None, "", facts, by, "", EVENTS["channel.test"].link, to=[channel]
        )
        assert message is not None, "its occurrence has a new name"
        trying.done(f"Test message to channel {channel.name}.", after={"message": str(message.uid)})
    return message


def retry_now(*, delivery_id: int, by: Actor) -> None:
    """Have a delivery that waits, or was given up, tried now, under the same id."""
    delivery = Delivery.objects.select_related("message").filter(pk=delivery_id).first()
    if delivery is None:
        raise NotFound("There is no such delivery. It may have been removed with its channel.")
    with _manage_channel("message.retry", delivery.channel_id, by) as (trying, channel):
        now = timezone.now()
        waits = Delivery.objects.filter(pk=delivery_id, state__in=("pending", "failed"))
        if not waits.update(state="pending", next_at=now, give_up_at=outbox.give_up_at(now)):
            raise Refused(
                "It is being sent at this moment, or was delivered: there is nothing to send again."
            )
        _wake_channel(channel.pk)
        trying.done(
            f"{delivery.message.event} is sent to {channel.name} again.",
            after={"message": str(delivery.message.uid)},
        )


@contextmanager
def _manage_channel(action: str, channel_id: int, by: Actor) -> Iterator[tuple[Attempt, Channel]]:
    """One act on a channel that is there: the right is checked, the row is locked. Raises Denied, NotFound."""
    with audited_attempt(
        action=action, by=by, target_kind="channel", target=f"channel {channel_id}"
    ) as trying:
        by.check(Right.MANAGE)
        channel = Channel.objects.select_for_update().filter(pk=channel_id).first()
        if channel is None:
            raise NotFound("There is no such channel. It may have been removed.")
        trying.target = channel.name
        yield trying, channel
