"""What stands between the console and the web: headers, cookies, CSRF, and what a path may name."""

import os
import runpy
from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import global_settings
from django.test import Client

from console import settings
from tests import factories
from tests.pages import shown
from tests.unit.people.truth import ANYONE, POST

EVERYWHERE = {
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=()",
}


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/sign-in", "/no-such", "/audit", "/sign-in/passkey"])
def test_every_answer_carries_the_headers(client: Client, path: str) -> None:
    client.force_login(factories.person("viewer"))
    answer = client.get(path)
    for name, beginning in EVERYWHERE.items():
        assert beginning in answer[name], name
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.django_db
def test_static_files_carry_them_too(client: Client) -> None:
    answer = client.get("/static/reprise/page.js")
    assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer["X-Content-Type-Options"] == "nosniff"
    answer.close()


@pytest.mark.django_db
def test_no_page_has_anything_inline(client: Client) -> None:
    client.force_login(factories.person("admin"))
    for path in ("/sign-in", "/account", "/settings/people", "/reauthenticate"):
        page = client.get(path).content.decode()
        for banned in (" style=", "<style", " onclick", " onload", "javascript:"):
            assert banned not in page, (path, banned)


SENT = sorted(route for route in {*POST, *ANYONE} if "<" not in route)


@pytest.mark.django_db
@pytest.mark.parametrize("route", SENT)
def test_no_form_is_taken_without_its_token(route: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(factories.person("admin"))
    answer = client.post(f"/{route}", {"name": "x"})
    assert (answer.status_code, "stale-form" in shown(answer).codes) == (403, True)


def test_no_view_is_exempt_from_csrf_but_those_that_take_a_token_and_no_session() -> None:
    from console.api.urls import ROUTES
    from console.urls import urlpatterns

    exempt = [p for p in urlpatterns if getattr(p.callback, "csrf_exempt", False)]  # type: ignore[union-attr]
    assert exempt == ROUTES
    assert all(str(p.pattern).startswith("api/") for p in exempt)


SettingsOf = Callable[..., Mapping[str, Any]]


@pytest.fixture
def settings_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsOf:
    """Runs the settings' code with these variables alone, as a process that begins does."""

    def read(**given: str) -> Mapping[str, Any]:
        for name in [name for name in os.environ if name.startswith("REPRISE_")]:
            monkeypatch.delenv(name)
        for name, value in {"REPRISE_HOME": str(tmp_path), **given}.items():
            monkeypatch.setenv(name, value)
        return ChainMap(runpy.run_path(settings.__file__), vars(global_settings))

    return read


def test_over_https_cookies_are_this_hosts_alone(settings_of: SettingsOf) -> None:
    found = settings_of(REPRISE_SECURE="true", REPRISE_SECRET_KEY="x" * 60)
    assert (found["SESSION_COOKIE_NAME"], found["CSRF_COOKIE_NAME"]) == (
        "__Host-sessionid",
        "__Host-csrftoken",
    )
    for name in ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY", "CSRF_COOKIE_HTTPONLY",
                 "SECURE_SSL_REDIRECT", "SECURE_HSTS_INCLUDE_SUBDOMAINS"):  # fmt: skip
        assert found[name] is True, name
    assert found["SESSION_COOKIE_SAMESITE"] == found["CSRF_COOKIE_SAMESITE"] == "Lax"
    assert found["SECURE_HSTS_SECONDS"] == 31536000
    assert found["MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN"] is False
    assert found["SOCIALACCOUNT_PROVIDERS"]["openid_connect"]["APPS"] == []


def test_the_company_s_provider_is_set_by_variables_and_its_secret_by_a_file(
    tmp_path: Path, settings_of: SettingsOf
) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    found = settings_of(
        REPRISE_OIDC_ISSUER="https://id.example", REPRISE_OIDC_CLIENT_ID="reprise",
        REPRISE_OIDC_CLIENT_SECRET_FILE=str(tmp_path / "secret"),
    )  # fmt: skip
    assert found["SOCIALACCOUNT_PROVIDERS"]["openid_connect"]["APPS"] == [
        {"provider_id": "company", "name": "company account", "client_id": "reprise", "secret": "from a file",
         "settings": {"server_url": "https://id.example"}}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ({}, None),
        ({"REPRISE_BROKER_URL": "redis+socket:///run/b.sock?virtual_host=0"}, "unix:///run/b.sock?db=1"),
        ({"REPRISE_BROKER_URL": "redis://:pw@redis:6379/0"}, "redis://:pw@redis:6379/1"),
        ({"REPRISE_BROKER_URL": "redis://redis:6379"}, "redis://redis:6379/1"),
        ({"REPRISE_BROKER_URL": "redis://redis", "REPRISE_CACHE_URL": "redis://cache/7"}, "redis://cache/7"),
    ],
)
def test_limits_are_counted_where_all_processes_look(
    settings_of: SettingsOf, given: dict[str, str], location: str | None
) -> None:
    assert settings_of(**given)["CACHES"]["default"].get("LOCATION") == location


def test_limits_are_counted_while_the_shared_cache_is_away(tmp_path: Path) -> None:
    """The sign-in must not fall with the broker, and guessing must not become free."""
    from console.signing.cache import SharedCache

    cache = SharedCache(f"unix://{tmp_path}/nobody.sock?db=1", {})
    assert cache.add("k", 1, timeout=60) is True
    assert cache.add("k", 1, timeout=60) is False
    assert cache.incr("k") == 2
    assert cache.get("k") == 2
    cache.set("k", 5)
    cache.delete("k")
    assert cache.get("k") is None


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../x.py",
        "..\\x.py",
        "~/x.py",
        "file:///etc/passwd",
        "x.py\x00",
    ],
)
def test_a_path_that_the_workspace_does_not_have_is_never_written(name: str) -> None:
    """An edited file is one of the pipeline's own, or it is dropped: no path out of a form reaches a disk."""
    from console.presenters.patching import changed_files

    own = {"/Workspace/customers/customers.py": "a = 1\n"}
    assert changed_files(own, {name: "evil", "/Workspace/customers/customers.py": "a = 2\n"}) == {
        "/Workspace/customers/customers.py": "a = 2\n"
    }
