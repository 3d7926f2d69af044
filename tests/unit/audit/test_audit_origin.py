"""Where an act comes from: request, task, session, address, and the person behind a task."""

from typing import Any

import pytest
from celery import current_app
from django.test import RequestFactory

from console.celery import HEADER, bind_request_id, send_request_id, unbind_request_id
from recovery import trace
from recovery.audit import origin, tasks
from recovery.audit.actions import append_entry
from recovery.audit.origin import ActOrigin, acting_from, client_address
from recovery.models import AuditEntry, Token, TokenSighting
from recovery.people.actions import actor_for_token
from recovery.people.roles import SYSTEM, Actor, AnonymousActor, Role
from tests import factories as f
from tests.unit.people.run import run_json, token_of

ADA = Actor("ada", Role.RESPONDER, via="page")


@pytest.mark.parametrize(
    ("peer", "forwarded", "proxies", "expected"),
    [
        ("192.0.2.1", "", 0, "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9", 0, "192.0.2.1"),
        ("10.0.0.1", "203.0.113.9", 1, "203.0.113.9"),
        ("10.0.0.1", "6.6.6.6, 203.0.113.9", 1, "203.0.113.9"),
        ("10.0.0.1", "6.6.6.6, 203.0.113.9, 10.0.0.2", 2, "203.0.113.9"),
        ("10.0.0.1", "203.0.113.9", 2, "10.0.0.1"),
        ("10.0.0.1", "<script>", 1, ""),
        ("10.0.0.1", "", 1, ""),
        ("2001:db8::0:1", "", 0, "2001:db8::1"),
        ("", "", 0, ""),
    ],
)
def test_only_what_our_own_proxies_wrote_is_believed(
    peer: str, forwarded: str, proxies: int, expected: str
) -> None:
    meta = RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded).META
    assert client_address(meta, proxies) == expected


@pytest.mark.django_db
class TestEntries:
    def test_an_entry_says_where_it_came_from(self) -> None:
        keys = iter(["", "k" * 32])
        source = ActOrigin("task-7", "192.0.2.1", lambda: next(keys))
        with trace.bound("req-7"), acting_from(source):
            before = append_entry(action="session.sign_in", outcome="done", by=ADA, says="x")
            after = append_entry(action="session.sign_in", outcome="done", by=ADA, says="x")
        assert (after.request_id, after.task_id, after.address) == ("req-7", "task-7", "192.0.2.1")
        assert before.session == ""
        assert len(after.session) == 16
        assert "k" not in after.session
        assert origin.current_origin() == ActOrigin()

    def test_a_task_acts_on_behalf_of_who_asked_last(self) -> None:
        label = f.opened(f.failed_flow(f.pipeline(environment="staging"))).label
        append_entry(action="recovery.execute", outcome="done", by=ADA, recovery=label, says="x")
        append_entry(
            action="recovery.execute",
            outcome="denied",
            by=Actor("eve", Role.VIEWER),
            recovery=label,
            says="x",
        )
        append_entry(
            action="recovery.cancel",
            outcome="done",
            by=Actor("bob", Role.RESPONDER),
            recovery=label,
            says="x",
        )
        made = append_entry(action="step.run", outcome="done", by=SYSTEM, recovery=label, says="x")
        assert (made.actor, made.behalf, made.environment) == ("reprise", "ada", "staging")

    def test_nobody_stands_behind_a_person_or_a_stranger(self) -> None:
        label = f.opened(f.failed_flow()).label
        append_entry(action="recovery.open", outcome="done", by=ADA, recovery=label, says="x")
        assert (
            append_entry(action="recovery.stop", outcome="done", by=ADA, recovery=label, says="x").behalf
            == ""
        )
        assert append_entry(action="step.run", outcome="done", by=SYSTEM, says="x").behalf == ""
        assert (
            append_entry(action="token.refused", outcome="denied", by=AnonymousActor(), says="x").behalf == ""
        )


def test_the_id_of_a_request_goes_along_to_its_tasks_and_theirs() -> None:
    headers: dict[str, Any] = {}
    with trace.bound("req-9"):
        send_request_id(headers=headers)
    task = current_app.tasks[tasks.sign.name]
    task.push_request(**headers)
    try:
        bind_request_id(task_id="t-1", task=task)
        assert (trace.current(), origin.current_origin().task_id) == ("req-9", "t-1")
        again: dict[str, Any] = {}
        send_request_id(headers=again)
        assert again[HEADER] == "req-9"
        unbind_request_id(task_id="t-1")
    finally:
        task.pop_request()
    assert (trace.current(), origin.current_origin()) == ("", ActOrigin())


@pytest.mark.django_db
class TestTokens:
    def uses(self) -> list[tuple[str, str]]:
        found = AuditEntry.objects.filter(action="token.use").order_by("seq")
        return list(found.values_list("actor", "address"))

    def test_the_first_use_in_an_hour_from_an_address_is_an_entry_and_no_other(self) -> None:
        token = token_of("ada", Role.VIEWER)
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1"):
            with acting_from(ActOrigin(address=address)):
                actor_for_token(token, via="api")
        assert self.uses() == [("ada", "192.0.2.1"), ("ada", "192.0.2.2")]

    def test_the_next_hour_is_another_first_use_and_old_sightings_go(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from datetime import timedelta

        from django.utils import timezone

        token = token_of("ada", Role.VIEWER)
        actor_for_token(token, via="api")
        TokenSighting.objects.update(hour=timezone.now() - timedelta(days=3))
        actor_for_token(token, via="api")
        assert len(self.uses()) == 2
        assert TokenSighting.objects.count() == 1

    def test_a_refused_token_is_an_entry_and_no_use(self) -> None:
        token_of("ada", Role.VIEWER)
        Token.objects.update(sha256="0" * 64)
        from recovery.errors import Denied

        with pytest.raises(Denied):
            actor_for_token("rp_wrong", via="api")
        assert self.uses() == []
        assert AuditEntry.objects.filter(action="token.refused").count() == 1

    def test_all_that_one_command_does_has_one_id(self, monkeypatch: pytest.MonkeyPatch) -> None:
        code, _ = run_json(monkeypatch, token_of("ada", Role.AUDITOR), "audit", "export")
        assert code == 0
        used, exported = AuditEntry.objects.filter(request_id__startswith="cmd-").order_by("seq")
        assert (used.action, exported.action) == ("token.use", "audit.export")
        assert used.request_id == exported.request_id
