"""A stream is added by its checkpoint on a page, and what is said of it is changed there: asked once, by who may."""

import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from recovery.models import AuditEntry, Flow, Person, RoleIn, Stream, Workspace
from recovery.people.roles import Role
from tests import factories
from tests.factories.plain_streams import write_checkpoint, write_event_log
from tests.pages import asked, parse
from tests.unit.eventlogs import logs
from tests.unit.workflow.rows import recovery

pytestmark = pytest.mark.django_db
NEEDS = ("sink", "event-log", "program", "runner", "owner")


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "home"


@pytest.fixture
def place(tmp_path: Path) -> str:
    return write_checkpoint(tmp_path)


@pytest.fixture
def events(tmp_path: Path) -> str:
    return write_event_log(tmp_path)


def signed_in(client: Client, role: str) -> Client:
    client.force_login(user := factories.person(role))
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session["account_authentication_methods_user"] = str(user.pk)
    session.save()
    return client


def values(answer: Any, prefix: str) -> dict[str, str]:
    found = re.findall(rf'data-code="{prefix}([\w-]+)" data-value="([^"]*)"', answer.content.decode())
    return dict(found)


def look(client: Client, place: str) -> Any:
    return client.get(reverse("stream-add"), {"checkpoint": place})


def add(client: Client, place: str, **said: str) -> Any:
    return client.post(reverse("stream-add"), {"checkpoint": place, **said})


def test_a_checkpoint_is_read_and_what_is_missing_is_asked_in_the_order_of_use(
    responder: Client, place: str
) -> None:
    assert b'name="checkpoint"' in responder.get(reverse("stream-add")).content
    answer = look(responder, place)
    assert (answer.status_code, tuple(values(answer, "need-"))) == (200, NEEDS)
    assert set(values(answer, "need-").values()) == {"pending"}
    page = answer.content.decode()
    assert logs.QUERY in page.replace("<wbr>", "")
    assert not Stream.objects.exists()


def test_it_is_added_and_opened_and_what_was_said_is_not_asked_again(
    responder: Client, place: str, events: str
) -> None:
    answer = add(responder, place, name="shop", event_log=events, owner="Team shop-core")
    flow = Flow.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, reverse("flow", args=[flow.pk]))
    assert (flow.state, flow.name) == ("failed", "shop")
    entry = AuditEntry.objects.get(action="stream.adopt")
    assert (entry.outcome, entry.via) == ("done", "page")
    answer = responder.get(reverse("stream-edit", args=[flow.pk]))
    assert values(answer, "need-") == {
        "sink": "ok", "event-log": "ok", "program": "pending", "runner": "pending", "owner": "ok",
    }  # fmt: skip
    page = answer.content.decode()
    assert all(f'value="{text}"' in page for text in (events, "Team shop-core", "shop", "/out"))
    assert b'data-code="adopted"' in responder.get(reverse("flow", args=[flow.pk])).content


def test_what_is_said_later_changes_the_one_stream(responder: Client, place: str, tmp_path: Path) -> None:
    add(responder, place)
    program = tmp_path / "data" / "orders.py"
    program.write_text("")
    edit = reverse("stream-edit", args=[Flow.objects.get().pk])
    answer = responder.post(
        edit, {"program": str(program), "arguments": "--in=/a b\n--once", "name": "orders"}
    )
    assert answer.status_code == 302
    stream = Stream.objects.get()
    assert (stream.program, stream.arguments) == (str(program), ["--in=/a b", "--once"])


@pytest.mark.parametrize(
    ("wrong", "status"), [("/nowhere", 422), ("relative", 422), ("/etc", 422), ("http://x/y", 422), ("", 200)]
)
def test_what_is_no_checkpoint_is_said_in_the_field_that_begins_the_page(
    responder: Client, wrong: str, status: int
) -> None:
    for answer in (look(responder, wrong), add(responder, wrong)):
        assert answer.status_code == status
        assert b'id="ck"' in answer.content
    assert not Stream.objects.exists()


def test_what_was_typed_stays_where_it_is_refused(responder: Client, place: str, tmp_path: Path) -> None:
    answer = add(responder, place, program=str(tmp_path / "data" / "no.py"), owner="Team <b>")
    assert answer.status_code == 422
    assert b"Team &lt;b&gt;" in answer.content
    assert not Stream.objects.exists()


def test_commands_are_an_admins_and_a_responders_are_not_even_taken(client: Client, place: str) -> None:
    words = shlex.join([sys.executable, "-c", ""])
    said = {"runner": "command", "start": words, "running": words, "environment": "production"}
    answer = look(signed_in(client, "responder"), place)
    assert b'data-code="no-commands"' in answer.content
    add(client, place, **said)
    assert (Stream.objects.get().runner, Stream.objects.get().start) == ("by-hand", [])
    admin = signed_in(Client(), "admin")
    edit = reverse("stream-edit", args=[Flow.objects.get().pk])
    assert admin.post(edit, said).status_code == 302
    stream = Stream.objects.get()
    assert (stream.runner, stream.running) == ("command", shlex.split(words))
    client.post(edit, {"name": "again"})
    assert Stream.objects.get().start == shlex.split(words)


def test_an_admin_who_left_the_screen_is_asked_before_commands_are_taken(client: Client, place: str) -> None:
    client.force_login(factories.person("admin"))
    answer = add(client, place, runner="command", start="true", running="true")
    assert answer["Location"].startswith(reverse("reauthenticate"))
    assert not Stream.objects.exists()


def test_a_weaker_environment_is_an_admins_to_give(client: Client, place: str) -> None:
    assert add(signed_in(client, "responder"), place, environment="development").status_code == 403
    assert not Stream.objects.exists()


def test_a_page_runs_no_command(client: Client, place: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    words = shlex.join([sys.executable, "-c", f"open({str(mark)!r}, 'w')"])
    admin = signed_in(client, "admin")
    add(admin, place, runner="command", start=words, stop=words, running=words)
    flow = Flow.objects.get()
    for name in ("flow", "stream-edit", "flow-events", "flow-code", "flow-checkpoint"):
        assert admin.get(reverse(name, args=[flow.pk])).status_code == 200, name
    assert not mark.exists()


def test_signs_and_the_answer_of_the_command_stand_on_the_flows_page(
    client: Client, place: str, events: str
) -> None:
    admin = signed_in(client, "admin")
    add(admin, place, event_log=events, runner="command", start="true", running="true")
    os.rename(events, f"{events}-away")  # noqa: PTH104
    from recovery.pipelines.inventory import refresh
    from recovery.streams import running

    running.keep_answer(Stream.objects.get(), running.RunningStatus.RUNNING)
    refresh(workspace_id=Stream.objects.get().pipeline.workspace_id)
    page = admin.get(reverse("flow", args=[Flow.objects.get().pk])).content.decode()
    assert 'data-code="event_logs_gone"' in page
    assert 'data-code="runs"' in page


def only_in_development(client: Client) -> Client:
    signed_in(client, "none")
    person = Person.objects.get(user__username="none")
    RoleIn.objects.create(person=person, environment="development", role=Role.RESPONDER)
    return client


def test_what_is_said_of_a_stream_is_kept_from_who_may_not_recover_it(client: Client, place: str) -> None:
    said = {"runner": "command", "start": "launch --key=k1", "running": "true", "owner": "Team shop-core"}
    add(signed_in(client, "admin"), place, **said)
    answer = look(only_in_development(Client()), place)
    assert answer.status_code == 403
    assert not any(text in answer.content for text in (b"k1", b"shop-core"))
    assert AuditEntry.objects.filter(action="stream.adopt", outcome="denied", actor="none").count() == 1


@pytest.mark.parametrize("spelled", ["{}/.", "{}/../_checkpoint", "linked"])
def test_what_was_said_is_not_asked_again_however_the_place_is_spelled(
    responder: Client, place: str, tmp_path: Path, spelled: str
) -> None:
    add(responder, place, owner="Team shop-core")
    (tmp_path / "linked").symlink_to(place)
    answer = look(responder, str(tmp_path / "linked") if spelled == "linked" else spelled.format(place))
    assert (answer.status_code, values(answer, "need-")["owner"]) == (200, "ok")
    assert reverse("stream-edit", args=[Flow.objects.get().pk]) in answer.content.decode()


def test_of_several_workspaces_one_is_chosen_and_never_asked_again(responder: Client, place: str) -> None:
    for name in ("streams-eu", "streams-us"):
        Workspace.objects.create(name=name, kind="streams", environment="production")
    begin = responder.get(reverse("stream-add")).content
    assert all(text in begin for text in (b'name="workspace"', b"streams-eu", b"streams-us"))
    answer = look(responder, place)
    assert (answer.status_code, b'name="workspace"' in answer.content) == (422, True)
    answer = responder.get(reverse("stream-add"), {"checkpoint": place, "workspace": "streams-us"})
    assert (answer.status_code, b'value="streams-us"' in answer.content) == (200, True)
    assert add(responder, place, workspace="streams-us").status_code == 302
    stream = Stream.objects.get()
    assert stream.pipeline.workspace.name == "streams-us"
    edit = reverse("stream-edit", args=[stream.pipeline.flows.get().pk])
    assert responder.get(edit).status_code == 200
    assert responder.post(edit, {"owner": "Team shop-core"}).status_code == 302
    assert look(responder, place).status_code == 200


def test_one_workspace_is_not_asked_for(responder: Client) -> None:
    assert b'name="workspace"' not in responder.get(reverse("stream-add")).content


def test_what_is_named_is_read_before_it_is_added(responder: Client, place: str, events: str) -> None:
    said = {"event_log": events, "owner": "Team <b>", "arguments": "--once"}
    answer = add(responder, place, look="1", **said)
    assert (answer.status_code, Stream.objects.exists()) == (200, False)
    needs = values(answer, "need-")
    assert (needs["event-log"], needs["sink"], needs["owner"]) == ("ok", "ok", "ok")
    page = answer.content.decode()
    assert all(f'id="has-{name}"' in page for name in NEEDS)
    assert all(text in page for text in ("Team &lt;b&gt;", "--once", "/out"))
    answer = add(responder, place, look="1", event_log="/nowhere/at/all")
    assert (answer.status_code, values(answer, "need-")["event-log"]) == (200, "failed")


def test_a_link_fills_in_no_words_that_somebody_else_would_confirm(client: Client, place: str) -> None:
    said = {"checkpoint": place, "start": "launch --mine", "running": "launch --ask", "runner": "command"}
    answer = signed_in(client, "admin").get(reverse("stream-add"), said)
    assert (answer.status_code, b'value="launch' in answer.content) == (200, False)


@pytest.mark.parametrize(("role", "may"), [("responder", True), ("viewer", False)])
@pytest.mark.parametrize("has_workspace", [True, False])
def test_the_empty_list_leads_to_the_first_stream_who_may_add_one(
    client: Client, role: str, may: bool, has_workspace: bool
) -> None:
    if has_workspace:
        factories.workspace()
    page = signed_in(client, role).get(reverse("inventory")).content.decode()
    assert ('data-code="add-a-stream"' in page) is may
    assert (f'<a class="btn" href="{reverse("stream-add")}">' in page) is may


def test_a_stream_whose_table_is_not_known_is_not_said_to_write_one(responder: Client, place: str) -> None:
    add(responder, place)
    page = responder.get(reverse("flow", args=[Flow.objects.get().pk])).content
    assert b'data-code="no-dataset"' in page
    assert b"<code></code>" not in page


@pytest.mark.parametrize("has_log", [False, True])
def test_a_stream_that_no_poll_can_see_leads_to_naming_its_event_log(
    responder: Client, place: str, events: str, has_log: bool
) -> None:
    add(responder, place, **({"event_log": events} if has_log else {}))
    flow = Flow.objects.get()
    page = asked(responder, f"/flows/{flow.pk}")
    assert ("name-event-log" in page.codes) is not has_log


@pytest.mark.parametrize("has_log", [False, True])
def test_an_event_log_is_not_said_to_know_a_query_where_none_was_read(
    responder: Client, place: str, events: str, has_log: bool
) -> None:
    sent = {"checkpoint": place, "look": "1", **({"event_log": events} if has_log else {})}
    page = parse(responder.post(reverse("stream-add"), sent).content.decode())
    assert ("in-event-log" in page.codes) is has_log


OF_A_PIPELINE = re.compile(r"\b(pipelines?|updates?)\b", re.I)
"""What a plain stream is not, and what it does not run."""
ON_EVERY_STREAM = ("flow_definition", "flow_progress", "stream_progress", "update_progress")
"""Types of events are called so everywhere."""


@pytest.mark.parametrize(
    "path",
    [
        "/flows/{flow}", "/flows/{flow}/checkpoint", "/flows/{flow}/events", "/flows/{flow}/code",
        "/flows/{flow}/recoveries", "/flows/{flow}/stream", "/recoveries/{recovery}/diagnose",
        "/recoveries/{recovery}/stop", "/recoveries/{recovery}/offset", "/recoveries/{recovery}/patch",
        "/recoveries/{recovery}/review", "/recoveries/{recovery}/run", "/recoveries/{recovery}/verify",
        "/recoveries/{recovery}/cancel", "/recoveries/{recovery}/report", "/pipelines/{pipeline}",
    ],
)  # fmt: skip
def test_no_page_of_a_plain_stream_speaks_of_a_pipeline_or_an_update(
    client: Client, place: str, events: str, path: str
) -> None:
    add(signed_in(client, "admin"), place, event_log=events, runner="by-hand", name="orders")
    flow = Flow.objects.get()
    opened = recovery("diagnosing", flow=flow)
    text = read_words(client.get(path.format(flow=flow.pk, pipeline=flow.pipeline_id, recovery=opened.pk)))
    assert "orders" in text
    assert OF_A_PIPELINE.findall(text) == []


def read_words(answer: Any) -> str:
    """What a person reads on the page, without its header and the types of events."""
    page = answer.content.decode().replace("<wbr>", "")
    shown = page[page.index("<main") : page.index("</main>")]
    text = re.sub(r"<[^>]+>", " ", shown)
    for kind in ON_EVERY_STREAM:
        text = text.replace(kind, "")
    return text
