"""The outbox: written with the change, delivered at least once, in order, deduplicated, given up visibly."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from celery.exceptions import OperationalError
from django.db import transaction
from django.utils import timezone

from recovery.models import AuditEntry, Channel, Delivery, Message
from recovery.notify import actions, delivering, outbox, selectors, tasks
from recovery.notify.actions import announce_event
from tests import factories as f
from tests.unit.notify.conftest import ADMIN, Make, deliver, only
from tests.unit.notify.receivers import Receiver, hangs_up, status

pytestmark = pytest.mark.django_db


def uids(receiver: Receiver) -> list[str]:
    return [r.headers["webhook-id"] for r in receiver.got]


def later(**delta: float) -> None:
    """Let time pass for what waits: its next try, and a lease that somebody holds."""
    ago = timezone.now() - timedelta(**delta)
    Delivery.objects.filter(state="pending").update(next_at=ago)
    Delivery.objects.filter(state="sending").update(claimed_until=ago)


def test_a_message_is_there_with_its_change_or_not_at_all(channel: Make) -> None:
    channel()
    recovery = f.planned()

    with transaction.atomic():
        announce_event(event="recovery.started", recovery=recovery)
        assert Delivery.objects.count() == 1
        transaction.set_rollback(True)

    assert Message.objects.count() == Delivery.objects.count() == 0


def test_a_worker_is_woken_after_the_commit_and_delivers(
    channel: Make,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    made = channel()
    monkeypatch.setattr(tasks.deliver_channel, "delay", delivering.deliver_channel)

    with django_capture_on_commit_callbacks(execute=True):
        message = announce_event(event="recovery.started", recovery=f.planned(), by=ADMIN)
        assert receiver.got == []

    assert message is not None
    assert uids(receiver) == [str(message.uid)]
    sent = json.loads(receiver.got[0].body)
    assert (sent["event"], sent["facts"]["by"]) == ("recovery.started", "root")
    amounts = [word.split() for word in sent["facts"]["forecast"].split(", ")]
    assert [(words[0], words[-1]) for words in amounts] == [("0", "lost"), ("0", "doubled"), ("0", "again")]
    assert sent["url"] == f"https://reprise.example/recoveries/{message.recovery}"
    assert (only().state, only().attempts, only().last_error) == ("delivered", 1, "")
    made.refresh_from_db()
    assert made.delivered_at is not None


def test_a_wake_up_that_the_broker_lost_is_given_again_by_the_sweep(
    channel: Make,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    channel()

    def lost(pk: int) -> None:
        raise OperationalError

    monkeypatch.setattr(tasks.deliver_channel, "delay", lost)
    with django_capture_on_commit_callbacks(execute=True):
        announce_event(event="recovery.started", recovery=f.planned())
    assert receiver.got == []
    monkeypatch.setattr(tasks.deliver_channel, "delay", delivering.deliver_channel)

    tasks.sweep()

    assert only().state == "delivered"
    assert len(receiver.got) == 1


def test_the_same_occurrence_is_told_once_and_the_next_one_again(channel: Make, receiver: Receiver) -> None:
    channel()
    recovery = f.planned()

    assert announce_event(event="recovery.started", recovery=recovery) is not None
    assert announce_event(event="recovery.started", recovery=recovery) is None
    recovery.version += 1
    assert announce_event(event="recovery.started", recovery=recovery) is not None
    deliver()

    assert len(set(uids(receiver))) == len(receiver.got) == 2


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, True),
        ({"events": ["flow.failed"]}, False),
        ({"environments": ["production"]}, False),
        ({"environments": ["production", "development"]}, True),
    ],
)
def test_a_channel_is_told_what_it_subscribed_to_where_it_subscribed(
    channel: Make, values: dict[str, Any], told: bool
) -> None:
    channel(**values)

    announce_event(event="recovery.started", recovery=f.planned())

    assert Delivery.objects.exists() is told
    assert Message.objects.count() == 1


def test_what_belongs_to_no_environment_goes_to_every_subscriber(channel: Make) -> None:
    channel(environments=["production"])

    announce_event(event="audit.broken", facts={"problem": "Entry 7 is missing."}, dedupe="7")

    assert only().message.body["link"] == "/audit/chain"


@pytest.mark.parametrize(
    ("event", "facts", "error"),
    [
        ("recovery.begun", {}, ValueError),
        ("approval.decided", {}, ValueError),
        ("approval.decided", {"decision": "perhaps"}, ValueError),
        ("recovery.started", {"plan": {"hash": "x"}}, TypeError),
    ],
)
def test_a_wrong_announcement_is_a_bug_that_shows_at_once(
    event: str, facts: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        announce_event(event=event, recovery=f.planned(), facts=facts)


def test_an_approval_asked_for_carries_what_where_forecast_and_expiry(
    channel: Make, receiver: Receiver
) -> None:
    channel(kind="chat")
    recovery = f.planned()

    announce_event(
        event="approval.requested", recovery=recovery, by=ADMIN, link=f"/approvals/{recovery.pk}",
        facts={"approvals": "0 of 2", "expires_at": "2026-11-22 08:00 UTC", "reason": "Repeats may come in."},
    )  # fmt: skip
    deliver()

    text = json.loads(receiver.got[0].body)["text"]
    for part in (recovery.label, "development", "continue", "0 rows lost", "0 of 2", "2026-11-22 08:00 UTC",
                 f"https://reprise.example/approvals/{recovery.pk}"):  # fmt: skip
        assert part in text


def test_a_try_that_fails_is_repeated_later_and_later_under_the_same_id(
    channel: Make, receiver: Receiver
) -> None:
    made = channel()
    announce_event(event="recovery.started", recovery=f.planned())
    receiver.answers = [status(500), hangs_up, status(503, Retry_After="900")]
    pauses = []
    for _ in range(3):
        deliver()
        pauses.append((only().next_at - timezone.now()).total_seconds())
        deliver()  # not due yet: nothing is sent
        later(seconds=1)
    deliver()

    assert len(receiver.got) == 4
    assert len(set(uids(receiver))) == 1
    assert 7 <= pauses[0] <= 12.5
    assert 14 <= pauses[1] <= 25
    assert 890 <= pauses[2] <= 900  # as the receiver asked
    assert (only().state, only().attempts) == ("delivered", 4)
    made.refresh_from_db()
    assert made.failing_since is None


def test_pauses_grow_to_an_hour_and_are_spread_by_chance() -> None:
    assert all(2700 <= outbox.backoff_seconds(n) <= 4500 for n in (10, 50, 10_000))
    assert len({outbox.backoff_seconds(3) for _ in range(20)}) > 1


def test_after_hours_a_message_is_given_up_and_written_down(
    channel: Make, receiver: Receiver, settings: Any
) -> None:
    settings.REPRISE_NOTIFY_HOURS = 0.0001
    channel()
    announce_event(event="recovery.started", recovery=f.planned())
    receiver.answers = [status(500)]
    deliver()

    assert (only().state, "HTTP 500" in only().last_error) == ("failed", True)
    entry = AuditEntry.objects.get(action="message.lost")
    assert (entry.outcome, entry.target, entry.recovery) == ("failed", "ops", only().message.recovery)
    assert selectors.outbox_status().lost_today == 1


@pytest.mark.parametrize("code", [400, 413, 415, 422])
def test_a_message_that_the_receiver_refuses_is_given_up_and_holds_nobody_up(
    channel: Make, receiver: Receiver, code: int
) -> None:
    channel()
    recovery = f.planned()
    announce_event(event="recovery.started", recovery=recovery)
    announce_event(event="recovery.succeeded", recovery=recovery)
    receiver.answers = [status(code)]
    deliver()

    states = [d.state for d in Delivery.objects.order_by("pk")]
    assert states == ["failed", "delivered"]


def test_a_worker_killed_between_sending_and_marking_costs_a_double_under_the_same_id(
    channel: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel()
    announce_event(event="recovery.started", recovery=f.planned())

    def killed(delivery: Delivery) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "mark_delivered", killed)
        with pytest.raises(SystemExit):
            deliver()
    assert only().state == "sending"
    deliver()  # its lease is not over: nobody else sends it yet
    assert len(receiver.got) == 1
    later(seconds=1)
    deliver()

    assert len(receiver.got) == 2
    assert len(set(uids(receiver))) == 1
    assert (only().state, only().attempts) == ("delivered", 2)


def test_two_workers_that_see_the_same_delivery_send_it_once(channel: Make) -> None:
    channel()
    announce_event(event="recovery.started", recovery=f.planned())
    now = timezone.now()
    first, second = (outbox.waiting_deliveries(now).get() for _ in range(2))

    assert outbox.claim_delivery(first, now) is True
    assert outbox.claim_delivery(second, now) is False


def test_a_worker_whose_lease_was_lost_marks_nothing(channel: Make) -> None:
    channel()
    announce_event(event="recovery.started", recovery=f.planned())
    slow = outbox.waiting_deliveries(timezone.now()).get()
    outbox.claim_delivery(slow, timezone.now())
    later(seconds=1)
    quick = outbox.waiting_deliveries(timezone.now()).get()
    assert outbox.claim_delivery(quick, timezone.now())

    assert outbox.not_delivered(slow, "late", again=False, pause=0) is False
    outbox.mark_delivered(slow)

    assert (only().state, only().attempts, only().last_error) == ("sending", 2, "")


def test_messages_about_one_recovery_keep_their_order_and_others_pass_them(
    channel: Make, receiver: Receiver
) -> None:
    channel()
    first, other = f.planned(), f.planned(f.failed_flow(f.pipeline()))
    announce_event(event="recovery.started", recovery=first)
    announce_event(event="recovery.succeeded", recovery=first)
    announce_event(event="recovery.started", recovery=other)
    receiver.answers = [status(500)]
    deliver()  # the first fails and waits
    deliver()  # the one after it waits with it; the other recovery's does not
    later(seconds=1)
    deliver()

    told = [(json.loads(r.body)["event"], json.loads(r.body)["recovery"]) for r in receiver.got]
    assert told == [
        ("recovery.started", first.label),
        ("recovery.started", other.label),
        ("recovery.started", first.label),
        ("recovery.succeeded", first.label),
    ]


def test_one_worker_at_a_time_waits_for_a_slow_receiver(channel: Make) -> None:
    made = channel()
    for n in range(2):
        announce_event(event="audit.broken", dedupe=str(n))
    outbox.claim_delivery(outbox.waiting_deliveries(timezone.now())[0], timezone.now())

    assert delivering.deliver_channel(made.pk) == 0
    assert Delivery.objects.filter(state="pending").count() == 1


def test_what_waits_for_a_channel_that_is_off_goes_out_when_it_is_on_unless_it_is_too_old(
    channel: Make, receiver: Receiver, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.deliver_channel, "delay", delivering.deliver_channel)
    made = channel()
    announce_event(event="audit.broken", dedupe="old")
    announce_event(event="audit.broken", dedupe="new")
    actions.switch_channel(channel_id=made.pk, on=False, by=ADMIN)
    announce_event(event="audit.broken", dedupe="while off")
    tasks.sweep()
    assert receiver.got == []
    Delivery.objects.filter(message__dedupe="audit.broken:old").update(give_up_at=timezone.now())
    actions.switch_channel(channel_id=made.pk, on=True, by=ADMIN)
    tasks.sweep()

    assert [d.state for d in Delivery.objects.order_by("pk")] == ["failed", "delivered"]
    assert uids(receiver) == [str(Message.objects.get(dedupe="audit.broken:new").uid)]


def test_a_channel_that_fails_for_some_time_is_told_to_the_others_once(
    channel: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.deliver_channel, "delay", delivering.deliver_channel)
    sick, well = channel("sick"), channel("well", kind="chat")
    announce_event(event="audit.broken", dedupe="1")
    receiver.answers = [status(500)]
    deliver(sick)
    deliver(well)
    assert list(selectors.failing_channels()) == []
    since = timezone.now() - timedelta(minutes=11)
    Channel.objects.filter(pk=sick.pk).update(failing_since=since)

    tasks.sweep()
    tasks.sweep()

    told = Message.objects.get(event="channel.failing")
    assert "HTTP 500" in told.body["facts"]["problem"]
    assert [d.channel.name for d in told.deliveries.all()] == ["well"]
    assert selectors.outbox_status().failing == 1


@pytest.mark.parametrize(("state", "kept"), [("delivered", 0), ("failed", 0), ("pending", 1)])
def test_old_messages_are_forgotten_but_none_that_waits(channel: Make, state: str, kept: int) -> None:
    channel()
    announce_event(event="audit.broken", dedupe="1")
    Message.objects.update(created_at=timezone.now() - timedelta(days=91))
    Delivery.objects.update(state=state)

    tasks.prune()

    assert Message.objects.count() == kept


def test_a_message_id_is_a_uuid_that_is_the_same_for_every_channel(channel: Make, receiver: Receiver) -> None:
    channel("one")
    channel("two", kind="chat")
    announce_event(event="audit.broken", dedupe="1")
    deliver()

    assert len(receiver.got) == 2
    assert len({UUID(uid) for uid in uids(receiver)}) == 1


def test_a_bug_in_a_sender_is_a_failed_try_and_not_a_lost_message(
    channel: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel()
    announce_event(event="audit.broken", dedupe="1")

    def broken(delivery: Delivery) -> None:
        raise KeyError("secret words")

    senders: dict[str, Callable[[Delivery], None]] = {**delivering.SENDERS, "webhook": broken}
    monkeypatch.setattr(delivering, "SENDERS", senders)
    deliver()

    assert (only().state, "(KeyError)" in only().last_error) == ("pending", True)
    assert "secret words" not in only().last_error
