"""The only door into the audit log: append, and hand out.

An entry is written in the transaction of the change it tells about: both are there or neither. Two
writers are put in order by the database (SQLite: BEGIN IMMEDIATE; PostgreSQL: an advisory lock held
until the commit), so the chain has no fork. Call `record` last in a transaction: from then on every
other audited change waits for the commit.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TextIO

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from recovery import trace
from recovery.audit import anchor, chain, tags
from recovery.audit.exporting import write_csv, write_json
from recovery.audit.verifying import check_chain
from recovery.errors import Denied, OutcomeUnknown, RepriseError, WrongUse
from recovery.models import AuditEntry
from recovery.people.roles import Actor, Right, Stranger

log = logging.getLogger(__name__)

_LOCK: Final = 0x5265707269736541  # "RepriseA": names the audit log among PostgreSQL's advisory locks


def record(
    *,
    action: str,
    outcome: str,
    by: Actor | Stranger,
    target_kind: str = "",
    target: str = "",
    recovery: str = "",
    says: str,
    before: Any = None,
    after: Any = None,
) -> AuditEntry:
    """Append one entry; inside the caller's transaction when there is one.

    `before` and `after` are plain JSON values (dates allowed). Raises ValueError for an unregistered
    action or outcome and TypeError for a value that is not JSON: both are bugs of the caller.
    """
    tags.check(action, outcome)
    fields = {
        "actor": chain.plain_text(by.name, 150),
        "role": by.role.value if isinstance(by, Actor) else "nobody",
        "via": chain.plain_text(by.via, 20),
        "request_id": chain.plain_text(by.request_id or trace.current(), 64),
        "action": action,
        "outcome": outcome,
        "target_kind": chain.plain_text(target_kind, 30),
        "target": chain.plain_text(target, 400),
        "recovery": chain.plain_text(recovery, 20),
        "says": chain.plain_text(says, 20_000),
        "before": chain.plain(before),
        "after": chain.plain(after),
    }
    with transaction.atomic():
        return _append(fields)


def _append(fields: dict[str, Any]) -> AuditEntry:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    head = AuditEntry.objects.order_by("-seq").values_list("seq", "hash").first()
    seq, prev_hash = (head[0] + 1, head[1]) if head else (1, chain.GENESIS)
    fields = {**fields, "seq": seq, "at": timezone.now(), "prev_hash": prev_hash}
    entry = AuditEntry(**fields, hash=chain.digest(fields))
    entry.save(force_insert=True)
    transaction.on_commit(lambda: _remember(anchor.Anchor(seq=entry.seq, hash=entry.hash)), robust=True)
    return entry


def _remember(head: anchor.Anchor) -> None:
    anchor.advance(anchor.path(connection), head)


@dataclass
class Attempt:
    """What somebody is trying. `target` and `recovery` may be filled in once they are known."""

    action: str
    by: Actor | Stranger
    target_kind: str
    target: str
    recovery: str

    def done(self, says: str, *, before: Any = None, after: Any = None) -> AuditEntry:
        """Append the row of success, in the same transaction as the change."""
        return self._record("done", says, before, after)

    def _record(self, outcome: str, says: str, before: Any = None, after: Any = None) -> AuditEntry:
        return record(
            action=self.action, outcome=outcome, by=self.by, target_kind=self.target_kind, target=self.target,
            recovery=self.recovery, says=says, before=before, after=after,
        )  # fmt: skip


@contextmanager
def attempt(
    *, action: str, by: Actor | Stranger, target_kind: str = "", target: str = "", recovery: str = ""
) -> Iterator[Attempt]:
    """Run the body in a transaction; when it fails, take it back and append why, then raise on.

    Denied becomes outcome `denied`, OutcomeUnknown `unknown`, any other error `failed` (a bug is named
    by its class only). The row is written after the rollback, in a transaction of its own, so it stays
    although the change is gone; for that, call this outside of other transactions. Also a decorator.
    Success is the body's to record: `trying.done(says=…)`.
    """
    trying = Attempt(action=action, by=by, target_kind=target_kind, target=target, recovery=recovery)
    try:
        with transaction.atomic():
            yield trying
    except Exception as error:
        _append_failure(trying, error)
        raise


def _append_failure(trying: Attempt, error: Exception) -> None:
    if isinstance(error, RepriseError):
        says = error.sentence
    else:
        says = f"Stopped by an unexpected error ({type(error).__name__}); nothing was changed."
    try:
        trying._record(_outcome_of(error), says)
    except DatabaseError:  # the first error is the one that matters: it is raised on by the caller
        log.exception("The failure of %s by %s could not be audited: %s", trying.action, trying.by.name, says)


def _outcome_of(error: Exception) -> str:
    if isinstance(error, Denied):
        return "denied"
    return "unknown" if isinstance(error, OutcomeUnknown) else "failed"


def verify(*, by: Actor | None = None) -> dict[str, Any]:
    """Check the whole chain: `{ok, entries, head, problems: [{seq, says}]}`, in bounded memory.

    With `by`, the right to read the log is checked and the check itself is audited. Raises Denied.
    """
    if by is None:
        return check_chain()
    with attempt(action="audit.verify", by=by, target_kind="audit log"):
        by.check(Right.READ_AUDIT)
    found = check_chain()  # outside of a transaction: it may take seconds, and nobody should wait for it
    after = {"ok": found["ok"], "entries": found["entries"], "head": found["head"]}
    verdict = "the chain is unbroken" if found["ok"] else f"{len(found['problems'])} problems"
    says = f"Checked {found['entries']} entries: {verdict}."
    record(action="audit.verify", outcome="done", by=by, target_kind="audit log", says=says, after=after)
    return found


def export(*, fmt: str, stream: TextIO, by: Actor) -> int:
    """Write the log, oldest first, to `stream` as "csv" or "json"; answers how many entries.

    The export's own row is written first, and is the last one exported. Raises Denied, WrongUse.
    """
    with attempt(action="audit.export", by=by, target_kind="audit log", target=fmt) as trying:
        by.check(Right.EXPORT_AUDIT)
        if fmt not in ("csv", "json"):
            raise WrongUse(f"The audit log is exported as csv or json, not as {fmt!r}.")
        last = trying.done(f"Exported the audit log as {fmt.upper()}.")
    entries = AuditEntry.objects.filter(seq__lte=last.seq).order_by("seq")
    return write_csv(entries, stream) if fmt == "csv" else write_json(entries, stream)
