"""Every page, every command and every API route, for everybody who might try: `truth.py` says who may."""

import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from recovery.audit.actions import append_entry
from recovery.models import AuditEntry, Flow, Recovery, RoleIn, Token
from recovery.people.roles import SYSTEM
from recovery.workflow.refreshing import BelowRefresh
from tests import factories
from tests.unit.people.run import run_json, token_of
from tests.unit.people.truth import ANYONE, API, BOUND, COMMANDS, GET, HOLDERS, POST, ROLES

pytestmark = pytest.mark.django_db
Address = Callable[[str], str]
GOOD = (200, 204, 302)
OBJECTS = re.compile(r"<(int:flow_id|int:pipeline_pk|int:recovery_id|int:request_id|int:seq|str:label)>")


@pytest.fixture
def recovery(client: Client) -> Recovery:
    """A planned recovery of a failed flow in development."""
    return factories.planned()


@pytest.fixture
def address(recovery: Recovery) -> Address:
    other = factories.person("viewer", "somebody-else").person  # type: ignore[attr-defined]
    asked = factories.asked(factories.failed_flow(factories.pipeline(name="orders")))
    entry = append_entry(action="recovery.open", outcome="done", by=SYSTEM, says="x", recovery=recovery.label)
    refresh = BelowRefresh("t-1", "ada", timezone.now().isoformat(), ("c.s.t",))
    Flow.objects.filter(pk=recovery.flow_id).update(below_refresh=refresh.as_json())
    values = {
        "str:ticket": refresh.ticket,
        "int:request_id": asked.requests.get().pk, "int:channel_id": factories.channel().pk, "str:name": "staging",
        "int:flow_id": recovery.flow_id, "int:recovery_id": recovery.pk, "str:label": recovery.label,
        "int:seq": entry.seq, "int:person_id": other.pk, "int:pipeline_pk": recovery.flow.pipeline_id,
        "str:workspace": recovery.flow.pipeline.workspace.name,
    }  # fmt: skip
    return lambda route: "/" + re.sub(r"<([^>]+)>", lambda m: str(values[m[1]]), route)


def signed_in(client: Client, user: User) -> Client:
    """Signed in a moment ago, as a person with a password is."""
    client.force_login(user)
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session["account_authentication_methods_user"] = str(user.pk)
    session.save()
    return client


def elsewhere(role: str, default: str = "none") -> User:
    """Somebody whose role holds in staging alone."""
    user = factories.person(default, f"{role}-in-staging")
    RoleIn.objects.create(person=user.person, environment="staging", role=role)  # type: ignore[attr-defined]
    return user


def kept_from_flows(role: str) -> User:
    """Somebody with the role over the whole instance, and flows that may be seen in staging alone."""
    user = elsewhere(role, role)
    for environment in ("development", "production"):
        RoleIn.objects.create(person=user.person, environment=environment, role="none")  # type: ignore[attr-defined]
    return user


def holder(right: str) -> str:
    """A role that has the right."""
    return "responder" if "responder" in HOLDERS[right] else sorted(HOLDERS[right])[0]


def test_every_page_has_its_row() -> None:
    from console.urls import urlpatterns

    assert {str(p.pattern) for p in urlpatterns} == {*GET, *ANYONE, *API}
    assert set(POST) <= set(GET)


def test_every_page_that_takes_a_post_has_a_row_for_it(client: Client, address: Address) -> None:
    signed_in(client, factories.person("admin"))
    for route in set(GET) - set(POST):
        assert client.post(address(route)).status_code == 405, route


@pytest.mark.parametrize("route", GET)
def test_a_page_opens_for_the_roles_of_the_table_and_for_no_other(
    client: Client, address: Address, route: str
) -> None:
    # who has no second factor has no recovery codes; at a test's bare host name there are no passkeys
    good = {"account/recovery-codes": (404,), "account/passkey": (409,)}.get(route, GOOD)
    target = address(route)
    for role in ROLES:
        signed_in(client, factories.person(role))
        answer = client.get(target)
        assert answer.status_code in (good if role in HOLDERS[GET[route]] else (403,)), role


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", POST)
def test_an_act_is_denied_to_every_role_without_its_right_and_changes_nothing(
    client: Client, address: Address, route: str, role: str
) -> None:
    target, (body, right) = address(route), POST[route]
    before = list(Recovery.objects.values()), list(User.objects.values("username", "is_active"))
    user = factories.person(role)
    signed_in(client, user)

    answer = client.post(target, body)

    if role in HOLDERS[right]:
        assert answer.status_code != 403
        assert not AuditEntry.objects.filter(actor=role, role=role, outcome="denied").exists()
    else:
        assert answer.status_code == 403
        user.delete()
        assert before == (list(Recovery.objects.values()), list(User.objects.values("username", "is_active")))
        assert AuditEntry.objects.filter(actor=role, outcome="denied").count() == 1


@pytest.mark.parametrize("route", GET)
def test_who_has_not_signed_in_is_led_to_the_sign_in_and_back(
    client: Client, address: Address, route: str
) -> None:
    for answer in (client.get(address(route)), client.post(address(route))):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in?next=%2F")


@pytest.mark.parametrize("route", GET)
def test_an_account_that_was_switched_off_is_nobody_at_once(
    client: Client, address: Address, route: str
) -> None:
    user = factories.person("admin")
    signed_in(client, user)
    User.objects.filter(pk=user.pk).update(is_active=False)

    assert client.get(address(route))["Location"].startswith("/sign-in?next=%2F")


@pytest.mark.parametrize("route", GET)
def test_an_account_without_a_role_sees_nothing(client: Client, address: Address, route: str) -> None:
    user = factories.person("admin")
    user.person.delete()  # type: ignore[attr-defined]
    signed_in(client, User.objects.get(pk=user.pk))

    assert client.get(address(route)).status_code == 403


@pytest.mark.parametrize("route", [r for r, right in GET.items() if OBJECTS.search(r)])
def test_the_right_role_in_another_environment_does_not_even_tell_that_a_flow_is_there(
    client: Client, address: Address, route: str
) -> None:
    role = holder(GET[route])
    signed_in(client, elsewhere(role) if GET[route] in BOUND else kept_from_flows(role))
    assert client.get(address(route)).status_code == 404

    if route in POST:
        assert client.post(address(route), POST[route][0]).status_code == 404


@pytest.mark.parametrize("route", [r for r in POST if OBJECTS.search(r)])
def test_a_viewer_here_who_is_a_responder_elsewhere_may_only_look(
    client: Client, address: Address, route: str
) -> None:
    signed_in(client, elsewhere("responder", "viewer"))
    looks = GET[route] == "VIEW"

    assert client.get(address(route)).status_code in (GOOD if looks else (403,))
    assert client.post(address(route), POST[route][0]).status_code == 403


@pytest.mark.parametrize("route", [r for r, right in GET.items() if right not in {*BOUND, "OWN"}])
def test_a_role_in_one_environment_gives_no_right_over_the_whole_instance(
    client: Client, address: Address, route: str
) -> None:
    signed_in(client, elsewhere("admin", "viewer"))

    assert client.get(address(route)).status_code == 403


def test_lists_show_only_what_one_may_see(client: Client, recovery: Recovery) -> None:
    staging = factories.flow(
        factories.pipeline(name="stage", environment="staging"), "stage_flow", state="failed"
    )
    odd = factories.flow(factories.pipeline(name="odd", environment="prod-eu"), "odd_flow", state="failed")
    signed_in(client, elsewhere("viewer"))
    page = client.get("/?show=all").content.decode()
    assert staging.short in page
    assert recovery.flow.short not in page
    assert odd.short not in page, "an environment without rules of its own goes by those of production"
    assert recovery.label not in client.get("/recoveries").content.decode()
    assert 'class="count count-failed">1<' in page


# The API

OF_NO_FLOW = ("api/v1/openapi.json", "api/v1/streams")  # a list has what one sees
CALLS = [(route, method) for route, methods in API.items() for method in methods]


def called(client: Client, address: Address, route: str, method: str, token: str) -> Any:
    sent = {"data": json.dumps(API[route][method][0]), "content_type": "application/json"}
    return client.generic(method, address(route), headers={"Authorization": f"Bearer {token}"}, **sent)


@pytest.mark.parametrize(("route", "method"), CALLS)
@pytest.mark.parametrize("role", ROLES)
def test_a_call_works_for_the_roles_of_the_table_and_for_no_other(
    client: Client, address: Address, route: str, method: str, role: str
) -> None:
    answer = called(client, address, route, method, token_of("ada", role))  # type: ignore[arg-type]

    denied = role not in HOLDERS[API[route][method][1]]
    assert (answer.status_code == 403) is denied, answer.content
    assert AuditEntry.objects.filter(outcome="denied", actor="ada", via="api").count() == int(denied)


@pytest.mark.parametrize(
    ("route", "method"), [(r, m) for r, m in CALLS if API[r][m][1] in BOUND and r not in OF_NO_FLOW]
)
def test_a_call_does_not_even_tell_what_is_in_another_environment(
    client: Client, address: Address, route: str, method: str
) -> None:
    token = token_of("ada", "none")  # type: ignore[arg-type]
    person = User.objects.get(username="ada").person  # type: ignore[attr-defined]
    RoleIn.objects.create(person=person, environment="staging", role=holder(API[route][method][1]))

    assert called(client, address, route, method, token).status_code == 404


@pytest.mark.parametrize(("route", "method"), CALLS)
def test_a_session_alone_calls_nothing(client: Client, address: Address, route: str, method: str) -> None:
    signed_in(client, factories.person("admin"))

    answer = client.generic(method, address(route), data="{}", content_type="application/json")

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"


# Commands


def test_every_command_has_its_row() -> None:
    folder = Path(__file__).resolve().parents[3] / "recovery" / "management" / "commands"
    assert {p.stem for p in folder.glob("[!_]*.py")} == set(COMMANDS)


ASKING = [name for name, (_, right) in COMMANDS.items() if right]


def arguments(name: str, recovery: Recovery) -> list[str]:
    values = {"recovery": recovery.label, "pipeline": recovery.flow.pipeline.name}
    if "{asked}" in COMMANDS[name][0]:
        values["asked"] = factories.asked(factories.failed_flow(factories.pipeline(name="orders"))).label
    return [name, *(a.format(**values) for a in COMMANDS[name][0])]


@pytest.fixture(autouse=True)
def nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace's secret is there, its API is not: an act gets as far as rights take it."""
    monkeypatch.setenv("REPRISE_TEST_TOKEN", "x")


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("role", ROLES)
def test_a_command_works_for_the_roles_of_the_table_and_for_no_other(
    monkeypatch: pytest.MonkeyPatch, recovery: Recovery, name: str, role: str
) -> None:
    code, found = run_json(monkeypatch, token_of("ada", role), *arguments(name, recovery))  # type: ignore[arg-type]

    denied = found.get("error", {}).get("code") == "denied"
    assert denied is (role not in HOLDERS[str(COMMANDS[name][1])]), found
    assert (code == 1) if denied else True
    assert AuditEntry.objects.filter(outcome="denied", actor="ada", via="command").count() == int(denied)


@pytest.mark.parametrize(
    "name", [n for n in ASKING if COMMANDS[n][1] in BOUND and n not in ("flows", "token", "adopt")]
)
def test_a_command_finds_nothing_in_an_environment_that_its_owner_may_not_see(
    monkeypatch: pytest.MonkeyPatch, recovery: Recovery, name: str
) -> None:
    token = token_of("ada", "none")  # type: ignore[arg-type]
    person = User.objects.get(username="ada").person  # type: ignore[attr-defined]
    RoleIn.objects.create(person=person, environment="staging", role=holder(str(COMMANDS[name][1])))

    code, found = run_json(monkeypatch, token, *arguments(name, recovery))

    assert (code, found["error"]["code"]) == (2, "not_found")


@pytest.mark.parametrize("what", ["none", "unknown", "revoked", "expired", "switched off", "without a role"])
@pytest.mark.parametrize("name", ASKING)
def test_a_token_that_is_not_good_does_nothing(
    monkeypatch: pytest.MonkeyPatch, recovery: Recovery, name: str, what: str
) -> None:
    token: str | None = token_of("ada", "admin")  # type: ignore[arg-type]
    now = timezone.now()
    if what == "revoked":
        Token.objects.update(revoked_at=now)
    elif what == "expired":
        Token.objects.update(expires_at=now - timedelta(seconds=1))
    elif what == "switched off":
        User.objects.update(is_active=False)
    elif what == "without a role":
        User.objects.get(username="ada").person.delete()  # type: ignore[attr-defined]
    else:
        token = None if what == "none" else "rp_unknown"

    code, found = run_json(monkeypatch, token, *arguments(name, recovery))

    assert (code, found["error"]["code"]) == ((2, "wrong_use") if what == "none" else (1, "denied"))


@pytest.mark.parametrize("name", ASKING)
def test_a_narrowed_token_has_its_own_rights_only(
    monkeypatch: pytest.MonkeyPatch, recovery: Recovery, name: str
) -> None:
    """A token that may only look, and only in staging, of somebody who may do more."""
    role = "admin" if "admin" in HOLDERS[str(COMMANDS[name][1])] else holder(str(COMMANDS[name][1]))
    token = token_of("ada", role)  # type: ignore[arg-type]
    Token.objects.update(rights=["VIEW"])
    _, found = run_json(monkeypatch, token, *arguments(name, recovery))
    assert (found.get("error", {}).get("code") == "denied") is (
        COMMANDS[name][1] != "VIEW" or name == "token"
    )

    Token.objects.update(rights=None, environments=["staging"])
    _, found = run_json(monkeypatch, token, *arguments(name, recovery))
    denied = dict.fromkeys(("adopt", "audit", "token", "workspace"), "denied")
    wanted = {**denied, "flows": None}.get(name, "not_found")
    assert found.get("error", {}).get("code") == wanted


# The Pipelines API server


@pytest.mark.django_db(databases=["default", "pipelines"])
def test_no_route_of_the_pipelines_api_answers_without_its_token() -> None:
    from django.test import RequestFactory

    from recovery.server.http import ApiHandler
    from recovery.server.urls import urlpatterns

    handler, open_ones = ApiHandler(), set()
    for route in urlpatterns:
        path = "/" + re.sub(r"<[^>]+>", "x", str(route.pattern))
        for headers in ({}, {"HTTP_AUTHORIZATION": "Bearer wrong"}, {"HTTP_AUTHORIZATION": "Basic eDp5"}):
            for method in ("GET", "POST", "PUT", "DELETE"):
                answer = handler.get_response(RequestFactory().generic(method, path, **headers))  # type: ignore[arg-type]
                if answer.status_code != 401:
                    open_ones.add(path)
    assert open_ones == {"/.well-known/databricks-config"}
