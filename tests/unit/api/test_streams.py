"""Plain streams by API: read before they are adopted, adopted and changed by the same door, with the same refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from recovery.models import AuditEntry, Person, Recovery, RoleIn, Stream, Workspace
from recovery.people.roles import ENVIRONMENTS, Role
from recovery.streams.actions import RUNNERS
from tests.factories.plain_streams import write_checkpoint, write_event_log
from tests.unit.eventlogs import logs
from tests.unit.people.run import token_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "home"


@pytest.fixture
def place(tmp_path: Path) -> str:
    return write_checkpoint(tmp_path)


@pytest.fixture
def events(tmp_path: Path) -> str:
    return write_event_log(tmp_path)


@pytest.fixture
def responder() -> str:
    return token_of("rita", Role.RESPONDER)


def call(token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    answer = Client().generic(
        method, f"/api/v1/{path}", data=json.dumps(body or {}), content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )  # fmt: skip
    return answer.status_code, json.loads(answer.content)


def needs(answer: Any) -> dict[str, str]:
    return {need["need"]: need["answered"] for need in answer["needs"]}


def test_a_checkpoint_is_read_and_nothing_is_changed(responder: str, place: str, events: str) -> None:
    code, found = call(responder, "POST", "streams/preview", {"checkpoint": place})
    assert (code, found["name"], found["environment"], found["pipeline"]) == (
        200, "orders", "production", None,
    )  # fmt: skip
    assert (found["checkpoint"]["query_id"], found["checkpoint"]["last_committed"]) == (logs.QUERY, 2)
    assert [source["kind"] for source in found["checkpoint"]["sources"]] == ["files"]
    assert list(needs(found).items()) == [
        ("sink", "missing"), ("event-log", "missing"), ("program", "missing"), ("runner", "missing"),
        ("owner", "missing"),
    ]  # fmt: skip
    code, found = call(responder, "POST", "streams/preview", {"checkpoint": place, "event_log": events})
    assert (code, found["sink"], found["application"]) == (200, "/out", "local-1")
    assert (needs(found)["sink"], needs(found)["event-log"]) == ("found", "found")
    assert not Stream.objects.exists()
    assert not Workspace.objects.exists()
    assert not AuditEntry.objects.filter(action="stream.adopt").exists()


def test_what_is_named_and_cannot_be_read_has_its_code(responder: str, place: str) -> None:
    said = {"checkpoint": place, "event_log": "/etc", "sink": "relative/place"}
    code, found = call(responder, "POST", "streams/preview", said)
    problems = {n["need"]: n["problem"]["code"] for n in found["needs"] if n["problem"]}
    assert (code, problems) == (200, {"event-log": "storage_hidden", "sink": "storage_address"})


def test_what_was_said_is_not_asked_again(responder: str, place: str) -> None:
    code, stream = call(
        responder, "POST", "streams", {"checkpoint": place, "name": "shop", "owner": "Team shop"}
    )
    assert (code, stream["flow"], stream["owner"]) == (201, "shop", "Team shop")
    _, found = call(responder, "POST", "streams/preview", {"checkpoint": place})
    assert (found["pipeline"], found["name"], needs(found)["owner"]) == (stream["pipeline"], "shop", "said")
    assert call(responder, "POST", "streams", {"checkpoint": place, "sink": "shop.orders"})[0] == 201
    kept = Stream.objects.get()
    assert (kept.owner, kept.pipeline.name) == ("Team shop", "shop")
    entries = AuditEntry.objects.filter(action="stream.adopt", outcome="done", actor="rita")
    assert {entry.via for entry in entries} == {"api"}


def test_the_list_has_what_its_reader_sees(responder: str, place: str) -> None:
    call(responder, "POST", "streams", {"checkpoint": place})
    viewer, stranger = token_of("vic", Role.VIEWER), token_of("dev", Role.NONE)
    person = Person.objects.get(user__username="dev")
    RoleIn.objects.create(person=person, environment="development", role=Role.RESPONDER)
    seen = [call(token, "GET", "streams")[1]["streams"] for token in (viewer, stranger)]
    assert [[stream["checkpoint"] for stream in streams] for streams in seen] == [[place], []]
    code, refused = call(stranger, "POST", "streams/preview", {"checkpoint": place})
    assert (code, refused["error"]["code"]) == (403, "denied")
    assert AuditEntry.objects.filter(action="stream.adopt", outcome="denied", actor="dev").count() == 1


@pytest.mark.parametrize("path", ["streams", "streams/preview"])
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "wrong_use"),
        ({"checkpoint": "/etc"}, 409, "storage_hidden"),
        ({"checkpoint": "relative"}, 400, "storage_address"),
        ({"checkpoint": "/nowhere/at/all"}, 503, "unreachable"),
        ({"checkpoint": "{place}", "chekpoint": "/x"}, 400, "wrong_use"),
        ({"checkpoint": "{place}", "workspace": "none"}, 404, "not_found"),
    ],
)
def test_refusals(
    responder: str, place: str, path: str, body: dict[str, str], status: int, code: str
) -> None:
    sent = {name: value.format(place=place) for name, value in body.items()}
    answer = call(responder, "POST", path, sent)
    assert (answer[0], answer[1]["error"]["code"]) == (status, code)
    assert not Stream.objects.exists()


def test_of_several_workspaces_one_is_named(responder: str, place: str) -> None:
    for name in ("streams-eu", "streams-us"):
        Workspace.objects.create(name=name, kind="streams", environment="production")
    for path in ("streams", "streams/preview"):
        code, answer = call(responder, "POST", path, {"checkpoint": place})
        assert (code, answer["error"]["code"]) == (400, "workspace_missing")
    said = {"checkpoint": place, "workspace": "streams-us"}
    assert call(responder, "POST", "streams/preview", said)[1]["workspace"] == "streams-us"
    assert call(responder, "POST", "streams", said)[0] == 201
    assert call(responder, "POST", "streams", {"checkpoint": place, "owner": "Team shop"})[0] == 201


@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER, Role.AUDITOR])
@pytest.mark.parametrize("path", ["streams", "streams/preview"])
def test_who_may_not_recover_may_neither_read_nor_adopt(role: Role, path: str, place: str) -> None:
    code, answer = call(token_of("vic", role), "POST", path, {"checkpoint": place})
    assert (code, answer["error"]["code"]) == (403, "denied")
    assert AuditEntry.objects.filter(outcome="denied", actor="vic").count() == 1


def test_commands_are_an_admins_to_give(responder: str, place: str) -> None:
    said = {"checkpoint": place, "runner": "command", "start": "launch orders", "running": "ask orders"}
    assert call(responder, "POST", "streams", said)[0] == 403
    code, stream = call(token_of("ada", Role.ADMIN), "POST", "streams", said)
    assert (code, stream["runner"]) == (201, "command")
    assert "launch" not in json.dumps(call(responder, "POST", "streams/preview", {"checkpoint": place})[1])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"runner": "by-hand"}, 403),
        ({"event_log": "EVENTS"}, 403),
        ({"runner": "command"}, 403),
        ({"owner": "x"}, 201),
    ],
)
def test_what_proves_a_stop_beside_an_admins_commands_is_an_admins_to_change(
    change: dict[str, str], code: int, responder: str, place: str, events: str
) -> None:
    said = {"checkpoint": place, "runner": "command", "start": "launch orders", "running": "ask orders"}
    assert call(token_of("ada", Role.ADMIN), "POST", "streams", said)[0] == 201
    change = {name: events if value == "EVENTS" else value for name, value in change.items()}
    assert call(responder, "POST", "streams", {"checkpoint": place, **change})[0] == code


@pytest.mark.parametrize(
    ("state", "change", "refusal"),
    [
        ("running", "owner", "recovery_runs"),
        ("verifying", "owner", "recovery_runs"),
        ("needs_attention", "sink", "recovery_open"),
        ("needs_attention", "owner", ""),
        ("diagnosing", "sink", ""),
    ],
)
def test_a_stream_keeps_the_table_that_its_recovery_is_proven_over(
    state: str, change: str, refusal: str, responder: str, place: str, tmp_path: Path
) -> None:
    assert call(responder, "POST", "streams", {"checkpoint": place})[0] == 201
    Recovery.objects.create(flow=Stream.objects.get().pipeline.flows.get(), created_by="rita", state=state)
    (tmp_path / "other" / "_delta_log").mkdir(parents=True)
    value = {"owner": "Team shop", "sink": str(tmp_path / "other")}[change]
    code, answer = call(responder, "POST", "streams", {"checkpoint": place, change: value})
    assert (code, (answer.get("error") or {}).get("code", "")) == ((409 if refusal else 201), refusal)


def test_the_document_names_what_may_be_chosen(responder: str) -> None:
    _, document = call(responder, "GET", "openapi.json")
    paths = document["paths"]
    assert paths["/api/v1/streams/preview"]["post"]["responses"]["200"]
    body = paths["/api/v1/streams"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["checkpoint"]
    assert body["properties"]["environment"]["enum"] == list(ENVIRONMENTS)
    assert body["properties"]["runner"]["enum"] == list(RUNNERS)
    preview = paths["/api/v1/streams/preview"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(preview["properties"]) == {"checkpoint", "sink", "event_log", "workspace"}
