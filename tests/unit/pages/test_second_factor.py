"""Second factors: set up with a fresh sign-in, asked for after the password, audited, and none is a way around."""

import base64
import hashlib
import hmac
import json
import re
import struct
import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from recovery.models import AuditEntry
from tests import factories as f
from tests.pages import asked, refusal
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db


def code_of(secret: str, steps: int = 0) -> str:
    """The code that an authenticator app shows (RFC 6238, SHA-1, 30 s, 6 digits), `steps` periods from now."""
    digest = hmac.new(
        base64.b32decode(secret), struct.pack(">Q", int(time.time()) // 30 + steps), hashlib.sha1
    ).digest()
    at = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[at : at + 4])[0] & 0x7FFFFFFF) % 1_000_000:06}"


def sign_in(client: Client, name: str = "responder", **more: str) -> Any:
    return client.post("/sign-in", {"name": name, "password": f.PASSWORD, **more})


def set_up(client: Client) -> str:
    """Sign in, set up the app; its secret."""
    sign_in(client)
    page = text(client, "/account/authenticator-app")
    secret = re.search(r'id="secret">([A-Z2-7 ]+)<', page)[1].replace(" ", "")  # type: ignore[index]
    answer = client.post("/account/authenticator-app", {"code": code_of(secret)})
    assert answer["Location"] == "/account/recovery-codes"
    return secret


@pytest.fixture
def user() -> User:
    return f.person("responder")


def told(action: str) -> list[tuple[str, str]]:
    return list(AuditEntry.objects.filter(action=action).order_by("seq").values_list("outcome", "says"))


def test_a_code_is_asked_for_after_the_password_and_nobody_is_in_before_it(
    client: Client, user: User
) -> None:
    secret = set_up(client)
    other = Client()

    assert sign_in(other, next="/recoveries")["Location"] == "/sign-in/code"
    assert other.get("/")["Location"].startswith("/sign-in?next=")
    assert other.post("/sign-in/code", {"code": "000000"}).status_code == 422
    assert other.get("/")["Location"].startswith("/sign-in?next=")
    Authenticator.objects.filter(type="totp").update(last_used_at=None)
    cache.clear()
    assert other.post("/sign-in/code", {"code": code_of(secret, 1)})["Location"] == "/recoveries"
    assert other.get("/").status_code == 200
    (done, added), (refused, wrong) = told("factor.add")[0], told("session.refused")[-1]
    assert (done, refused) == ("done", "denied")
    assert ("authenticator app" in added, "code" in wrong) == (True, True)
    entered = told("session.sign_in")[-1][1]
    assert ("password" in entered, "authenticator app" in entered) == (True, True)


def test_a_recovery_code_signs_in_once(client: Client, user: User) -> None:
    set_up(client)
    page = client.get("/account/recovery-codes").content.decode()
    codes = re.findall(r"<li>(\d{8})</li>", page)
    assert len(codes) == 10
    assert codes[0] not in client.get("/account/recovery-codes").content.decode(), "they are shown once"

    first, again = Client(), Client()
    sign_in(first)
    assert first.post("/sign-in/code", {"code": codes[0]})["Location"] == "/"
    sign_in(again)
    assert again.post("/sign-in/code", {"code": codes[0]}).status_code == 422
    assert "recovery codes" in told("session.sign_in")[-1][1]


def test_codes_cannot_be_guessed(client: Client, user: User) -> None:
    secret = set_up(client)
    cache.clear()
    other = Client()
    sign_in(other)
    for _ in range(10):
        assert other.post("/sign-in/code", {"code": "12"}).status_code == 422
    assert other.post("/sign-in/code", {"code": code_of(secret, 1)}).status_code == 422


def test_secrets_of_second_factors_are_encrypted_in_the_database(
    client: Client, user: User, settings: Any
) -> None:
    secret = set_up(client)
    stored = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored
    totp = Authenticator.objects.get(type="totp")
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "a new key " * 8
    assert totp.wrap().validate_code(code_of(secret, 1)), (
        "an old key reads on until everything is written again"
    )


def test_a_factor_under_a_lost_secret_key_is_said_in_plain_words_and_lets_nobody_in(
    client: Client, user: User, settings: Any
) -> None:
    secret = set_up(client)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another" * 9, []
    other = Client()
    sign_in(other)

    answer = other.post("/sign-in/code", {"code": code_of(secret, 1)})

    assert (answer.status_code, refusal(answer)) == (422, "lost-key")
    assert other.get("/")["Location"].startswith("/sign-in?next=")


@pytest.mark.parametrize("path", ["password", "authenticator-app", "passkey", "recovery-codes"])
def test_a_second_factor_is_changed_with_a_fresh_sign_in_only(client: Client, user: User, path: str) -> None:
    client.force_login(user)
    for answer in (client.get(f"/account/{path}"), client.post(f"/account/{path}", {"remove": "1"})):
        assert answer["Location"] == f"/reauthenticate?next=%2Faccount%2F{path}"


def test_the_app_is_removed_by_its_owner_with_the_recovery_codes(client: Client, user: User) -> None:
    set_up(client)
    client.post("/account/authenticator-app", {"remove": "1"})
    assert not Authenticator.objects.exists()
    (done, removed) = told("factor.remove")[0]
    assert (done, "authenticator app" in removed) == ("done", True)
    assert sign_in(Client())["Location"] == "/"


def test_a_session_is_confirmed_with_password_and_code_and_never_with_one_of_them(
    client: Client, user: User
) -> None:
    secret = set_up(client)
    stale(client)
    Authenticator.objects.filter(type="totp").update(last_used_at=None)
    cache.clear()
    good = code_of(secret, 1)
    for wrong in ({"password": f.PASSWORD}, {"code": good}, {"password": "x", "code": good},
                  {"password": f.PASSWORD, "code": "123"}):  # fmt: skip
        assert client.post("/reauthenticate", {**wrong, "next": "/account"}).status_code == 422
        assert client.get("/account/password").status_code == 302
        cache.clear()
    answer = client.post(
        "/reauthenticate", {"password": f.PASSWORD, "code": good, "next": "/account/password"}
    )
    assert answer["Location"] == "/account/password"
    assert client.get("/account/password").status_code == 200
    outcomes = [outcome for outcome, _ in told("session.confirm")]
    assert outcomes == ["denied", "done"], "refusals that say the same are counted (recovery.audit.folding)"


def stale(client: Client) -> None:
    """The session as it is eleven minutes after the sign-in."""
    session = client.session
    session["account_authentication_methods"] = [
        {**r, "at": r["at"] - 660} for r in session["account_authentication_methods"]
    ]
    session.save()


def test_a_sign_in_is_fresh_for_ten_minutes(client: Client, user: User) -> None:
    sign_in(client)
    assert client.get("/account/password").status_code == 200
    stale(client)
    assert client.get("/account/password")["Location"] == "/reauthenticate?next=%2Faccount%2Fpassword"
    page = asked(client, "/reauthenticate?next=/account/password")
    assert page.one("proved-before").all("time")[0].text == "11 min ago"


@pytest.mark.parametrize("elsewhere", ["https://example.org/", "//example.org", "javascript:alert(1)", ""])
def test_a_confirmation_never_leads_to_another_site(client: Client, user: User, elsewhere: str) -> None:
    sign_in(client)
    answer = client.post("/reauthenticate", {"password": f.PASSWORD, "next": elsewhere})
    assert answer["Location"] == "/"


def test_confirming_cannot_be_used_to_guess_a_password(client: Client, user: User) -> None:
    sign_in(client)
    stale(client)
    for _ in range(10):
        client.post("/reauthenticate", {"password": "guess"})
    page = client.post("/reauthenticate", {"password": f.PASSWORD})
    assert page.status_code == 422
    assert "Too many tries" in page.content.decode()


def test_a_new_password_ends_every_other_session_and_keeps_this_one(client: Client, user: User) -> None:
    other = Client()
    sign_in(other)
    sign_in(client)
    new = "four other calm words"
    assert client.post("/account/password", {"password": new, "again": "not the same"}).status_code == 422
    assert client.post("/account/password", {"password": new, "again": new})["Location"] == "/account"
    assert client.get("/").status_code == 200
    assert other.get("/").status_code == 302


def test_a_sign_in_takes_a_new_session_so_that_none_can_be_planted(client: Client, user: User) -> None:
    client.get("/sign-in")
    session = client.session
    session["planted"] = "by somebody else"
    session.save()
    before = session.session_key
    sign_in(client)
    assert client.session.session_key != before
    assert Client(HTTP_COOKIE=f"sessionid={before}").get("/").status_code == 302


def test_signing_in_as_somebody_else_takes_nothing_over(client: Client, user: User) -> None:
    sign_in(client)
    session = client.session
    session["kept"] = "of responder"
    session.save()
    f.person("viewer")
    sign_in(client, "viewer")
    assert "kept" not in client.session
    assert "viewer" in client.get("/account").content.decode()


@pytest.mark.parametrize("path", ["/sign-in/passkey"])
@pytest.mark.parametrize(
    "credential", ["", "x", "{}", '{"id": 1}', '{"response": {"userHandle": "MQ"}}', "[]"]
)
def test_what_is_no_passkey_is_refused_in_plain_words(
    client: Client, user: User, path: str, credential: str
) -> None:
    client.get(path)
    answer = client.post(path, {"credential": credential})
    assert (answer.status_code, refusal(answer)) == (422, "wrong-passkey")
    assert told("session.refused")[-1][0] == "denied"


def test_passkeys_are_offered_where_browsers_have_them(client: Client, user: User, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    offered = {
        host: "Use a passkey" in client.get("/sign-in", headers={"host": host}, secure=secure).content.decode()
        for host, secure in (
            ("127.0.0.1:8000", False), ("localhost:8000", False), ("reprise.example", True),
            ("reprise.example:1", False),
            ("[::1]:8000", True), ("10.0.0.1", True),
        )
    }  # fmt: skip
    assert [host for host, there in offered.items() if there] == ["localhost:8000", "reprise.example"]


@pytest.mark.parametrize(
    "path",
    ["signup/", "password/reset/", "email/", "password/change/", "login/", "logout/", "inactive/", "3rdparty/",
     "social/signup/", "2fa/", "2fa/totp/activate/", "confirm-email/", "phone/change/", "login/code/confirm/"],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["", "accounts/", "sign-in/", "account/"])
def test_every_page_of_the_sign_in_library_that_is_not_ours_is_closed(
    responder: Client, prefix: str, path: str
) -> None:
    assert responder.get(f"/{prefix}{path}").status_code == 404


def test_too_many_sign_ins_from_one_address_wait(client: Client, user: User) -> None:
    for number in range(60):
        client.post("/sign-in", {"name": f"nobody-{number}", "password": "x"})
    answer = sign_in(client)
    assert answer.status_code == 429


def test_the_second_step_waits_too_where_too_many_tries_were_refused(client: Client, user: User) -> None:
    secret = set_up(client)
    client.post("/sign-out")
    sign_in(client)
    for number in range(60):
        Client().post("/sign-in", {"name": f"nobody-{number}", "password": "x"})
    assert client.post("/sign-in/code", {"code": code_of(secret, 1)}).status_code == 429


def test_a_wrong_name_takes_as_long_as_a_wrong_password(client: Client, user: User, monkeypatch: Any) -> None:
    """Not by the clock: what takes the time, one hash, is done once either way."""
    hashed: list[str] = []
    from django.contrib.auth.hashers import MD5PasswordHasher

    encode = MD5PasswordHasher.encode
    monkeypatch.setattr(
        MD5PasswordHasher,
        "encode",
        lambda self, password, salt: hashed.append(password) or encode(self, password, salt),
    )
    for name in ("responder", "nobody"):
        hashed.clear()
        client.post("/sign-in", {"name": name, "password": "wrong"})
        assert hashed == ["wrong"], name
