"""What is done with the audit log as a whole: checked, signed, exported. Each is an entry of it."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import transaction
from django.utils import timezone

from recovery.audit import anchoring, keys
from recovery.audit.actions import append_entry, audited_attempt, chain_head, lock_chain
from recovery.audit.anchoring import KEY, MARK, SignedStatement
from recovery.audit.exporting import FORMATS, export_lines
from recovery.audit.listing import EntryFilter, stream_entries
from recovery.audit.verifying import check_chain
from recovery.errors import Refused, RepriseError, WrongUse
from recovery.models import AuditCheck
from recovery.people import visible
from recovery.people.roles import SYSTEM, Actor, Right

KEPT_CHECKS: Final = 400
STORED_PROBLEMS: Final = 20


def verify_chain(*, by: Actor | None = None) -> dict[str, Any]:
    """Check the whole chain: `{ok, entries, first, head, problems: [{seq, code, says}], anchors, anchored}`.

    With `by`, the right to read the log is checked, and the check is kept and audited. Raises Denied.
    """
    if by is None:
        return check_chain()
    with audited_attempt(action="audit.verify", by=by, target_kind="audit log"):
        by.check(Right.READ_AUDIT)
    return _check_and_record(by)[0]


def verify_and_keep(
    by: Actor, *, behalf: str = "", progress: Callable[[int], None] = lambda _: None
) -> AuditCheck:
    """Check the whole chain; the result is kept and audited. `progress` is called with the number of entries read."""
    return _check_and_record(by, behalf, progress)[1]


def _check_and_record(
    by: Actor, behalf: str = "", progress: Callable[[int], None] = lambda _: None
) -> tuple[dict[str, Any], AuditCheck]:
    begun, since = timezone.now(), time.monotonic()
    checked = check_chain(
        progress=progress
    )  # outside of a transaction: it may take a minute, and no one should wait for it
    verdict = "the chain is unbroken" if checked["ok"] else f"{len(checked['problems'])} problems"
    says = f"Checked {checked['entries']} entries: {verdict}."
    after = {k: checked[k] for k in ("ok", "entries", "head", "anchors", "anchored")}
    after |= {"problems": checked["problems"][:STORED_PROBLEMS]}
    with transaction.atomic():
        result = AuditCheck.objects.create(
            at=begun, seconds=time.monotonic() - since, by=behalf or by.name, ok=checked["ok"],
            entries=checked["entries"], last=checked["first"] + checked["entries"] - 1,
            problems=checked["problems"][:STORED_PROBLEMS],
        )  # fmt: skip
        old = AuditCheck.objects.order_by("-pk").values_list("pk", flat=True)[KEPT_CHECKS:][:1]
        AuditCheck.objects.filter(pk__lte=old[0]).delete() if old else None
        if not checked["ok"]:
            _notify_broken_chain(checked)
        append_entry(
            action="audit.verify", outcome="done" if checked["ok"] else "failed", by=by, behalf=behalf,
            target_kind="audit log", says=says, after=after,
        )  # fmt: skip
    return checked, result


def _notify_broken_chain(checked: dict[str, Any]) -> None:
    """Notify people of a broken chain, once for each first problem."""
    from recovery.notify.actions import announce_event  # that room writes to this one

    first = checked["problems"][0]
    facts = {"problems": len(checked["problems"]), "problem": first["says"], "entries": checked["entries"]}
    announce_event(event="audit.broken", facts=facts, dedupe=f"{first['seq']}:{first['says']}")


def sign_chain(key: Ed25519PrivateKey | None = None) -> SignedStatement | None:
    """Sign the head of the log, unless it is signed already. What came since the last anchor is checked first:
    a signature under forged entries would make them ours. Raises Refused then, Unreachable without a key."""
    with transaction.atomic():
        lock_chain()
        seq, hash = chain_head()
        last = anchoring.newest_anchor()
        if seq == 0 or (last is not None and last.statement.seq >= seq):
            return None
    checked = check_chain(after=last.statement.seq if last else 0)
    if not checked["ok"]:
        raise Refused(
            f"The audit log was not signed: {checked['problems'][0]['says']} Run audit verify, and keep this database.",
            code="log_broken",
        )
    return anchoring.sign_statement(MARK, seq, hash, key=key)


def sign_or_report() -> None:
    """The regular signature. What is found wrong on the way is kept as a check that failed, once."""
    try:
        sign_chain()
    except Refused:
        last = AuditCheck.objects.first()
        if last is None or last.ok:
            verify_and_keep(SYSTEM)


def renew_key(*, by: Actor) -> dict[str, str]:
    """Pass signing to a new key: the old one signs the log as it is, and the new one's name.

    Answers {old, new}: key ids. Raises Denied, Refused (the key comes from outside, or the chain is broken).
    """
    with audited_attempt(action="audit.key", by=by, target_kind="audit log"):
        by.check(Right.MANAGE)
    old = keys.signing_key()
    sign_chain(old)
    with audited_attempt(action="audit.key", by=by, target_kind="audit log") as trying:
        new = keys.renew_key()
        ids = {"old": keys.key_id(keys.public_bytes(old)), "new": keys.key_id(keys.public_bytes(new))}
        seq, hash = chain_head()
        detail = {"key_id": ids["new"], "public": keys.public_bytes(new).hex()}
        anchoring.sign_statement(KEY, seq, hash, detail=detail, key=old)
        trying.done(
            f"The audit log is signed with key {ids['new']} from now on.",
            before={"key": ids["old"]}, after={"key": ids["new"]},
        )  # fmt: skip
    return ids


def export_log(*, fmt: str, by: Actor, wanted: EntryFilter | None = None) -> Iterator[str]:
    """The log, oldest first, as text in pieces; what `wanted` says, else all of it that `by` sees.

    The export's own entry is written first, before this returns, and is the last one that may be exported.
    Raises Denied, WrongUse.
    """
    filters = wanted or EntryFilter()
    with audited_attempt(action="audit.export", by=by, target_kind="audit log", target=fmt) as trying:
        by.check(Right.EXPORT_AUDIT)
        if fmt not in FORMATS:
            raise WrongUse(f"The audit log is exported as csv or json, not as {fmt!r}.")
        part = "part of the" if filters.query() else "the"
        says = f"Exported {part} audit log as {fmt.upper()}."
        after: dict[str, Any] = {"filters": filters.query()} if filters.query() else {}
        if visible.filter_entries(by):
            after["environments"] = visible.visible_environments(by)
            says = f"{says} Without the environments that {by.name} may not see."
        last = trying.done(says, after=after or None)
    return export_lines(stream_entries(filters, by=by, last=last.seq), fmt)


def newest_check() -> AuditCheck | None:
    """The newest check, for the banner; None before the first."""
    return AuditCheck.objects.first()


def problem_with_key() -> str:
    """Why the log cannot be signed by this process; "" when it can."""
    try:
        keys.signing_key()
    except RepriseError as error:
        return error.sentence
    return ""
