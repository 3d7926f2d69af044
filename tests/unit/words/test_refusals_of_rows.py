"""The words of refusals that need the database, once each: the other half of `test_refusals_by_room`."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from django.contrib.auth.models import AnonymousUser
from django.test import override_settings
from django.utils import timezone

from recovery.audit import archiving, checking, keys, log_operations, reviews
from recovery.audit.actions import append_entry
from recovery.management.commands._acting import flow_of as flow_named_by
from recovery.models import AuditEntry, Channel, Recovery, ReviewItem, SignOff, Workspace
from recovery.notify import actions as notifying
from recovery.people.actions import create_token, invitation_of
from recovery.people.identity import actor_for_user
from recovery.people.roles import SYSTEM, Actor, Role, Scope
from recovery.pipelines.find import find_pipeline
from recovery.workflow import broker
from tests import factories as f
from tests.unit.audit.conftest import kept_outside, unguarded
from tests.unit.audit.test_audit_keeping import pem

__all__ = ["kept_outside"]
from tests.unit.words.test_refusals_by_room import ADMIN, AUDITOR, PURE, Refusal, asserted


def entries(count: int) -> None:
    for number in range(count):
        append_entry(action="recovery.open", outcome="done", by=SYSTEM, says=f"Entry {number}.")


def broken() -> None:
    entries(2)
    with unguarded():
        AuditEntry.objects.filter(seq=1).update(says="forged")


def waiting(seq: int = 1) -> ReviewItem:
    item = ReviewItem(seq=seq, why="production", at=timezone.now())
    item.save(force_insert=True)
    return item


def signed_off_before(tmp: Path) -> None:
    entries(1)
    SignOff(item=waiting(), by="grace", note="Fine.", at=timezone.now()).save(force_insert=True)
    reviews.sign_off(seq=1, note="Again.", by=AUDITOR)


def by_who_took_part(tmp: Path) -> None:
    append_entry(action="recovery.execute", outcome="done", by=AUDITOR, says="x")
    waiting()
    reviews.sign_off(seq=1, note="Mine.", by=AUDITOR)


def signed(tmp: Path) -> None:
    broken()
    log_operations.sign_chain()


def archived_broken(tmp: Path) -> None:
    broken()
    archive(tmp)


def archived_unreviewed(tmp: Path) -> None:
    entries(2)
    waiting()
    archive(tmp)


def archive(tmp: Path) -> None:
    with unguarded():
        AuditEntry.objects.update(at=timezone.now() - timedelta(days=100))
    archiving.archive_entries(days=90, folder=tmp, by=ADMIN)


def signing_with(key: str) -> None:
    with override_settings(REPRISE_AUDIT_KEY=key):
        keys.signing_key()


def from_away(tmp: Path) -> None:
    Workspace.objects.create(
        name="here", url="http://127.0.0.1:1", token_ref="env:X", poll_error="It does not answer."
    )
    find_pipeline("x")


def narrowed(tmp: Path) -> None:
    ada = f.person("responder", "ada")
    by = Actor("ada", Role.RESPONDER, user_id=ada.pk, scope=Scope(frozenset()))
    create_token(owner=ada, name="wider", by=by)


def asked_twice(tmp: Path) -> None:
    checking.request_check(by=AUDITOR)
    checking.request_check(by=AUDITOR)


def twins(tmp: Path) -> None:
    for number in ("p1", "p2"):
        f.pipeline(name="shop", pipeline_id=number)
    find_pipeline("shop")


def sent_while_off(tmp: Path) -> None:
    channel = Channel.objects.create(name="ops", kind="mail", address="a@b.example", on=False)
    notifying.send_test(channel_id=channel.pk, by=ADMIN)


def ended_and_another(tmp: Path) -> None:
    first = f.opened()
    Recovery.objects.filter(pk=first.pk).update(state="cancelled", active=False)
    f.opened(first.flow)
    options = {"pipeline": first.label, "flow": None}
    flow_named_by(options, Actor("ada", Role.RESPONDER))


def nearly(tmp: Path) -> None:
    f.pipeline(name="customers")
    find_pipeline("custmers")


STORED = (
    Refusal(
        "not_in_review",
        "Entry 9 is not in the review queue.",
        lambda tmp: reviews.sign_off(seq=9, note="x", by=AUDITOR),
    ),
    Refusal("signed_off", "Entry 1 was signed off by grace on … UTC.", signed_off_before),
    Refusal("took_part", "grace took part in this. It is reviewed by someone who did not.", by_who_took_part),
    Refusal(
        "log_broken",
        "The audit log was not signed: Entry 1 is not what was written: its hash does not fit its "
        "contents. Run audit verify, and keep this database.",
        signed,
    ),
    Refusal(
        "log_broken",
        "Nothing was archived, the chain is broken: Entry 1 is not what was written: its hash does not fit its "
        "contents.",
        archived_broken,
    ),
    Refusal("review_waits", "Entry 1 waits for its review. Sign it off, then archive.", archived_unreviewed),
    Refusal(
        "key_unreadable",
        "The key that signs the audit log cannot be read (ValueError). Check REPRISE_AUDIT_KEY, or …/audit.key.",
        lambda tmp: signing_with("nonsense"),
    ),
    Refusal(
        "key_unreadable",
        "The key that signs the audit log must be an Ed25519 key, in PEM.",
        lambda tmp: signing_with(pem(generate_private_key(SECP256R1()))),
    ),
    Refusal(
        "workspace_away",
        "There is no pipeline 'x'. Workspace here could not be asked: It does not answer.",
        from_away,
    ),
    Refusal(
        "no_archive",
        "…/no.jsonl cannot be read as an archive of the audit log: …",
        lambda tmp: archiving.check_archive(tmp / "no.jsonl"),
    ),
    Refusal("checked_already", "The log is being checked already: grace asked for it at … UTC.", asked_twice),
    Refusal(
        "invitation_over",
        "This invitation is not good, or no longer. Ask an admin for a new one.",
        lambda tmp: invitation_of("x"),
    ),
    Refusal(
        "narrow_token",
        "A token with less than its owner's rights makes no other tokens. Use the console.",
        narrowed,
    ),
    Refusal(
        "no_role",
        "This account has no role in Reprise. Ask an admin to add you.",
        lambda tmp: actor_for_user(AnonymousUser(), via="page"),
    ),
    Refusal("ambiguous_pipeline", "2 pipelines are named shop. Use an id: p1, p2.", twins),
    Refusal(
        "no_pipelines",
        "There is no pipeline 'x'. No pipeline is known yet; create one through the Pipelines API, or "
        "register a workspace.",
        lambda tmp: find_pipeline("x"),
    ),
    Refusal("channel_off", "Channel ops is off: nothing is sent to it. Switch it on first.", sent_while_off),
    Refusal(
        "another_is_open",
        "R-1 is cancelled and R-2 is open for …. Name R-2 to continue with it.",
        ended_and_another,
    ),
    Refusal(
        "not_found",
        "There is no pipeline 'custmers'. Did you mean customers? `flows` lists them all.",
        nearly,
    ),
)


@pytest.mark.django_db
@pytest.mark.parametrize("of", STORED, ids=lambda of: of.name)
def test_what_needs_the_database_is_refused_in_these_words(
    of: Refusal, tmp_path: Path, kept_outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(broker, "send_on_commit", lambda *_: None)
    monkeypatch.setattr("recovery.pipelines.find.refresh", lambda **_: None)
    asserted(of, tmp_path)


def test_the_words_of_a_code_stand_here_once() -> None:
    pairs = [(of.code, of.words) for of in (*PURE, *STORED)]
    assert len(pairs) == len(set(pairs))
