"""A refresh of what is below a flow, outside of any recovery: who may, what it selects, and that it starts once."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from recovery.errors import Denied, Refused
from recovery.models import AuditEntry, Flow
from recovery.people.roles import Actor, Role
from recovery.workflow import broker, refreshing
from recovery.workflow.refreshing import BelowRefresh, RefreshPhase
from tests import factories as f
from tests.unit.pages.reading import signed_in, text
from tests.unit.pipelines.stub import Answer, Asked, Stub, serving
from tests.unit.workflow.rows import RESPONDER

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would be sent to workers."""
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(broker, "send_on_commit", lambda task, *args: sent.append((task.name, *args)))
    return sent


class Server:
    """Answers a start; keeps what was asked for."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.answer = Answer(200, {"update_id": "u-9"}, {"Content-Type": "application/json"})

    def __call__(self, asked: Asked) -> Answer:
        self.bodies.append(asked.body)
        return self.answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Stub]]:
    monkeypatch.setenv("REFRESHING_TOKEN", "rp_x")
    api = Server()
    with serving(api) as stub:
        yield api, stub


def graph(stub: Stub | None = None) -> Flow:
    """A flow that is ok, over an empty view, a stale table, and a stale view of another pipeline."""
    place = f.workspace(url=stub.url, token_ref="env:REFRESHING_TOKEN") if stub else f.workspace()
    own, other = f.pipeline(place), f.pipeline(place, "sales")
    source = f.flow(own)
    late = {"behind_since": f.ago(minutes=5)}
    f.view(own, inputs=[source.dataset], state="empty", behind_why="emptied", **late)
    f.flow(
        own, "copy", inputs=[source.dataset], flow_type="APPEND", state="stale", behind_why="left_out", **late
    )
    f.view(own, "fine", inputs=[source.dataset])
    f.view(other, "report", inputs=[source.dataset], state="stale", behind_why="renewed", **late)
    return source


def names(flows: tuple[Flow, ...]) -> list[str]:
    return sorted(flow.short for flow in flows)


def test_it_selects_what_is_late_in_the_own_pipeline() -> None:
    late = refreshing.late_below(graph())
    assert (names(late.flows), names(late.rewritten), names(late.elsewhere)) == (
        ["copy", "customers"],
        [],
        ["report"],
    )


@pytest.mark.parametrize(("good_at", "left_out"), [(None, True), (60, True), (1, False)])
def test_a_table_whose_stream_would_read_rows_twice_is_left_out(good_at: int | None, left_out: bool) -> None:
    source = graph()
    Flow.objects.filter(pk=source.pk).update(renewed_at=f.ago(minutes=10))
    Flow.objects.filter(short="copy").update(good_at=f.ago(minutes=good_at) if good_at else None)
    assert names(refreshing.late_below(source).rewritten) == (["copy"] if left_out else [])


def test_it_is_started_once_and_audited_for_who_asked(
    server: tuple[Server, Stub], no_broker: list[tuple[Any, ...]]
) -> None:
    api, stub = server
    source = graph(stub)
    refreshing.request_refresh(flow_id=source.pk, by=RESPONDER)
    ((_, flow_id, ticket),) = no_broker
    for _ in range(2):  # a wake-up may come twice
        refreshing.carry_out(flow_id, ticket)
    assert [sorted(body["refresh_selection"]) for body in api.bodies] == [
        ["spark_catalog.crm.copy", "spark_catalog.crm.customers"]
    ]
    source.refresh_from_db()
    kept = BelowRefresh.from_json(source.below_refresh)
    assert kept is not None
    assert (kept.phase, kept.update_id, kept.by) == (RefreshPhase.STARTED, "u-9", RESPONDER.name)
    told = AuditEntry.objects.filter(action__startswith="flow.").order_by("pk")
    assert [(e.action, e.outcome, e.behalf) for e in told] == [
        ("flow.ask_refresh", "done", ""), ("flow.refresh", "done", RESPONDER.name),
    ]  # fmt: skip
    page = text(signed_in(f.person("responder", "again")), reverse("flow", args=[source.pk]))
    assert 'data-code="refresh-asked"' in page


@pytest.mark.parametrize(
    ("status", "phase", "outcome"),
    [(409, RefreshPhase.REFUSED, "failed"), (502, RefreshPhase.SENT, "unknown")],
)
def test_a_start_that_fails_or_is_lost_is_kept_as_what_it_was(
    server: tuple[Server, Stub],
    no_broker: list[tuple[Any, ...]],
    status: int,
    phase: RefreshPhase,
    outcome: str,
) -> None:
    api, stub = server
    api.answer = Answer(status, {"error_code": "X", "message": "no"}, {"Content-Type": "application/json"})
    source = graph(stub)
    refreshing.request_refresh(flow_id=source.pk, by=RESPONDER)
    refreshing.carry_out(*no_broker[0][1:])
    source.refresh_from_db()
    kept = BelowRefresh.from_json(source.below_refresh)
    assert kept is not None
    assert (kept.phase, kept.update_id, bool(kept.problem)) == (phase, "", True)
    assert AuditEntry.objects.get(action="flow.refresh").outcome == outcome


def _failing(source: Flow) -> None:
    Flow.objects.filter(pk=source.pk).update(state="failed")


def _recovering(source: Flow) -> None:
    f.planned(f.failed_flow(source.pipeline))


def _fine(source: Flow) -> None:
    Flow.objects.exclude(pk=source.pk).update(state="ok")


def _asked(source: Flow) -> None:
    refreshing.request_refresh(flow_id=source.pk, by=RESPONDER)


@pytest.mark.parametrize(
    ("before", "code"),
    [(_failing, "failing"), (_recovering, "recovering"), (_fine, "nothing_below"), (_asked, "already_asked")],
)
def test_where_it_is_not_the_way_it_is_refused(
    before: Any, code: str, no_broker: list[tuple[Any, ...]]
) -> None:
    source = graph()
    before(source)
    sent = len(no_broker)
    with pytest.raises(Refused) as refused:
        refreshing.request_refresh(flow_id=source.pk, by=RESPONDER)
    assert (refused.value.code, len(no_broker)) == (code, sent)


def test_a_viewer_may_not_and_is_told_so_at_the_button(client: Client) -> None:
    source = graph()
    with pytest.raises(Denied):
        refreshing.request_refresh(flow_id=source.pk, by=Actor("vera", Role.VIEWER))
    assert AuditEntry.objects.get(action="flow.ask_refresh").outcome == "denied"
    page = text(signed_in(f.person("viewer")), reverse("flow", args=[source.pk]))
    assert 'data-code="refresh-below"' in page
    assert re.search(r'value="below"[^>]* disabled', page)


def test_the_button_asks_and_the_page_says_that_it_waits() -> None:
    source = graph()
    browser, address = signed_in(f.person("responder")), reverse("flow", args=[source.pk])
    assert browser.post(address, {"act": "below"}).status_code == 302
    assert BelowRefresh.from_json(Flow.objects.get(pk=source.pk).below_refresh).waits  # type: ignore[union-attr]
    assert browser.post(address, {"act": "below"}).status_code == 409


def test_a_stream_over_a_table_that_another_pipeline_wrote_again_is_left_out() -> None:
    source = graph()
    other = Flow.objects.get(short="report").pipeline
    rates = f.flow(other, "rates_flow", state="ok", renewed_at=f.ago(minutes=10))
    Flow.objects.filter(short="copy").update(
        inputs=[source.dataset, rates.dataset], behind_why="renewed", good_at=f.ago(minutes=60)
    )
    assert "copy" in names(refreshing.late_below(source).rewritten)


@pytest.mark.parametrize("since", ["late", "renewed", "recovery", "failed"])
def test_a_request_that_no_longer_holds_starts_nothing(
    server: Any, no_broker: list[tuple[Any, ...]], since: str
) -> None:
    api, stub = server
    source = graph(stub)
    refreshing.request_refresh(flow_id=source.pk, by=RESPONDER)
    source.refresh_from_db()
    if since == "late":
        asked = {**source.below_refresh, "at": f.ago(minutes=180).isoformat()}
        Flow.objects.filter(pk=source.pk).update(below_refresh=asked)
    elif since == "renewed":
        Flow.objects.filter(pk=source.pk).update(renewed_at=f.ago(minutes=10))
        Flow.objects.filter(short="copy").update(good_at=f.ago(minutes=60))
    elif since == "recovery":
        f.planned(f.failed_flow(source.pipeline))
    else:
        Flow.objects.filter(pk=source.pk).update(state="failed")

    refreshing.carry_out(*no_broker[0][1:])

    assert api.bodies == []
    source.refresh_from_db()
    assert BelowRefresh.from_json(source.below_refresh).phase is RefreshPhase.REFUSED  # type: ignore[union-attr]
