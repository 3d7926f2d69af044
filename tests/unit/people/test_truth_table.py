"""Every page, every command and every API route, for everybody who might try: `truth.py` says who may."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.utils import timezone

from recovery.audit.actions import append_entry
from recovery.models import AuditEntry, Flow, Person, Recovery, RoleIn, Token
from recovery.people.roles import SYSTEM, Role
from recovery.workflow.refreshing import BelowRefresh
from tests import factories
from tests.factories.joint import joined
from tests.unit.conftest import without_anchor
from tests.unit.people.run import run_json, token_of
from tests.unit.people.truth import ANYONE, API, BOUND, COMMANDS, GET, HOLDERS, POST, ROLES

pytestmark = pytest.mark.django_db
Address = Callable[[str], str]
GOOD = (200, 204, 302)
OBJECTS = re.compile(r"<(int:flow_id|int:pipeline_pk|int:recovery_id|int:request_id|int:seq|str:label)>")


@dataclass(frozen=True)
class Situation:
    """What all tests of this module ask about. None of them changes it for another: each is rolled back to it."""

    #: A planned recovery of a failed flow in development.
    recovery: Recovery
    #: Another one, for which approval was asked.
    asked: Recovery
    #: What is filled in for each part of an address.
    values: dict[str, str]
    #: By role, a person of that name who has it over the whole instance.
    people: dict[str, User]
    #: By role, the token of `<role>-by-token`.
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def situation(django_db_setup: None, django_db_blocker: Any) -> Iterator[Situation]:
    """Made once, in a transaction around those of the tests."""
    around = transaction.atomic()
    with django_db_blocker.unblock(), without_anchor():
        around.__enter__()
        made = make_situation()
    yield made
    with django_db_blocker.unblock():
        transaction.set_rollback(True)
        around.__exit__(None, None, None)


def make_situation() -> Situation:
    recovery = factories.planned()
    other = factories.person("viewer", "somebody-else").person  # type: ignore[attr-defined]
    asked = factories.asked(factories.failed_flow(factories.pipeline(name="orders")))
    entry = append_entry(action="recovery.open", outcome="done", by=SYSTEM, says="x", recovery=recovery.label)
    joint, _ = joined()
    refresh = BelowRefresh("t-1", "ada", timezone.now().isoformat(), ("c.s.t",))
    Flow.objects.filter(pk=recovery.flow_id).update(below_refresh=refresh.as_json())
    values = {
        "str:ticket": refresh.ticket,
        "int:request_id": asked.requests.get().pk, "int:channel_id": factories.channel().pk, "str:name": "staging",
        "int:flow_id": recovery.flow_id, "int:recovery_id": recovery.pk, "str:label": recovery.label,
        "path:part": "run",
        "int:seq": entry.seq, "int:person_id": other.pk, "int:pipeline_pk": recovery.flow.pipeline_id,
        "str:workspace": recovery.flow.pipeline.workspace.name, "str:joint": joint.label,
    }  # fmt: skip
    return Situation(
        recovery=recovery,
        asked=asked,
        values={part: str(value) for part, value in values.items()},
        people={role: factories.person(role) for role in ROLES},
        tokens={role: token_of(f"{role}-by-token", Role(role)) for role in ROLES},
    )


@pytest.fixture
def recovery(situation: Situation) -> Recovery:
    return Recovery.objects.get(pk=situation.recovery.pk)


@pytest.fixture
def address(situation: Situation) -> Address:
    return lambda route: "/" + re.sub(r"<([^>]+)>", lambda m: situation.values[m[1]], route)


@contextmanager
def undone() -> Iterator[None]:
    """What is done within is rolled back at its end, and no try counts against a limit of the next one."""
    cache.clear()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def signed_in(client: Client, user: User) -> Client:
    """Signed in a moment ago, as a person with a password is."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session["account_authentication_methods_user"] = str(user.pk)
    session.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = str(session.session_key)
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


def test_every_page_that_takes_a_post_has_a_row_for_it(
    client: Client, situation: Situation, address: Address
) -> None:
    signed_in(client, situation.people["admin"])
    for route in set(GET) - set(POST):
        assert client.post(address(route)).status_code == 405, route


@pytest.mark.parametrize("route", GET)
def test_a_page_opens_for_the_roles_of_the_table_and_for_no_other(
    client: Client, situation: Situation, address: Address, route: str
) -> None:
    # who has no second factor has no recovery codes; at a test's bare host name there are no passkeys
    good = {"account/recovery-codes": (404,), "account/passkey": (409,)}.get(route, GOOD)
    target = address(route)
    for role in ROLES:
        signed_in(client, situation.people[role])
        answer = client.get(target)
        assert answer.status_code in (good if role in HOLDERS[GET[route]] else (403,)), role


@pytest.mark.parametrize("route", POST)
def test_an_act_is_denied_to_every_role_without_its_right_and_changes_nothing(
    client: Client, situation: Situation, address: Address, route: str
) -> None:
    target, (body, right) = address(route), POST[route]
    before = list_what_acts_change()
    for role in ROLES:
        with undone():
            signed_in(client, situation.people[role])

            answer = client.post(target, body)

            denied = AuditEntry.objects.filter(actor=role, outcome="denied")
            if role in HOLDERS[right]:
                assert answer.status_code != 403, role
                assert not denied.filter(role=role).exists(), role
            else:
                assert answer.status_code == 403, role
                assert before == list_what_acts_change(), role
                assert denied.count() == 1, role


def list_what_acts_change() -> tuple[list[dict[str, Any]], ...]:
    return list(Recovery.objects.values()), list(User.objects.values("username", "is_active"))


@pytest.mark.parametrize("route", GET)
def test_who_has_not_signed_in_is_led_to_the_sign_in_and_back(
    client: Client, address: Address, route: str
) -> None:
    for answer in (client.get(address(route)), client.post(address(route))):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in?next=%2F")


@pytest.mark.parametrize("route", GET)
def test_an_account_that_was_switched_off_is_nobody_at_once(
    client: Client, situation: Situation, address: Address, route: str
) -> None:
    user = situation.people["admin"]
    signed_in(client, user)
    User.objects.filter(pk=user.pk).update(is_active=False)

    assert client.get(address(route))["Location"].startswith("/sign-in?next=%2F")


@pytest.mark.parametrize("route", GET)
def test_an_account_without_a_role_sees_nothing(
    client: Client, situation: Situation, address: Address, route: str
) -> None:
    user = situation.people["admin"]
    Person.objects.get(user=user).delete()
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
    assert f"/recoveries/{recovery.pk}" not in client.get("/recoveries").content.decode()
    assert 'class="count count-failed">1<' in page


# The API

# a list has what one sees; a place is no flow
OF_NO_FLOW = ("api/v1/openapi.json", "api/v1/streams", "api/v1/streams/preview")
CALLS = [(route, method) for route, methods in API.items() for method in methods]


def called(client: Client, address: Address, route: str, method: str, token: str) -> Any:
    sent = {"data": json.dumps(API[route][method][0]), "content_type": "application/json"}
    return client.generic(method, address(route), headers={"Authorization": f"Bearer {token}"}, **sent)


@pytest.mark.parametrize(("route", "method"), CALLS)
def test_a_call_works_for_the_roles_of_the_table_and_for_no_other(
    client: Client, situation: Situation, address: Address, route: str, method: str
) -> None:
    for role in ROLES:
        with undone():
            answer = called(client, address, route, method, situation.tokens[role])

            denied = role not in HOLDERS[API[route][method][1]]
            assert (answer.status_code == 403) is denied, (role, answer.content)
            entries = AuditEntry.objects.filter(outcome="denied", actor=f"{role}-by-token", via="api")
            assert entries.count() == int(denied), role


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
def test_a_session_alone_calls_nothing(
    client: Client, situation: Situation, address: Address, route: str, method: str
) -> None:
    signed_in(client, situation.people["admin"])

    answer = client.generic(method, address(route), data="{}", content_type="application/json")

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"


# Commands


def test_every_command_has_its_row() -> None:
    folder = Path(__file__).resolve().parents[3] / "recovery" / "management" / "commands"
    assert {p.stem for p in folder.glob("[!_]*.py")} == set(COMMANDS)


ASKING = [name for name, (_, right) in COMMANDS.items() if right]


def arguments(name: str, situation: Situation) -> list[str]:
    values = {
        "recovery": situation.recovery.label,
        "pipeline": situation.recovery.flow.pipeline.name,
        "asked": situation.asked.label,
    }
    return [name, *(a.format(**values) for a in COMMANDS[name][0])]


@pytest.fixture(autouse=True)
def nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace's secret is there, its API is not: an act gets as far as rights take it."""
    monkeypatch.setenv("REPRISE_TEST_TOKEN", "x")


@pytest.mark.parametrize("name", ASKING)
def test_a_command_works_for_the_roles_of_the_table_and_for_no_other(
    monkeypatch: pytest.MonkeyPatch, situation: Situation, name: str
) -> None:
    for role in ROLES:
        with undone():
            code, found = run_json(monkeypatch, situation.tokens[role], *arguments(name, situation))

            denied = found.get("error", {}).get("code") == "denied"
            assert denied is (role not in HOLDERS[str(COMMANDS[name][1])]), (role, found)
            assert (code == 1) if denied else True, role
            entries = AuditEntry.objects.filter(outcome="denied", actor=f"{role}-by-token", via="command")
            assert entries.count() == int(denied), role


@pytest.mark.parametrize(
    "name", [n for n in ASKING if COMMANDS[n][1] in BOUND and n not in ("adopt", "backups", "flows", "token")]
)
def test_a_command_finds_nothing_in_an_environment_that_its_owner_may_not_see(
    monkeypatch: pytest.MonkeyPatch, situation: Situation, name: str
) -> None:
    token = token_of("ada", "none")  # type: ignore[arg-type]
    person = User.objects.get(username="ada").person  # type: ignore[attr-defined]
    RoleIn.objects.create(person=person, environment="staging", role=holder(str(COMMANDS[name][1])))

    code, found = run_json(monkeypatch, token, *arguments(name, situation))

    # a pipeline by its name could be one of a workspace that did not answer
    of_pipeline = "{pipeline}" in COMMANDS[name][0]
    assert (code, found["error"]["code"]) == (2, "workspace_away" if of_pipeline else "not_found")


NOT_GOOD = ("none", "unknown", "revoked", "expired", "switched off", "without a role")


@pytest.mark.parametrize("name", ASKING)
def test_a_token_that_is_not_good_does_nothing(
    monkeypatch: pytest.MonkeyPatch, situation: Situation, name: str
) -> None:
    for what in NOT_GOOD:
        with undone():
            token = spoil_token(situation.tokens["admin"], what)

            code, found = run_json(monkeypatch, token, *arguments(name, situation))

            wanted = (2, "wrong_use") if what == "none" else (1, "denied")
            assert (code, found["error"]["code"]) == wanted, what


def spoil_token(token: str, what: str) -> str | None:
    """What is sent instead of an administrator's token, or that token after this happened to it."""
    now = timezone.now()
    if what == "revoked":
        Token.objects.update(revoked_at=now)
    elif what == "expired":
        Token.objects.update(expires_at=now - timedelta(seconds=1))
    elif what == "switched off":
        User.objects.update(is_active=False)
    elif what == "without a role":
        Person.objects.get(user__username="admin-by-token").delete()
    else:
        return None if what == "none" else "rp_unknown"
    return token


@pytest.mark.parametrize("name", ASKING)
def test_a_narrowed_token_has_its_own_rights_only(
    monkeypatch: pytest.MonkeyPatch, situation: Situation, name: str
) -> None:
    """A token that may only look, and only in staging, of somebody who may do more."""
    role = "admin" if "admin" in HOLDERS[str(COMMANDS[name][1])] else holder(str(COMMANDS[name][1]))
    token = token_of("ada", role)  # type: ignore[arg-type]
    Token.objects.update(rights=["VIEW"])
    _, found = run_json(monkeypatch, token, *arguments(name, situation))
    narrow = {"token": "narrow_token"}.get(name, None if COMMANDS[name][1] == "VIEW" else "denied")
    code = found.get("error", {}).get("code")
    assert code == narrow if narrow else code not in ("denied", "narrow_token")

    Token.objects.update(rights=None, environments=["staging"])
    _, found = run_json(monkeypatch, token, *arguments(name, situation))
    denied = dict.fromkeys(("adopt", "audit", "workspace"), "denied")
    wanted = {**denied, "backups": None, "flows": None, "token": "narrow_token"}
    of_pipeline = "{pipeline}" in COMMANDS[name][0]
    assert found.get("error", {}).get("code") == wanted.get(
        name, "workspace_away" if of_pipeline else "not_found"
    )


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
