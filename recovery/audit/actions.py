"""The only door into the audit log: append. What is done with the log is in keeping.py.

An entry is written in the transaction of the change it tells about: both are there or neither. Two
writers are put in order by the database (SQLite: BEGIN IMMEDIATE; PostgreSQL: an advisory lock held
until the commit), so the chain has no fork. Call `record` last in a transaction: from then on every
other audited change waits for the commit.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from recovery import trace
from recovery.audit import anchor, anchoring, chain, cleansing, entry_hmac, folding, origin, reviewing, tags
from recovery.audit.aims import name_pipeline
from recovery.errors import Denied, OutcomeUnknown, RepriseError
from recovery.models import AuditEntry, Recovery, ReviewItem
from recovery.numbers import read_recovery_number
from recovery.people.roles import Actor, AnonymousActor, Role

log = logging.getLogger(__name__)

_LOCK: Final = 0x5265707269736541  # "RepriseA": names the audit log among PostgreSQL's advisory locks


def append_entry(
    *,
    action: str,
    outcome: str,
    by: Actor | AnonymousActor,
    target_kind: str = "",
    target: str = "",
    recovery: str = "",
    says: str,
    reason: str = "",
    behalf: str = "",
    environment: str = "",
    pipeline: str = "",
    before: Any = None,
    after: Any = None,
) -> AuditEntry:
    """Append one entry; inside the caller's transaction when there is one. A denial that says what another of the last
    minutes said is counted instead (`folding`), and the entry that represents it is returned.

    `before` and `after` are plain JSON values (dates allowed). What looks like a secret is withheld. Where it is not
    given, the environment is the recovery's, and a task acts on behalf of who last asked something of its recovery. The
    same holds for the pipeline (as `aims.name_pipeline` has it), which a denial alone says.
    The role is the one that the person holds in that environment.
    Raises ValueError for an unregistered action or outcome and TypeError for a value that is not JSON: both are bugs
    of the caller.
    """
    tags.check_action(action, outcome)
    source = origin.current_origin()
    place = _place_of(recovery) if recovery and not (environment and pipeline) else ("", "")
    environment, pipeline = environment or place[0], pipeline or place[1]
    is_person = isinstance(by, Actor) and by.role is not Role.SYSTEM
    fields = {
        "actor": chain.plain_text(by.name, 150),
        "role": _role_text(by, action, environment),
        "behalf": behalf or ("" if is_person or not recovery else _asked_by(recovery)),
        "via": chain.plain_text(by.via, 20),
        "request_id": chain.plain_text(by.request_id or trace.current(), 64),
        "task_id": chain.plain_text(source.task_id, 64),
        "session": source.session,
        "address": source.address,
        "action": action,
        "outcome": outcome,
        "target_kind": chain.plain_text(target_kind, 30),
        "target": chain.plain_text(cleansing.cleanse_and_shorten(target, 20_000), 400),
        "recovery": chain.plain_text(recovery, 20),
        "environment": environment,
        "says": chain.plain_text(cleansing.cleanse_and_shorten(says, 20_000), 20_000),
        "reason": chain.plain_text(cleansing.cleanse_and_shorten(reason, 20_000), 20_000),
        "before": chain.as_plain_json(cleansing.cleanse_value(before)),
        "after": chain.as_plain_json(cleansing.cleanse_value(after)),
    }
    with transaction.atomic():
        if outcome == "denied":
            return folding.fold_denial(
                fields, chain.plain_text(pipeline, 400), append=_append_row, lock=lock_chain
            )
        return _append_row(fields)


def write_folded() -> int:
    """Write the entries of denials that were counted, for windows that are over. Answers how many they tell of."""
    with transaction.atomic():
        lock_chain()
        return folding.write_ended(append=_append_row)


def _role_text(by: Actor | AnonymousActor, action: str, environment: str) -> str:
    """As text: in the environment of the act, else by default. What is done with the log itself (its entry may name a
    recovery's environment) is done by the default role, which those rights go by."""
    if not isinstance(by, Actor):
        return "nobody"
    return by.grant(None if not environment or action.startswith("audit.") else environment).role.value


def _asked_by(recovery: str) -> str:
    """Who last asked the workers for something in this recovery. The log says it, whoever woke the task."""
    asked = AuditEntry.objects.filter(recovery=recovery, outcome="done", action__in=tags.ASKING)
    return (
        asked.exclude(role=Role.SYSTEM.value).order_by("-seq").values_list("actor", flat=True).first() or ""
    )


def _place_of(recovery: str) -> tuple[str, str]:
    """Environment and pipeline of a recovery, by its label; empty for none."""
    number = read_recovery_number(recovery)
    if number is None:
        return "", ""
    row = Recovery.objects.filter(pk=number).select_related("flow__pipeline").first()
    return (row.flow.pipeline.environment, name_pipeline(row.flow.pipeline)) if row else ("", "")


def lock_chain() -> None:
    """Wait for one's turn to append; held until the commit. SQLite takes turns by BEGIN IMMEDIATE."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def _append_row(fields: dict[str, Any]) -> AuditEntry:
    lock_chain()
    seq, prev_hash = chain_head()
    fields = {**fields, "format": chain.FORMAT, "seq": seq + 1, "at": timezone.now(), "prev_hash": prev_hash}
    hash = chain.entry_hash(fields)
    entry = AuditEntry(**fields, hash=hash, seal=entry_hmac.seal_entry(seq + 1, hash))
    entry.save(force_insert=True)
    if why := reviewing.why_reviewed(entry.action, entry.outcome, entry.environment):
        ReviewItem(seq=entry.seq, why=why, at=entry.at).save(force_insert=True)
    transaction.on_commit(lambda: _remember_head(anchor.Anchor(seq=entry.seq, hash=entry.hash)), robust=True)
    return entry


def chain_head() -> tuple[int, str]:
    """Number and hash of the newest entry; of the last archived one where nothing came after it."""
    head = AuditEntry.objects.order_by("-seq").values_list("seq", "hash").first()
    if head:
        return head
    cut = anchoring.newest_anchor(anchoring.CUT)
    return (cut.statement.seq, cut.statement.hash) if cut else (0, chain.GENESIS)


def _remember_head(head: anchor.Anchor) -> None:
    def hash_of(seq: int) -> str | None:
        return AuditEntry.objects.filter(seq=seq).values_list("hash", flat=True).first()

    anchor.advance_anchor(anchor.anchor_path(connection), head, hash_of)


@dataclass
class Attempt:
    """What someone is trying. `target` and `recovery` may be filled in once they are known."""

    action: str
    by: Actor | AnonymousActor
    target_kind: str
    target: str
    recovery: str
    reason: str = ""
    environment: str = ""
    pipeline: str = ""

    def done(self, says: str, *, before: Any = None, after: Any = None) -> AuditEntry:
        """Append the row of success, in the same transaction as the change."""
        return self._record_outcome("done", says, before, after)

    def _record_outcome(self, outcome: str, says: str, before: Any = None, after: Any = None) -> AuditEntry:
        return append_entry(
            action=self.action, outcome=outcome, by=self.by, target_kind=self.target_kind, target=self.target,
            recovery=self.recovery, says=says, reason=self.reason, environment=self.environment,
            pipeline=self.pipeline, before=before, after=after,
        )  # fmt: skip


@contextmanager
def audited_attempt(
    *,
    action: str,
    by: Actor | AnonymousActor,
    target_kind: str = "",
    target: str = "",
    recovery: str = "",
    reason: str = "",
    environment: str = "",
    pipeline: str = "",
) -> Iterator[Attempt]:
    """Run the body in a transaction; when it fails, take it back and append why, then raise on.

    Denied becomes outcome `denied`, OutcomeUnknown `unknown`, any other error `failed` (a bug is named
    by its class only). The row is written after the rollback, in a transaction of its own, so it stays
    although the change is gone; for that, call this outside of other transactions. Also a decorator.
    Success is the body's to record: `trying.done(says=…)`.
    """
    trying = Attempt(action=action, by=by, target_kind=target_kind, target=target, recovery=recovery, reason=reason,
                     environment=environment, pipeline=pipeline)  # fmt: skip
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
        trying._record_outcome(_outcome_of(error), says)
    except DatabaseError:  # the first error is the one that matters: it is raised on by the caller
        log.exception("The failure of %s by %s could not be audited: %s", trying.action, trying.by.name, says)


def _outcome_of(error: Exception) -> str:
    if isinstance(error, Denied):
        return "denied"
    return "unknown" if isinstance(error, OutcomeUnknown) else "failed"
