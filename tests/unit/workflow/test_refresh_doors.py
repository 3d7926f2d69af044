"""Refreshing what is below by command and by API: through the function and the rights of the page."""

import json
from typing import Any

import pytest
from django.test import Client

from recovery.models import AuditEntry, Flow
from recovery.people.roles import Role
from recovery.pipelines import find
from recovery.workflow import broker, refreshing
from recovery.workflow.refreshing import BelowRefresh, RefreshPhase
from tests import factories as f
from tests.unit.pages.conftest import static_files  # noqa: F401  (a fixture)
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """What would be sent to workers; nothing is polled."""
    found: list[tuple[int, str]] = []
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(broker, "send_on_commit", lambda task, *args: found.append(args))
    monkeypatch.setattr(find, "refresh", lambda **named: None)
    return found


@pytest.fixture
def source() -> Flow:
    """A flow that is ok over an empty view; another one of its pipeline with nothing late below."""
    own = f.pipeline(name="crm")
    source = f.flow(own)
    f.view(
        own, inputs=[source.dataset], state="empty", behind_why="emptied", behind_since=f.ago(minutes=5)
    )  # fmt: skip
    f.flow(own, "orders_flow")
    return source


def taken(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """A worker takes each request at once, and this comes of it."""

    def take(task: Any, flow_id: int, ticket: str) -> None:
        flow = Flow.objects.get(pk=flow_id)
        asked = BelowRefresh.from_json(flow.below_refresh)
        assert asked is not None
        kept = {**asked.as_json(), **changes}
        Flow.objects.filter(pk=flow_id).update(below_refresh=kept)

    monkeypatch.setattr(broker, "send_on_commit", take)


def api(method: str, path: str, body: Any = None, role: Role = Role.RESPONDER) -> tuple[int, Any]:
    answer = Client().generic(
        method,
        f"/api/v1/{path}",
        data=json.dumps(body or {}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token_of(role.value, role)}"},
    )
    return answer.status_code, json.loads(answer.content)


@pytest.mark.parametrize("named", [(), ("--flow", "customers_snapshot_flow")], ids=["the only one", "named"])
def test_the_command_names_the_update_that_was_started(
    monkeypatch: pytest.MonkeyPatch, source: Flow, named: tuple[str, ...]
) -> None:
    taken(monkeypatch, phase=RefreshPhase.STARTED.value, update_id="u-9")
    code, found = run_json(monkeypatch, token_of("ada", Role.RESPONDER), "refresh", "crm", *named)
    assert (code, found["flow"], found["phase"], found["update_id"]) == (0, source.name, "started", "u-9")
    assert found["datasets"] == ["spark_catalog.crm.customers"]
    assert AuditEntry.objects.get(action=refreshing.ASK).outcome == "done"


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({"phase": "refused", "problem": "It was refused."}, "refused"),
        ({"phase": "sent", "problem": "No answer."}, "sent"),
    ],
    ids=["refused", "not known"],
)
def test_a_start_that_did_not_come_off_is_bad_news(
    monkeypatch: pytest.MonkeyPatch, source: Flow, changes: dict[str, str], phase: str
) -> None:
    taken(monkeypatch, **changes)
    code, found = run_json(monkeypatch, token_of("ada", Role.RESPONDER), "refresh", "crm")
    assert (code, found["phase"], found["problem"]) == (1, phase, changes["problem"])


def test_a_request_that_no_worker_takes_is_no_success(monkeypatch: pytest.MonkeyPatch, source: Flow) -> None:
    token = token_of("ada", Role.RESPONDER)
    code, found = run_json(monkeypatch, token, "refresh", "crm", "--wait-seconds", "0")
    assert (code, found["error"]["code"]) == (2, "unreachable")


@pytest.mark.parametrize(
    ("role", "name", "code", "told"),
    [
        (Role.VIEWER, "crm", 1, "denied"),
        (Role.RESPONDER, "none", 2, "not_found"),
        (Role.RESPONDER, "quiet", 1, "nothing_below"),
    ],
)
def test_the_command_refuses_as_the_page_does(
    monkeypatch: pytest.MonkeyPatch, source: Flow, role: Role, name: str, code: int, told: str
) -> None:
    f.flow(f.pipeline(name="quiet"))
    found = run_json(monkeypatch, token_of("ada", role), "refresh", name)
    assert (found[0], found[1]["error"]["code"]) == (code, told)


def test_the_api_asks_and_answers_by_its_ticket(
    monkeypatch: pytest.MonkeyPatch, source: Flow, sent: list[tuple[int, str]]
) -> None:
    status, made = api("POST", "refreshes", {"pipeline": "crm"})
    ((flow_id, ticket),) = sent
    assert (status, flow_id, made["ticket"], made["phase"]) == (202, source.pk, ticket, "asked")
    assert api("POST", "refreshes", {"pipeline": "crm"})[1]["error"]["code"] == "already_asked"
    taken(monkeypatch, phase=RefreshPhase.STARTED.value, update_id="u-9")
    broker.send_on_commit(None, flow_id, ticket)  # type: ignore[arg-type]
    status, found = api("GET", f"refreshes/{ticket}", role=Role.VIEWER)
    assert (status, found["update_id"], found["flow"]) == (200, "u-9", source.name)
    assert api("GET", "refreshes/none")[0] == 404


def test_the_api_has_the_rights_of_the_page(source: Flow) -> None:
    assert api("POST", "refreshes", {"pipeline": "crm"}, Role.VIEWER)[0] == 403
    assert api("POST", "refreshes", {"pipeline": "crm", "flows": []})[0] == 400
