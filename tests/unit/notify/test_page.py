"""Settings > Notifications, as an admin uses it."""

from typing import Any

import pytest
from django.test import Client

from recovery.models import AuditEntry, Channel, Delivery
from recovery.notify.actions import announce_event
from recovery.notify.events import SUBSCRIBED
from tests import factories as f
from tests.pages import asked, refusal, shown
from tests.unit.notify.conftest import Make, deliver
from tests.unit.notify.receivers import Receiver, status
from tests.unit.pages.conftest import static_files  # noqa: F401  (a fixture)

pytestmark = pytest.mark.django_db
PATH = "/settings/notifications"
GIVEN: dict[str, Any] = {
    "name": "ops", "kind": "mail", "address": "ops@example.com", "environments": ["production"],
    "events": ["flow.failed", "approval.requested"],
}  # fmt: skip


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(f.person("admin"))
    return client


def text(client: Client, path: str = PATH) -> str:
    return client.get(path).content.decode()


def test_without_a_channel_the_page_says_that_nobody_is_told(admin: Client, settings: Any) -> None:
    settings.EMAIL_HOST = ""

    page = asked(admin, PATH)

    assert page.one("no-channels")
    assert page.one("no-mail")
    assert 'href="/settings/notifications"' in text(admin, "/settings")


def test_a_channel_is_added_shown_and_changed(admin: Client) -> None:
    assert admin.post(f"{PATH}/new", GIVEN).status_code == 302
    made = Channel.objects.get()
    assert (made.environments, made.events) == (["production"], ["approval.requested", "flow.failed"])
    page = text(admin)
    assert "Channel ops was" in page
    assert "ops@example.com" in page.replace("<wbr>", "")
    assert f"2 of {len(SUBSCRIBED)} events" in page

    assert admin.post(f"{PATH}/{made.pk}", {**GIVEN, "name": "night"}).status_code == 302
    made.refresh_from_db()
    assert made.name == "night"


def test_what_was_typed_is_still_there_after_a_refusal(admin: Client) -> None:
    answer = admin.post(f"{PATH}/new", {**GIVEN, "kind": "chat", "address": "https://hooks.example/T1"})

    page = answer.content.decode()
    assert answer.status_code == 422
    assert "is its password" in page
    assert 'value="https://hooks.example/T1"' in page
    assert shown(answer).all("input", name="kind", value="chat", checked=True)
    assert Channel.objects.count() == 0


def test_the_page_shows_no_secret_part_of_an_address_and_saving_keeps_it(
    admin: Client,
    channel: Make,
    receiver: Receiver,
) -> None:
    made = channel(address=receiver.url)
    host = receiver.url.split("/hook")[0]

    for path in (PATH, f"{PATH}/{made.pk}"):
        page = text(admin, path).replace("<wbr>", "")
        assert f"{host}/…" in page
        assert "very-secret-path" not in page
    form = {**GIVEN, "kind": "webhook", "address": "", "secret_ref": "env:REPRISE_NOTIFY_SECRET"}
    assert admin.post(f"{PATH}/{made.pk}", form).status_code == 302

    made.refresh_from_db()
    assert made.address == receiver.url


def test_a_test_goes_out_and_its_end_is_shown(
    admin: Client,
    channel: Make,
    receiver: Receiver,
) -> None:
    made = channel()
    receiver.answers = [status(500)]

    assert admin.post(PATH, {"test": made.pk}).status_code == 302
    assert asked(admin, PATH).all(role="status", class_="notice notice-ok flash")
    deliver()

    page = asked(admin, PATH)
    assert "HTTP 500" in page.one("last-error").text
    assert "Last try failed" in page.text
    assert AuditEntry.objects.get(action="channel.test").actor == "admin"
    assert admin.post(PATH, {"retry": Delivery.objects.get().pk}).status_code == 302
    deliver()
    assert "Delivered" in text(admin)
    assert "Works" in text(admin)


def test_a_channel_is_switched_off_and_on_and_removed(admin: Client, channel: Make) -> None:
    made = channel()
    admin.post(PATH, {"off": made.pk})
    assert "Switch on" in text(admin)
    refused = admin.post(PATH, {"test": made.pk})
    assert (refused.status_code, refusal(refused)) == (409, "channel_off")
    admin.post(PATH, {"on": made.pk})
    assert "Send a test" in text(admin)

    assert admin.post(f"{PATH}/{made.pk}", {"remove": "1"}).status_code == 302
    assert Channel.objects.count() == 0


@pytest.mark.parametrize("sent", [{}, {"test": "x"}, {"retry": "9" * 30}, {"on": ""}, {"launch": "1"}])
def test_what_no_button_sends_is_refused(admin: Client, sent: dict[str, str]) -> None:
    assert admin.post(PATH, sent).status_code == 409


def test_what_is_gone_is_a_404(admin: Client) -> None:
    assert admin.get(f"{PATH}/99").status_code == 404
    assert admin.post(PATH, {"test": "99"}).status_code == 404


def test_the_polled_part_answers_nothing_when_nothing_is_new(admin: Client, channel: Make) -> None:
    made = channel()
    part = f"{PATH}?part=list&v="
    page = admin.get(part + "0").content.decode()
    version = page.split("v=", 1)[1].split('"', 1)[0]
    assert "<html" not in page

    assert admin.get(part + version).status_code in (200, 204)  # 200 when the half minute ended in between
    Channel.objects.filter(pk=made.pk).update(on=False)
    assert admin.get(part + version).status_code == 200


def test_a_channel_that_fails_for_some_time_is_shown_to_admins_on_every_page_and_to_nobody_else(
    admin: Client,
    channel: Make,
    receiver: Receiver,
) -> None:
    made = channel("night watch")
    announce_event(event="audit.broken", dedupe="1")
    receiver.answers = [status(500)]
    deliver()
    assert not asked(admin, "/").all(data_code="channels-failing")
    Channel.objects.filter(pk=made.pk).update(failing_since=f.ago(minutes=11))

    assert asked(admin, "/").value("channels-failing") == "night watch"
    assert "Fails" in text(admin)
    other = Client()
    other.force_login(f.person("responder"))
    assert not asked(other, "/").all(data_code="channels-failing")
