"""What happens in the house is announced: by the engine, the poller and the audit log, in their own transactions."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.urls import resolve
from django.utils import timezone

from console.celery import app
from recovery.audit import guard
from recovery.audit.actions import append_entry
from recovery.audit.log_operations import verify_chain
from recovery.errors import Refused
from recovery.models import AuditEntry, Message, Step, Workspace
from recovery.notify.actions import announce_event
from recovery.notify.events import EVENTS
from recovery.people.roles import SYSTEM, Actor, Role
from recovery.pipelines import inventory
from recovery.pipelines.inventory import refresh
from recovery.workflow import actions, broker, engine
from recovery.workflow.moves import move
from tests import factories as f
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.stub import serving
from tests.unit.workflow.rows import RESPONDER, plan, recovery

pytestmark = pytest.mark.django_db
FLOW = "main.shop.orders_flow"


def told() -> list[str]:
    return list(Message.objects.order_by("pk").values_list("event", flat=True))


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)


@pytest.mark.parametrize(
    ("old", "new", "event"),
    [
        ("running", "needs_attention", ["recovery.needs_attention"]),
        ("verifying", "succeeded", ["recovery.succeeded"]),
        ("needs_attention", "rolled_back", ["recovery.rolled_back"]),
        ("unproven", "rolled_back", ["recovery.rolled_back"]),
        ("running", "verifying", []),
        ("planned", "diagnosing", []),
        ("planned", "cancelled", []),
    ],
)
def test_a_move_is_told_where_people_want_to_know(old: str, new: str, event: list[str]) -> None:
    row = recovery(state=old)

    proof = {"measured": {"verified": True}} if new == "succeeded" else {}

    reason = "The disk is full."
    move(row, new, reason=reason, **proof)

    assert told() == event
    assert all(m.body["facts"]["reason"] == reason for m in Message.objects.all())


def test_a_move_that_somebody_else_was_faster_with_is_not_told() -> None:
    row = recovery(state="running")
    stale = type(row).objects.get(pk=row.pk)
    move(row, "needs_attention")

    with pytest.raises(Refused):
        move(stale, "needs_attention")

    assert told() == ["recovery.needs_attention"]


@pytest.mark.usefixtures("no_broker")
def test_a_start_and_each_resume_are_told_with_who_did_it() -> None:
    row = recovery(state="planned")
    plan(row, "patch", "verify")
    actions.execute(recovery_id=row.pk, by=RESPONDER)
    row.refresh_from_db()
    for _ in range(2):
        Step.objects.filter(pk=row.steps.first().pk).update(state="failed")  # type: ignore[union-attr]
        row.refresh_from_db()
        move(row, "needs_attention")
        actions.execute(recovery_id=row.pk, by=RESPONDER)

    assert told() == ["recovery.started", *["recovery.needs_attention", "recovery.started"] * 2]
    assert {m.body["facts"]["by"] for m in Message.objects.filter(event="recovery.started")} == {"ada"}


def test_a_step_that_became_unknown_is_told_once() -> None:
    row = recovery(state="running")
    plan(row, "patch")
    step = row.steps.get()
    Step.objects.filter(pk=step.pk).update(state="running", heartbeat_at=timezone.now())
    step, twin = (Step.objects.get(pk=step.pk) for _ in range(2))

    assert engine.to_unknown(step, "Silent.") is True
    assert engine.to_unknown(twin, "Again.") is False

    assert told() == ["recovery.needs_attention"]


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    with serving(api) as stub:
        api.url = stub.url  # type: ignore[attr-defined]
        yield api


def test_a_failure_is_told_once_until_the_flow_has_completed_again(
    api: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REPRISE_OUTBOUND_ALLOW = "127.0.0.1"  # where this workspace's API listens
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    place = Workspace.objects.create(
        name="here", url=api.url, token_ref="env:INVENTORY_TOKEN", environment="staging"
    )
    shop = api.add("p1", "shop")
    seen = []
    for number, state in enumerate(
        ["COMPLETED", "FAILED", "FAILED", "STOPPED", "FAILED", "COMPLETED", "FAILED"]
    ):
        shop.run(f"u{number}", {FLOW: state}, {"STOPPED": "CANCELED"}.get(state, state))
        refresh(workspace_id=place.pk)
        refresh(workspace_id=place.pk)
        seen.append(len(told()))

    assert seen == [0, 1, 1, 1, 1, 1, 2]
    first = Message.objects.earliest("pk")
    assert (first.event, first.environment, first.recovery) == ("flow.failed", "staging", "")
    assert {"orders_flow", "staging"} <= set(str(first.body["title"]).split())
    assert str(first.body["link"]).startswith("/flows/")


def test_a_failure_whose_time_nobody_knows_is_told_once_for_each_update() -> None:
    flow = f.failed_flow(f.pipeline())
    for update in ("u1", "u1", "u2"):
        type(flow).objects.filter(pk=flow.pk).update(failing_since=None, failed_update=update)
        inventory._announce_failure(flow.pk)

    assert told() == ["flow.failed"] * 2


AUDITOR = Actor("aud", Role.AUDITOR)


def test_a_broken_chain_is_told_once_for_each_first_problem() -> None:
    append_entry(action="recovery.open", outcome="done", by=SYSTEM, says="One.")
    verify_chain(by=AUDITOR)
    assert told() == []
    guard.remove_triggers(connection)
    AuditEntry.objects.update(says="Two.")
    for _ in range(2):
        verify_chain(by=AUDITOR)

    assert told() == ["audit.broken"]
    found = verify_chain(by=AUDITOR)["problems"][0]
    assert found["code"] == "entry_changed"
    assert Message.objects.get().body["facts"]["problem"] == found["says"]


def test_what_beat_wakes_is_known_to_the_workers(settings: Any) -> None:
    app.loader.import_default_modules()

    woken = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert woken <= set(app.tasks)
    assert "recovery.notify.tasks.sweep" in woken


@pytest.mark.parametrize("event", EVENTS)
def test_every_message_leads_to_a_page_that_is_there(event: str) -> None:
    about = {} if event.startswith(("audit", "channel")) else {"recovery": f.planned()}
    facts = {"decision": "approved"}

    message = announce_event(event=event, facts=facts, dedupe="1", **about)  # type: ignore[arg-type]

    assert message is not None
    assert resolve(message.body["link"])
