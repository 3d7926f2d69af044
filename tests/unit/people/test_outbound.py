"""Addresses that a person enters lead to public machines only, unless an operator allows others."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import requests

from recovery import outbound
from recovery.errors import Refused, Unreachable, WrongUse
from recovery.models import AuditEntry, Workspace
from recovery.people.roles import SYSTEM
from recovery.pipelines.actions import register_workspace
from recovery.pipelines.workspaces import client_for
from tests.refusals import refused

NOTHING = outbound.AllowedAddresses()

PRIVATE = [
    ("127.0.0.1", "this machine"),
    ("127.8.8.8", "this machine"),
    ("::1", "this machine"),
    ("0.0.0.0", "unspecified"),  # noqa: S104
    ("::", "unspecified"),
    ("10.1.2.3", "private"),
    ("172.16.0.1", "private"),
    ("192.168.1.1", "private"),
    ("100.64.0.1", "not public"),
    ("fd12::1", "private"),
    ("fe80::1%eth0", "link-local"),
    ("169.254.1.1", "link-local"),
    ("169.254.169.254", "metadata"),
    ("fd00:ec2::254", "metadata"),
    ("168.63.129.16", "metadata"),
    ("224.0.0.1", "multicast"),
    ("::ffff:10.0.0.1", "hides 10.0.0.1"),
    ("64:ff9b::a9fe:a9fe", "hides 169.254.169.254"),
    ("2002:7f00:1::", "hides 127.0.0.1"),
]


def at(*addresses: str) -> outbound.Resolve:
    return lambda host, port: list(addresses)


@pytest.mark.parametrize(("address", "words"), PRIVATE)
def test_an_address_that_is_not_public_is_refused(address: str, words: str) -> None:
    """Written out or behind a name: both are refused with the reason."""
    with pytest.raises(Refused, match=words):
        outbound.check("https://innocent.example/x", allowed=NOTHING, resolve=at("93.184.215.14", address))
    literal = f"[{address}]" if ":" in address else address
    if "%" not in address:
        with pytest.raises(Refused, match=words):
            outbound.check(f"http://{literal}:8080/", allowed=NOTHING)


@pytest.mark.parametrize("host", ["a" * 64, f"{'a' * 64}.example", "a..example"])
def test_a_name_that_no_name_service_can_be_asked_for_is_refused(host: str) -> None:
    with refused("no_such_host", Refused):
        outbound.check(f"https://{host}/", allowed=NOTHING)


@pytest.mark.parametrize("spelling", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
def test_other_spellings_of_this_machine_are_refused(spelling: str) -> None:
    with pytest.raises(Refused):
        outbound.check(f"http://{spelling}/", allowed=NOTHING)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "gopher://x.example", "https://", "https://user@x.example/", "https://user:pw@x.example/",
     "https://x.example:99999/", "https://x.example\\@10.0.0.1/", "https://x.example/ y", "//x.example", "x.example",
     "https://x.example/\nHost: y", "https://[::1", "https://℀.example/"],
)  # fmt: skip
def test_what_is_no_plain_web_address_is_wrong_use(url: str) -> None:
    with pytest.raises(WrongUse):
        outbound.check(url, allowed=NOTHING, resolve=at("93.184.215.14"))


def test_a_public_address_may_be_called() -> None:
    url = "https://hooks.example/reprise?x=1"
    assert outbound.check(url, allowed=NOTHING, resolve=at("93.184.215.14", "2606:2800:21f::1")) == url


def test_a_name_that_nobody_knows_is_refused() -> None:
    def nobody(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with refused("no_such_host", Refused):
        outbound.check("https://nobody.example", allowed=NOTHING, resolve=nobody)


@pytest.mark.parametrize(
    ("setting", "url", "address", "good"),
    [
        ("127.0.0.1", "http://127.0.0.1:8123", "127.0.0.1", True),
        ("127.0.0.1", "http://127.0.0.2:8123", "127.0.0.2", False),
        ("10.0.0.0/8", "http://w.example", "10.9.9.9", True),
        ("10.0.0.0/8", "http://w.example", "192.168.0.1", False),
        ("10.0.0.0/8", "http://w.example", "::ffff:10.0.0.1", True),
        ("pipelines", "http://pipelines:8443", "172.18.0.4", True),
        ("pipelines", "http://pipelines.evil.example", "172.18.0.4", False),
        ("*.corp.example", "https://a.b.corp.example", "10.0.0.1", True),
        ("*.corp.example", "https://corp.example", "10.0.0.1", False),
        ("*.corp.example", "https://evilcorp.example", "10.0.0.1", False),
        ("169.254.0.0/16", "http://m.example", "169.254.169.254", False),
        ("169.254.169.254", "http://m.example", "169.254.169.254", True),
    ],
)
def test_the_setting_allows_what_it_names_and_no_more(
    setting: str, url: str, address: str, good: bool
) -> None:
    allowed = outbound.parse_allowed(setting)
    if good:
        assert outbound.check(url, allowed=allowed, resolve=at(address)) == url
    else:
        with pytest.raises(Refused):
            outbound.check(url, allowed=allowed, resolve=at(address))


@pytest.mark.parametrize("setting", ["10.0.0.0/99", "http://x", "a b", "*"])
def test_a_setting_that_cannot_be_read_is_named(setting: str) -> None:
    with pytest.raises(ValueError, match="REPRISE_OUTBOUND_ALLOW"):
        outbound.parse_allowed(setting)


class _Inner(BaseHTTPRequestHandler):
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def inner() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Inner)
    _Inner.asked.clear()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_name_that_turns_inward_after_the_check_is_not_spoken_to(inner: str) -> None:
    """DNS rebinding: public when it was saved, this machine when it is called."""
    outbound.check(inner, allowed=NOTHING, resolve=at("93.184.215.14"))
    with outbound.session(NOTHING) as web, pytest.raises(requests.ConnectionError, match="this machine"):
        web.get(f"{inner}/secret", allow_redirects=False, timeout=5)
    assert _Inner.asked == []


@pytest.mark.parametrize("setting", ["127.0.0.1", "localhost"])
def test_what_the_operator_allows_is_called(inner: str, setting: str) -> None:
    with outbound.session(outbound.parse_allowed(setting)) as web:
        assert web.get(f"{inner}/fine", allow_redirects=False, timeout=5).text == "ok"
    assert _Inner.asked == ["/fine"]


def test_the_metadata_service_is_refused_even_behind_an_allowed_name() -> None:
    assert "metadata" in outbound.problem("169.254.169.254", outbound.parse_allowed("pipelines"), named=True)
    assert "metadata" in outbound.problem("::ffff:169.254.169.254", NOTHING, named=True)
    assert outbound.problem("10.0.0.1", NOTHING, named=True) == ""


@pytest.mark.django_db
def test_a_workspace_of_an_address_that_is_not_allowed_is_not_registered(settings: Any) -> None:
    settings.REPRISE_OUTBOUND_ALLOW = ""
    with refused("outbound", Refused, names=("metadata",)):
        register_workspace(
            name="inner",
            url="http://169.254.169.254",
            token_ref="env:X",
            environment="development",
            by=SYSTEM,
        )
    assert not Workspace.objects.exists()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.outcome) == ("workspace.register", "failed")


@pytest.mark.django_db
def test_a_workspace_that_turned_inward_is_not_spoken_to_and_its_token_not_sent(
    inner: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_TEST_TOKEN", "secret")
    settings.REPRISE_OUTBOUND_ALLOW = ""
    turned = Workspace(name="turned", url=inner, token_ref="env:REPRISE_TEST_TOKEN")
    with refused("outbound", Unreachable):
        client_for(turned).list_pipelines()
    assert _Inner.asked == []
