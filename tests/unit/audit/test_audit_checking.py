"""The check that is asked for on a page: done by a worker, once, one at a time, whatever dies in between."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.utils import timezone

from recovery.audit import checking, log_operations, tasks
from recovery.errors import Denied, Refused, Unreachable
from recovery.models import AskedCheck, AuditCheck, AuditEntry
from recovery.people.roles import Actor
from recovery.workflow import broker
from tests.refusals import refused

pytestmark = pytest.mark.django_db
Capture = Callable[..., Any]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The wake-ups that went to a broker that always answers."""
    found: list[int] = []
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(tasks.check_asked, "delay", found.append)
    return found


def codes() -> list[str]:
    return [e.code for e in AuditEntry.objects.filter(action__startswith="audit.").order_by("seq")]


def test_a_worker_is_woken_after_the_commit_and_leaves_the_result_in_the_name_of_who_asked(
    write: Callable[[int], None], sent: list[int], auditor: Actor, django_capture_on_commit_callbacks: Capture
) -> None:
    write(3)
    with django_capture_on_commit_callbacks(execute=True):
        checking.request_check(by=auditor)
        assert sent == []
    assert sent == [1]
    assert AuditCheck.objects.count() == 0, "nothing is read where it is asked for"

    tasks.check_asked(1)

    result = AuditCheck.objects.get()
    assert (result.ok, result.by, result.entries) == (True, "auditor", 4)
    row = AskedCheck.objects.get()
    assert (row.result, row.read, row.total, row.problem) == (result, 4, 4, "")
    done = AuditEntry.objects.get(action="audit.verify")
    assert (done.actor, done.behalf, done.outcome) == ("reprise", "auditor", "done")
    assert codes() == ["audit.ask.done", "audit.verify.done"]


def test_a_wake_up_that_comes_twice_or_late_does_nothing(
    write: Callable[[int], None], sent: list[int], auditor: Actor
) -> None:
    write(1)
    checking.request_check(by=auditor)
    assert checking.run_check(1) is True
    assert checking.run_check(1) is False
    checking.request_check(by=auditor)
    assert checking.run_check(1) is False
    assert AuditCheck.objects.count() == 1


def test_a_second_check_is_refused_while_one_waits_or_reads(
    write: Callable[[int], None], sent: list[int], auditor: Actor
) -> None:
    write(1)
    checking.request_check(by=auditor)
    for _ in ("waiting", "reading"):
        with refused("checked_already", Refused, names=("auditor",)):
            checking.request_check(by=auditor)
        AskedCheck.objects.update(alive_at=timezone.now())
    assert checking.check_daily() is False
    assert codes() == ["audit.ask.done", "audit.ask.failed", "audit.ask.failed"]


def test_the_daily_check_keeps_others_waiting_too(
    write: Callable[[int], None], sent: list[int], auditor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1)
    inside, check_chain = [], log_operations.check_chain

    def slow(**given: Any) -> dict[str, Any]:
        with refused("checked_already", Refused, names=("reprise",)):
            checking.request_check(by=auditor)
        inside.append(1)
        return check_chain(**given)

    monkeypatch.setattr(log_operations, "check_chain", slow)
    assert checking.check_daily() is True
    assert inside == [1]
    assert AuditEntry.objects.get(action="audit.verify").behalf == ""


def test_who_may_not_read_the_log_has_nothing_checked(sent: list[int], viewer: Actor) -> None:
    with pytest.raises(Denied):
        checking.request_check(by=viewer)
    assert codes() == ["audit.ask.denied"]
    assert not AskedCheck.objects.exists()


def test_without_a_broker_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, auditor: Actor) -> None:
    def away() -> None:
        raise Unreachable("The broker does not answer.")

    monkeypatch.setattr(broker, "check", away)
    with pytest.raises(Unreachable):
        checking.request_check(by=auditor)
    assert not AskedCheck.objects.exists()


def test_it_says_how_far_it_is(
    write: Callable[[int], None], sent: list[int], auditor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recovery.audit import verifying

    write(5)
    monkeypatch.setattr(verifying, "STRIDE", 2)
    monkeypatch.setattr(checking, "EACH", 0.0)
    checking.request_check(by=auditor)
    seen, update = [], checking._Progress.note

    def note(self: Any, entries: int) -> None:
        update(self, entries)
        seen.append(AskedCheck.objects.values_list("read", "total").get())

    monkeypatch.setattr(checking._Progress, "note", note)
    checking.run_check(1)
    assert seen == [(2, 6), (4, 6), (6, 6)]


def test_an_error_ends_the_check_says_so_and_lets_another_begin(
    write: Callable[[int], None], sent: list[int], auditor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(**_: Any) -> None:
        raise OSError("disk")

    write(1)
    checking.request_check(by=auditor)
    with monkeypatch.context() as patched:
        patched.setattr(log_operations, "check_chain", torn)
        with pytest.raises(OSError, match="disk"):
            checking.run_check(1)
    row = checking.newest_check_request()
    assert row is not None
    assert "(OSError)" in row.problem
    assert row.problem.endswith("found out.")
    assert codes() == ["audit.ask.done", "audit.verify.failed"]
    checking.request_check(by=auditor)
    assert checking.run_check(2) is True


@pytest.mark.parametrize("by_beat", [True, False])
def test_a_lost_worker_is_written_down_once_and_another_check_may_begin(
    write: Callable[[int], None], sent: list[int], auditor: Actor, by_beat: bool
) -> None:
    write(1)
    checking.request_check(by=auditor)
    AskedCheck.objects.update(alive_at=timezone.now() - checking.SILENCE - timedelta(seconds=1))
    assert checking.is_open(checking.newest_check_request(), timezone.now()) is False
    if by_beat:
        checking.tend_check_requests()
        checking.tend_check_requests()
    checking.request_check(by=auditor)
    lost = AuditEntry.objects.get(action="audit.verify")
    assert (lost.outcome, lost.behalf, lost.says) == ("failed", "auditor", checking.LOST)
    assert checking.run_check(1) is False, "the lost worker's late wake-up has no right any more"


def test_a_lost_wake_up_is_given_again_and_a_fresh_one_is_not(
    write: Callable[[int], None], sent: list[int], auditor: Actor, django_capture_on_commit_callbacks: Capture
) -> None:
    write(1)
    checking.request_check(by=auditor)
    with django_capture_on_commit_callbacks(execute=True):
        checking.tend_check_requests()
    assert sent == []
    AskedCheck.objects.update(at=timezone.now() - checking.FORGOTTEN - timedelta(seconds=1))
    with django_capture_on_commit_callbacks(execute=True):
        checking.tend_check_requests()
    assert sent == [1]


def test_the_check_has_the_queue_of_long_questions() -> None:
    routes = current_app.conf.task_routes
    assert routes["recovery.audit.tasks.check_asked"] == routes["recovery.audit.tasks.verify_daily"]
