"""Who manages channels, what a channel may be, and that every change and every refusal is written down."""

from collections.abc import Callable
from typing import Any

import pytest

from recovery.errors import Denied, NotFound, Refused, RepriseError, WrongUse
from recovery.models import AuditEntry, Channel, Delivery, Message
from recovery.notify import actions
from recovery.people.roles import Actor, Role
from tests.unit.notify.conftest import ADMIN, Make, deliver, only
from tests.unit.notify.receivers import Receiver, status

pytestmark = pytest.mark.django_db

Act = Callable[[Channel, Actor], object]
GIVEN: dict[str, Any] = {
    "name": "ops", "kind": "webhook", "address": "https://localhost/hook/very-secret-path",
    "secret_ref": "env:REPRISE_NOTIFY_SECRET", "environments": ["production"], "events": ["flow.failed"],
}  # fmt: skip
ACTS: dict[str, Act] = {
    "channel.create": lambda c, by: actions.create_channel(by=by, **{**GIVEN, "name": "other"}),
    "channel.change": lambda c, by: actions.change_channel(channel_id=c.pk, by=by, **GIVEN),
    "channel.switch": lambda c, by: actions.switch_channel(channel_id=c.pk, on=False, by=by),
    "channel.test": lambda c, by: actions.send_test(channel_id=c.pk, by=by),
    "channel.remove": lambda c, by: actions.remove_channel(channel_id=c.pk, by=by),
    "message.retry": lambda c, by: actions.retry_now(delivery_id=c.deliveries.get().pk, by=by),
}


@pytest.fixture
def ops(channel: Make) -> Channel:
    made = channel()
    actions.announce_event(event="audit.broken", dedupe="1")
    return made


@pytest.mark.parametrize("action", ACTS)
def test_an_admin_may_and_it_is_written_down(ops: Channel, action: str) -> None:
    ACTS[action](ops, ADMIN)

    entry = AuditEntry.objects.filter(action=action).latest("seq")
    assert (entry.outcome, entry.actor, entry.target_kind) == ("done", "root", "channel")
    assert entry.target in ("ops", "other")


@pytest.mark.parametrize("role", [r for r in Role if r is not Role.ADMIN])
@pytest.mark.parametrize("action", ACTS)
def test_nobody_else_may_and_the_try_is_written_down(ops: Channel, action: str, role: Role) -> None:
    before = [list(m.objects.values()) for m in (Channel, Message, Delivery)]

    with pytest.raises(Denied):
        ACTS[action](ops, Actor("eve", role, via="page"))

    assert [list(m.objects.values()) for m in (Channel, Message, Delivery)] == before
    assert AuditEntry.objects.get(actor="eve").outcome == "denied"


@pytest.mark.parametrize(
    ("wrong", "says", "kind"),
    [
        ({"name": "  "}, "a name", WrongUse),
        ({"name": "x" * 81}, "a name", WrongUse),
        ({"name": "a\u202eb"}, "a name", WrongUse),
        ({"kind": "pager"}, "is one of", WrongUse),
        ({"address": "ftp://localhost/"}, "http", WrongUse),
        ({"address": "https://user:hunter2@localhost/"}, "without a user", WrongUse),
        ({"address": "https://10.0.0.7/very-secret-path"}, "a private address", Refused),
        ({"address": "https://169.254.169.254/latest"}, "metadata", Refused),
        ({"address": "http://93.184.216.34/very-secret-path"}, "plain http", WrongUse),
        ({"address": "env:REPRISE_SECRET_KEY"}, "meant for notifications", WrongUse),
        ({"address": "https://localhost/" + "x" * 500}, "500 characters", WrongUse),
        ({"secret_ref": ""}, "A reference", WrongUse),
        ({"secret_ref": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "A reference", WrongUse),
        ({"secret_ref": "file:/run/secrets/secret_key"}, "meant for notifications", WrongUse),
        ({"kind": "chat"}, "is its password", WrongUse),
        ({"kind": "mail", "address": "a@example.com, b@example.com"}, "one address", WrongUse),
        ({"kind": "mail", "address": "a@example.com\nBcc: b@example.com"}, "one address", WrongUse),
        ({"environments": []}, "at least one environment", WrongUse),
        ({"environments": ["moon"]}, "at least one environment", WrongUse),
        ({"events": ["channel.test"]}, "at least one event", WrongUse),
    ],
)
def test_what_is_no_channel_is_refused_in_one_sentence_without_a_secret(
    wrong: dict[str, Any], says: str, kind: type[RepriseError]
) -> None:
    with pytest.raises(kind, match=says) as refused:
        actions.create_channel(by=ADMIN, **{**GIVEN, **wrong})

    assert Channel.objects.count() == 0
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.outcome) == ("channel.create", "failed")
    for secret in ("very-secret-path", "hunter2", "whsec_"):
        assert secret not in refused.value.sentence + entry.says


def test_the_audit_log_shows_what_changed_and_of_an_address_its_host(ops: Channel) -> None:
    actions.change_channel(channel_id=ops.pk, by=ADMIN, **GIVEN)

    entry = AuditEntry.objects.get(action="channel.change")
    assert entry.after == {
        "name": "ops", "kind": "webhook", "address": "https://localhost/…", "on": True,
        "secret_ref": "env:REPRISE_NOTIFY_SECRET", "environments": ["production"], "events": ["flow.failed"],
    }  # fmt: skip
    assert "flow.failed" in entry.before["events"]


def test_two_channels_of_one_name_would_be_mistaken_for_each_other(ops: Channel, channel: Make) -> None:
    with pytest.raises(Refused, match="already"):
        channel("ops")
    channel("other")
    with pytest.raises(Refused, match="already"):
        actions.change_channel(channel_id=ops.pk, by=ADMIN, **{**GIVEN, "name": "other"})


def test_a_test_message_goes_to_that_channel_alone_whatever_it_subscribed_to(
    channel: Make, receiver: Receiver
) -> None:
    one, _ = channel("one", events=["flow.failed"]), channel("two")

    actions.send_test(channel_id=one.pk, by=ADMIN)
    actions.send_test(channel_id=one.pk, by=ADMIN)
    deliver()

    assert [d.channel.name for d in Delivery.objects.all()] == ["one", "one"]
    assert len(receiver.got) == 2


def test_a_channel_that_is_off_cannot_be_tested(ops: Channel) -> None:
    actions.switch_channel(channel_id=ops.pk, on=False, by=ADMIN)

    with pytest.raises(Refused, match="Switch it on"):
        actions.send_test(channel_id=ops.pk, by=ADMIN)


def test_what_was_given_up_is_sent_again_under_the_same_id_and_what_was_delivered_is_not(
    ops: Channel, receiver: Receiver
) -> None:
    receiver.answers = [status(400)]
    deliver()
    assert only().state == "failed"

    actions.retry_now(delivery_id=only().pk, by=ADMIN)
    deliver()

    assert only().state == "delivered"
    assert len({r.headers["webhook-id"] for r in receiver.got}) == 1
    with pytest.raises(Refused, match="was delivered"):
        actions.retry_now(delivery_id=only().pk, by=ADMIN)


@pytest.mark.parametrize(
    "act",
    [
        lambda: actions.retry_now(delivery_id=9, by=ADMIN),
        lambda: actions.send_test(channel_id=9, by=ADMIN),
        lambda: actions.remove_channel(channel_id=9, by=ADMIN),
    ],
)
def test_what_is_gone_is_said_to_be_gone(act: Callable[[], object]) -> None:
    with pytest.raises(NotFound):
        act()


def test_a_removed_channel_takes_its_waiting_messages_along_and_says_how_many(ops: Channel) -> None:
    actions.remove_channel(channel_id=ops.pk, by=ADMIN)

    assert Delivery.objects.count() == 0
    assert AuditEntry.objects.get(action="channel.remove").before["waiting"] == 1
