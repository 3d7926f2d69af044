"""The check of the whole log, daily or asked for on a page: a worker does it, one at a time, and says how far it is.

There is one row, `AskedCheck`, numbered again each time that it is asked. The row is written with the request's entry,
a worker is woken after the commit and takes the number by compare-and-set, so that a wake-up given twice does
nothing. A worker that dies in between leaves the row open: after SILENCE it counts as lost, the regular
task writes that down, and the check can be asked for again. `audit verify` on the command line reads the log itself.
"""

import logging
import time
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from recovery.audit import log_operations
from recovery.audit.actions import append_entry, audited_attempt
from recovery.errors import Refused
from recovery.models import AskedCheck, AuditEntry
from recovery.people.roles import SYSTEM, Actor, Right
from recovery.workflow import broker

log = logging.getLogger(__name__)

DAILY: Final = timedelta(hours=23)
"""After this long the log is checked again."""

SILENCE: Final = timedelta(minutes=5)
"""After this long without a sign of life, a worker that reads the log is taken for lost."""

FORGOTTEN: Final = timedelta(minutes=2)
"""A check that no worker has begun after this long is given to one again: the wake-up may have been lost."""

EACH: Final = 2.0
"""So many seconds lie at least between two notes of how far the check is."""

LOST: Final = "The worker that read the log was lost. Nothing was found out; ask for the check again."


def newest_check_request() -> AskedCheck | None:
    """The check that was asked for last, whatever its state; None where no one ever asked."""
    return AskedCheck.objects.select_related("result").first()


def is_open(check: AskedCheck | None, now: datetime) -> bool:
    """Is it waited for, or under way? Not when its worker has fallen silent."""
    return check is not None and check.ended_at is None and not _is_silent(check, now)


def _is_silent(check: AskedCheck, now: datetime) -> bool:
    return check.alive_at is not None and now - check.alive_at > SILENCE


def request_check(*, by: Actor) -> AskedCheck:
    """Have a worker check the whole log. Raises Denied, Refused (one is under way), Unreachable (no broker)."""
    from recovery.audit import tasks

    with audited_attempt(action="audit.ask", by=by, target_kind="audit log") as trying:
        by.check(Right.READ_AUDIT)
        broker.check()
        row, other = _begin_check(by.name)
        if other:
            raise Refused(
                f"The log is being checked already: {row.by} asked for it at {row.at:%H:%M} UTC.",
                code="checked_already",
            )
        trying.done("Asked for the whole audit log to be checked.")
        broker.send_on_commit(tasks.check_asked, row.number)
    return row


def check_daily() -> bool:
    """Check the log here and now, if that has not been done for a day and no one is at it. Was it?"""
    last = log_operations.newest_check()
    if last is not None and timezone.now() - last.at < DAILY:
        return False
    with transaction.atomic():
        row, other = _begin_check(SYSTEM.name)
    return not other and run_check(row.number)


def _begin_check(name: str) -> tuple[AskedCheck, bool]:
    """A new check in someone's name; or the one that is open, and True. In a transaction."""
    row, _ = AskedCheck.objects.select_for_update().get_or_create(slot=1)
    now = timezone.now()
    if row.number and is_open(row, now):
        return row, True
    if row.number and row.ended_at is None:
        _write_down_lost(row)
    row.number += 1
    row.by, row.at, row.alive_at, row.ended_at = name, now, None, None
    row.read, row.total, row.problem, row.result = 0, 0, "", None
    row.save()
    return row, False


def run_check(number: int) -> bool:
    """Check the log for request `number`, unless another worker does or did. Was it this one?"""
    taken = AskedCheck.objects.filter(number=number, ended_at=None, alive_at=None)
    if not taken.update(alive_at=timezone.now(), total=_count_entries()):
        return False
    asked_by = AskedCheck.objects.get(number=number).by
    by = "" if asked_by == SYSTEM.name else asked_by
    try:
        result = log_operations.verify_and_keep(SYSTEM, behalf=by, progress=_Progress(number).note)
    except Exception as error:
        says = f"The check stopped by an error ({type(error).__name__}). Nothing was found out."
        with transaction.atomic():
            _open_checks(number).update(ended_at=timezone.now(), problem=says)
            _record_failure(by, says)
        raise
    _open_checks(number).update(
        ended_at=timezone.now(), read=result.entries, total=result.entries, result=result
    )
    return True


def tend_check_requests() -> None:
    """What a lost wake-up or a lost worker left: the one is given again, the other is written down. By beat."""
    from recovery.audit import tasks

    now = timezone.now()
    with transaction.atomic():
        row = AskedCheck.objects.select_for_update().filter(ended_at=None).exclude(number=0).first()
        if row is None:
            return
        if row.alive_at is None and row.at is not None and now - row.at > FORGOTTEN:
            broker.send_on_commit(tasks.check_asked, row.number)
        elif _is_silent(row, now):
            row.ended_at, row.problem = now, LOST
            row.save()
            _write_down_lost(row)


def _open_checks(number: int) -> Any:
    return AskedCheck.objects.filter(number=number, ended_at=None)


def _write_down_lost(row: AskedCheck) -> None:
    _record_failure("" if row.by == SYSTEM.name else row.by, LOST)


def _record_failure(behalf: str, says: str) -> None:
    append_entry(
        action="audit.verify", outcome="failed", by=SYSTEM, behalf=behalf, target_kind="audit log", says=says
    )


def _count_entries() -> int:
    """How many there are, without counting them: numbers have no holes."""
    seqs = AuditEntry.objects.values_list("seq", flat=True)
    first, last = seqs.order_by("seq").first(), seqs.order_by("-seq").first()
    return (last or 0) - (first or 1) + 1


class _Progress:
    """Notes how far the check is, at most every EACH seconds: the page shows it, and it is the sign of life."""

    def __init__(self, number: int) -> None:
        self.number, self.noted = number, time.monotonic()

    def note(self, entries: int) -> None:
        if time.monotonic() - self.noted >= EACH:
            _open_checks(self.number).update(alive_at=timezone.now(), read=entries)
            self.noted = time.monotonic()
