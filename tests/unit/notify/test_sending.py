"""Sending over real sockets: what a webhook carries, and every way in which a receiver fails."""

import json
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.notify import posting
from recovery.notify.actions import announce_event
from tests import factories as f
from tests.unit.notify.conftest import ADMIN, SECRET, Make, deliver, only
from tests.unit.notify.receivers import (
    Receiver,
    certificate,
    endless,
    hangs_up,
    listening,
    mail_server,
    nobody_listens,
    status,
)

Resolver = Callable[..., list[Any]]


def send(url: str) -> None:
    posting.post_message(url, b"{}", {"webhook-id": "u"})


def failure(url: str) -> posting.NotDelivered:
    with pytest.raises(posting.NotDelivered) as failed:
        send(url)
    assert "very-secret-path" not in failed.value.sentence
    return failed.value


@pytest.mark.parametrize(
    ("answer", "says", "again"),
    [
        (status(500), "HTTP 500", True),
        (status(404), "HTTP 404", True),
        (status(429, Retry_After="7"), "HTTP 429", True),
        (status(301, Location="/elsewhere"), "redirect (301)", True),
        (status(307, Location="/elsewhere"), "redirect (307)", True),
        (status(400), "refuses this message (HTTP 400)", False),
        (hangs_up, "broke before it answered", True),
    ],
)
def test_an_answer_that_is_not_2xx_is_not_delivered(
    receiver: Receiver, answer: Any, says: str, again: bool
) -> None:
    receiver.answers = [answer]

    failed = failure(receiver.url)

    assert says in failed.sentence
    assert failed.again is again
    assert len(receiver.got) == 1  # no redirect was followed, nothing was repeated at once


@pytest.mark.parametrize(("asked", "pause"), [("7", 7), ("999999", 3600), ("soon", 0), ("-1", 0), ("²", 0)])
def test_a_receiver_may_ask_for_a_pause_of_at_most_an_hour(
    asked: str, pause: int, receiver: Receiver
) -> None:
    receiver.answers = [status(503, Retry_After=asked)]

    assert failure(receiver.url).pause == pause


def test_a_body_without_end_is_not_read(receiver: Receiver) -> None:
    receiver.answers = [endless]

    send(receiver.url)

    assert len(receiver.got) == 1


def test_a_silent_receiver_is_given_up(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "SILENT_SECONDS", 0.2)
    receiver.answers = [receiver.silent]

    assert failure(receiver.url).code == "late"


def test_a_receiver_that_drips_its_answer_is_cut_off(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "WHOLE_SECONDS", 0.4)
    receiver.answers = [receiver.drips]

    assert failure(receiver.url).code == "late"


def test_a_refused_connection_says_so() -> None:
    assert "refuses the connection" in failure(nobody_listens()).sentence


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """The name service answers for hook.example with these addresses, one after the other; the last one stays."""
    real, left = socket.getaddrinfo, list(answers)

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "hook.example":
            return real(host, port, *args, **kwargs)
        answer = left.pop(0) if len(left) > 1 else left[0]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(answer, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize(
    "address", ["10.1.2.3", "127.0.0.1", "169.254.169.254", "192.168.0.7", "::1", "fd00::1", "100.64.0.1"]
)
def test_a_name_that_leads_inside_is_not_called(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolving(monkeypatch, address)

    failed = failure("https://hook.example/very-secret-path")

    assert failed.code == "outbound"
    assert "https://hook.example/… " in failed.sentence
    assert "REPRISE_OUTBOUND_ALLOW" in failed.sentence


def test_a_name_that_changes_its_mind_after_the_check_gets_no_byte(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    resolving(monkeypatch, "93.184.216.34", "127.0.0.1")

    assert failure(f"https://hook.example:{port}/very-secret-path").code == "outbound"
    assert receiver.got == []


def test_a_name_that_nobody_knows_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "")
    assert failure("https://hook.example/x").code == "no_such_host"
    resolving(monkeypatch, "93.184.216.34", "")
    assert failure("https://hook.example/x").code == "no_such_host"


def test_plain_http_goes_only_to_hosts_that_an_operator_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "93.184.216.34")

    assert "plain http" in failure("http://hook.example/x").sentence


def test_a_proxy_of_the_environment_is_not_asked(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", nobody_listens())
    monkeypatch.setenv("http_proxy", nobody_listens())

    send(receiver.url)

    assert len(receiver.got) == 1


def test_a_certificate_that_nobody_trusts_gets_no_byte_and_one_of_the_operators_is_trusted(
    tmp_path: Path, settings: Any
) -> None:
    made = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made)
    with listening(context) as receiver:
        assert failure(receiver.url).code == "not_trusted"
        assert receiver.got == []
        settings.REPRISE_NOTIFY_CA = str(made)
        send(receiver.url)
        assert len(receiver.got) == 1
    with listening(context, host="127.0.0.1") as other:
        settings.REPRISE_OUTBOUND_ALLOW = "127.0.0.1"
        assert failure(other.url).code == "not_trusted"
        assert other.got == []


@pytest.mark.django_db
def test_a_receiver_can_check_a_webhook_with_the_example_of_the_guide(
    channel: Make, receiver: Receiver
) -> None:
    channel()
    announce_event(event="recovery.started", recovery=f.planned())
    deliver()

    guide = (Path(__file__).resolve().parents[3] / "docs" / "notifications.md").read_text()
    example: dict[str, Any] = {}
    exec(guide.split("```python\n", 1)[1].split("```", 1)[0], example)  # noqa: S102  (our own guide)
    got = receiver.got[0]
    assert example["genuine"](got.headers, got.body, SECRET) is True
    assert example["genuine"](got.headers, got.body + b" ", SECRET) is False
    assert example["genuine"]({**got.headers, "webhook-id": "other"}, got.body, SECRET) is False
    assert example["genuine"]({**got.headers, "webhook-timestamp": "1614265330"}, got.body, SECRET) is False


@pytest.mark.django_db
@pytest.mark.parametrize("answers", [[], [status(500)], [hangs_up], [status(400)]])
def test_no_secret_is_in_the_rows_the_log_or_the_messages(
    channel: Make, receiver: Receiver, caplog: pytest.LogCaptureFixture, answers: list[Any]
) -> None:
    from recovery.models import AuditEntry, Channel, Delivery, Message

    caplog.set_level(logging.DEBUG)
    receiver.answers = [*answers, *answers]
    channel("hook", address=receiver.url)
    channel("chat", kind="chat")
    announce_event(event="recovery.started", recovery=f.planned())
    deliver()

    assert len(receiver.got) == 2
    rows = [list(m.objects.values()) for m in (AuditEntry, Delivery, Message)]
    rows.append(list(Channel.objects.exclude(name="hook").values()))
    written = json.dumps(rows, default=str) + "".join(
        r.getMessage() for r in caplog.records if not r.name.startswith("urllib3")
    )
    for secret in ("very-secret-path", SECRET, SECRET.removeprefix("whsec_")):
        assert secret not in written
    for request in receiver.got:
        assert SECRET not in json.dumps(request.headers) + request.body.decode()


@pytest.mark.django_db
def test_an_unreadable_secret_is_a_failed_try_that_names_what_is_missing(
    channel: Make, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    channel()
    announce_event(event="recovery.started", recovery=f.planned())
    monkeypatch.delenv("REPRISE_NOTIFY_SECRET")
    deliver()

    assert "env:REPRISE_NOTIFY_SECRET" in only().last_error
    assert receiver.got == []


@pytest.fixture
def smtp(settings: Any) -> Any:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    settings.DEFAULT_FROM_EMAIL = "reprise@example.com"
    with mail_server() as box:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", box.port
        yield box


@pytest.mark.django_db
def test_mail_is_plain_text_with_a_deep_link_and_one_id_for_every_try(channel: Make, smtp: Any) -> None:
    channel(kind="mail")
    recovery = f.planned()
    message = announce_event(event="approval.requested", recovery=recovery, by=ADMIN)
    assert message is not None
    deliver()

    (mail,) = smtp.mails
    head, _, text = mail.partition("\n\n")
    subject = next(line for line in head.splitlines() if line.startswith("Subject: [Reprise] "))
    assert recovery.label in subject.split()
    assert "To: ops@example.com" in head
    assert f"Message-ID: <{message.uid}@reprise.example>" in head
    assert "Auto-Submitted: auto-generated" in head
    assert f"Open it: https://reprise.example/recoveries/{recovery.label}" in text
    assert only().state == "delivered"


@pytest.mark.django_db
def test_no_fact_becomes_a_header_or_another_recipient(channel: Make, smtp: Any) -> None:
    channel(kind="mail")
    recovery = f.planned()
    type(recovery.flow).objects.update(short="x\r\nBcc: all@example.com\r\n\r\nhello")
    recovery.refresh_from_db()
    announce_event(event="recovery.started", recovery=recovery)
    deliver()

    head = smtp.mails[0].partition("\n\n")[0]
    assert "\nBcc" not in head
    assert smtp.recipients == ["rcpt TO:<ops@example.com>"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("rcpt", "state", "says"),
    [
        ("550 no such user", "failed", "The mail server refuses the recipient (550)."),
        ("451 later", "pending", "The mail server refuses the recipient (451)."),
    ],
)
def test_a_recipient_that_the_server_refuses_is_not_delivered(
    channel: Make, smtp: Any, rcpt: str, state: str, says: str
) -> None:
    channel(kind="mail")
    smtp.rcpt = rcpt
    announce_event(event="recovery.started", recovery=f.planned())
    deliver()

    assert (only().state, only().last_error) == (state, says)
    assert smtp.mails == []


@pytest.mark.django_db
def test_without_a_mail_server_mail_waits_and_says_what_to_set(channel: Make, settings: Any) -> None:
    settings.EMAIL_HOST = ""
    channel(kind="mail")
    announce_event(event="recovery.started", recovery=f.planned())
    deliver()

    assert only().state == "pending"
    assert "REPRISE_MAIL_HOST" in only().last_error
    assert "REPRISE_MAIL_FROM" in only().last_error


@pytest.mark.django_db
def test_a_mail_server_that_is_away_is_a_failed_try(channel: Make, smtp: Any, settings: Any) -> None:
    settings.EMAIL_PORT = int(nobody_listens().split(":")[2].split("/")[0])
    channel(kind="mail")
    announce_event(event="recovery.started", recovery=f.planned())
    deliver()

    assert "(ConnectionRefusedError)" in only().last_error
