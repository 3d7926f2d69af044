"""Company accounts: an OpenID Connect provider proves who somebody is, and lets nobody in who was not invited."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.test import Client
from pydantic import ValidationError

from console.env import Env
from recovery.models import AuditEntry
from tests import factories as f
from tests.pages import refusal
from tests.unit.pages import company_urls  # before a test configures a provider: these are read once

pytestmark = pytest.mark.django_db


class Provider(BaseHTTPRequestHandler):
    """Discovery, token and user information of a provider that believes every code. `told` is what it says."""

    told: dict[str, Any] = {}
    asked: dict[str, list[str]] = {}

    def do_GET(self) -> None:
        here = f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
        if self.path.startswith("/.well-known/"):
            names = {"authorization": "/auth", "token": "/token", "userinfo": "/me"}
            self._say(
                {
                    "issuer": here,
                    "jwks_uri": f"{here}/keys",
                    **{f"{k}_endpoint": here + v for k, v in names.items()},
                }
            )
        else:
            self._say(self.told)

    def do_POST(self) -> None:
        Provider.asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        here = f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
        claims = {"iss": here, "aud": "reprise", "exp": 4102444800, "iat": 1, **self.told}
        self._say({"access_token": "a", "token_type": "Bearer", "id_token": jwt.encode(claims, "k" * 32)})

    def _say(self, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def provider(settings: Any) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    app = {"provider_id": "company", "name": "Corp", "client_id": "reprise", "secret": "s" * 32,
           "settings": {"server_url": url}}  # fmt: skip
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
    settings.REPRISE_OIDC_NAME = "Corp"
    settings.ROOT_URLCONF = company_urls.__name__
    yield url
    server.shutdown()
    server.server_close()
    thread.join()


def invited(name: str = "ada", email: str = "ada@corp.example", role: str = "responder") -> User:
    user = f.person(role, name)
    user.email = email
    user.set_unusable_password()
    user.save()
    return user


def come_back(
    client: Client, told: dict[str, Any], begin: str = "/sign-in/company/company?next=/recoveries"
) -> Any:
    """Go to the provider and come back with what it tells."""
    Provider.told = told
    away = client.get(begin)
    query = parse_qs(urlsplit(away["Location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    return client.get("/sign-in/company/company/back", {"code": "c", "state": query["state"][0]})


ADA = {"sub": "42", "email": "Ada@corp.example", "email_verified": True}


def test_an_invited_person_signs_in_with_the_verified_address_and_then_by_the_provider_s_id(
    client: Client,
) -> None:
    user = invited()
    assert 'href="/sign-in/company/company?next=/"' in client.get("/sign-in").content.decode()
    assert come_back(client, ADA)["Location"] == "/recoveries"
    assert "ada" in client.get("/account").content.decode()
    assert SocialAccount.objects.get().user == user
    entry = AuditEntry.objects.get(action="session.sign_in")
    assert (entry.actor, "company account" in entry.says) == ("ada", True)
    assert "code_verifier" in Provider.asked

    renamed = Client()
    assert come_back(renamed, {**ADA, "email": "ada@newname.example"})["Location"] == "/recoveries"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("not invited", {**ADA, "email": "eve@corp.example"}),
        ("not verified", {**ADA, "email_verified": False}),
        ("verified in words only", {**ADA, "email_verified": "yes"}),
        ("no address", {"sub": "42"}),
        ("an account without address", {"sub": "42", "email": "", "email_verified": True}),
        ("switched off", ADA),
        ("a service account", ADA),
        ("no role", ADA),
    ],
)
def test_nobody_else_gets_in_and_no_account_is_made(client: Client, why: str, told: dict[str, Any]) -> None:
    user = invited()
    f.person("admin", "without-address")
    if why == "switched off":
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif why == "a service account":
        user.person.service = True  # type: ignore[attr-defined]
        user.person.save()  # type: ignore[attr-defined]
    elif why == "no role":
        user.person.delete()  # type: ignore[attr-defined]
    answer = come_back(client, told)
    assert (answer.status_code, refusal(answer)) == (422, "not-invited")
    assert client.get("/")["Location"].startswith("/sign-in")
    assert not SocialAccount.objects.exists()
    assert User.objects.count() == 2
    assert AuditEntry.objects.get().action == "session.refused"


def test_a_second_factor_is_asked_for_after_a_company_account_too(client: Client) -> None:
    user = invited()
    Authenticator.objects.create(user=user, type="totp", data={"secret": "x"})
    assert come_back(client, ADA)["Location"] == "/sign-in/code"
    assert client.get("/")["Location"].startswith("/sign-in")


def test_an_answer_that_nobody_asked_for_is_refused(client: Client) -> None:
    invited()
    answer = client.get("/sign-in/company/company/back", {"code": "c", "state": "guessed"})
    assert answer.status_code == 422
    assert "was not finished" in answer.content.decode()


@pytest.mark.parametrize("elsewhere", ["https://example.org/", "//example.org"])
def test_a_company_sign_in_never_leads_to_another_site(client: Client, elsewhere: str) -> None:
    invited()
    answer = come_back(client, ADA, f"/sign-in/company/company?next={elsewhere}")
    assert answer["Location"] == "/"


def test_a_company_account_cannot_be_tied_to_somebody_who_is_signed_in(client: Client) -> None:
    invited()
    client.force_login(f.person("admin"))
    come_back(client, {**ADA, "email": "eve@corp.example"}, "/sign-in/company/company?process=connect")
    assert not SocialAccount.objects.exists()


def test_a_session_is_confirmed_by_the_company_s_sign_in(client: Client) -> None:
    invited()
    come_back(client, ADA)
    session = client.session
    session["account_authentication_methods"] = [{"method": "socialaccount", "at": 1}]
    session.save()
    page = client.get("/reauthenticate?next=/account/authenticator-app").content.decode()
    assert "auth_params=prompt%3Dlogin" in page
    away = client.get("/sign-in/company/company?next=/account/authenticator-app&auth_params=prompt%3Dlogin")
    assert "prompt=login" in away["Location"]
    come_back(
        client, ADA, "/sign-in/company/company?next=/account/authenticator-app&auth_params=prompt%3Dlogin"
    )
    assert client.get("/account/authenticator-app").status_code == 200


def away_and_back(client: Client, told: dict[str, Any]) -> Any:
    return come_back(
        client, told, "/sign-in/company/company?next=/account/authenticator-app&auth_params=prompt%3Dlogin"
    )


@pytest.mark.parametrize(
    ("auth_time", "proven"),
    [(None, True), (0, True), (-590, True), (-610, False), (-86400, False), ("yesterday", True)],
)
def test_a_session_is_confirmed_by_when_the_provider_itself_last_asked(
    client: Client, auth_time: float | str | None, proven: bool
) -> None:
    invited()
    come_back(client, ADA)
    session = client.session
    session["account_authentication_methods"] = [{"method": "socialaccount", "at": 1}]
    session.save()
    at = time.time() + auth_time if isinstance(auth_time, int) else auth_time
    answer = away_and_back(client, ADA if at is None else {**ADA, "auth_time": at})
    if proven:
        assert answer["Location"] == "/account/authenticator-app"
        assert client.get("/account/authenticator-app").status_code == 200
        return
    assert answer["Location"] == "/reauthenticate?next=%2Faccount%2Fauthenticator-app"
    assert refusal(client.get(answer["Location"])) == "old-proof"
    assert client.get("/account/authenticator-app")["Location"].startswith("/reauthenticate")
    assert AuditEntry.objects.get(action="session.confirm").outcome == "denied"


def test_a_sign_in_out_of_the_provider_s_own_session_is_no_fresh_proof(client: Client) -> None:
    invited()
    assert come_back(client, {**ADA, "auth_time": time.time() - 3600})["Location"] == "/recoveries"
    assert client.get("/account/authenticator-app")["Location"].startswith("/reauthenticate")
    fresh = Client()
    come_back(fresh, {**ADA, "auth_time": time.time() - 5})
    assert fresh.get("/account/authenticator-app").status_code == 200


@pytest.mark.parametrize(
    ("issuer", "good"),
    [
        ("", True),
        ("https://login.corp.example", True),
        ("http://localhost:9000", True),
        ("http://127.0.0.1:9000/realm", True),
        ("http://[::1]:9000", True),
        ("http://login.corp.example", False),
        ("http://localhost.corp.example", False),
        ("http://127.0.0.1.corp.example", False),
        ("http://localhost@corp.example", False),
        ("ftp://localhost", False),
        ("login.corp.example", False),
        ("https://", False),
    ],
)
def test_the_provider_is_spoken_to_over_https_but_on_this_machine(issuer: str, good: bool) -> None:
    with nullcontext() if good else pytest.raises(ValidationError, match="address is https"):
        assert Env(oidc_issuer=issuer).oidc_issuer == issuer
