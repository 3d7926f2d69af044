"""Keys, the daily check, old formats, archives and the review queue."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import DatabaseError, connection
from django.utils import timezone

from recovery.audit import (
    archiving,
    chain,
    checking,
    entry_hmac,
    keys,
    log_operations,
    reviewing,
    reviews,
    tags,
    tasks,
)
from recovery.audit.actions import append_entry
from recovery.audit.verifying import check_chain
from recovery.errors import Denied, NotFound, Refused, Unreachable, WrongUse
from recovery.models import AuditAnchor, AuditCheck, AuditEntry, SignOff
from recovery.people.roles import SYSTEM, Actor, Role
from tests import factories as f
from tests.refusals import refused
from tests.unit.audit.conftest import unguarded

pytestmark = pytest.mark.usefixtures("kept_outside")
ADMIN = Actor("ada", Role.ADMIN, via="command")
AUDITOR = Actor("grace", Role.AUDITOR, via="page")


def pem(key: Any) -> str:
    return str(key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()).decode())


class TestKeys:
    def test_a_key_is_made_once_for_its_owner_alone(self, kept_outside: Path) -> None:
        assert keys.public_bytes(keys.signing_key()) == keys.public_bytes(keys.signing_key())
        assert (kept_outside / "audit.key").stat().st_mode & 0o777 == 0o600
        assert list(keys.public_keys().values()) == [keys.public_bytes(keys.signing_key())]

    def test_a_key_from_outside_is_used_and_listed(self, settings: Any, kept_outside: Path) -> None:
        key = Ed25519PrivateKey.generate()
        settings.REPRISE_AUDIT_KEY = pem(key)
        assert keys.public_bytes(keys.signing_key()) == keys.public_bytes(key)
        assert keys.key_id(keys.public_bytes(key)) in keys.public_keys()
        assert not (kept_outside / "audit.key").exists()
        with pytest.raises(Refused, match="REPRISE_AUDIT_KEY"):
            keys.renew_key()

    @pytest.mark.parametrize("text", ["nonsense", pem(generate_private_key(SECP256R1()))])
    def test_what_is_no_such_key_is_said(self, settings: Any, text: str) -> None:
        settings.REPRISE_AUDIT_KEY = text
        with refused("key_unreadable", Unreachable):
            keys.signing_key()
        assert "key that signs" in log_operations.problem_with_key()

    def test_a_line_whose_id_is_not_its_keys_is_not_believed(self) -> None:
        keys.signing_key()
        text = keys.list_file().read_text()
        keys.list_file().write_text("0" * 16 + text[16:] + "nonsense\n")
        assert keys.public_keys() == {}

    def test_another_key_goes_on_where_the_old_one_signed(
        self, write: Callable[[int], None], sign: Callable[[], Any],
        django_capture_on_commit_callbacks: Callable[..., Any],
    ) -> None:  # fmt: skip
        write(2)
        sign()
        with django_capture_on_commit_callbacks(execute=True):
            ids = log_operations.renew_key(by=ADMIN)
        write(1)
        sign()
        found = check_chain()
        assert (found["ok"], found["anchors"]) == (True, 3)
        assert set(keys.public_keys()) == set(ids.values())
        assert list(AuditAnchor.objects.order_by("pk").values_list("kind", "key_id")) == [
            ("mark", ids["old"]), ("key", ids["old"]), ("mark", ids["new"]),
        ]  # fmt: skip

    def test_only_who_manages_may_renew(self) -> None:
        with pytest.raises(Denied):
            log_operations.renew_key(by=AUDITOR)
        assert AuditEntry.objects.get().code == "audit.key.denied"


class TestChecks:
    def test_the_daily_check_runs_once_a_day_and_leaves_its_result(
        self, write: Callable[[int], None]
    ) -> None:
        write(2)
        tasks.verify_daily()
        assert checking.check_daily() is False
        AuditCheck.objects.update(at=timezone.now() - timedelta(days=1))
        assert checking.check_daily() is True
        assert AuditCheck.objects.count() == 2
        assert AuditEntry.objects.filter(action="audit.verify", outcome="done").count() == 2

    def test_a_broken_chain_has_a_code_of_its_own(self, write: Callable[[int], None]) -> None:
        write(3)
        with unguarded():
            AuditEntry.objects.filter(seq=2).update(says="forged")
        assert log_operations.verify_chain(by=AUDITOR)["ok"] is False
        assert AuditEntry.objects.order_by("-seq").first().code == "audit.verify.failed"  # type: ignore[union-attr]
        assert AuditCheck.objects.get().problems[0]["seq"] == 2

    def test_old_checks_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_operations, "KEPT_CHECKS", 3)
        for _ in range(5):
            log_operations.verify_chain(by=AUDITOR)
        assert AuditCheck.objects.count() == 3

    def test_the_regular_signature_comes_without_being_asked(self, write: Callable[[int], None]) -> None:
        write(2)
        tasks.sign()
        tasks.sign()
        assert AuditAnchor.objects.get().seq == 2

    def test_entries_of_the_first_format_still_verify(self, write: Callable[[int], None]) -> None:
        prev = chain.GENESIS
        for seq in (1, 2):
            fields = {**dict.fromkeys(chain.FIELDS, ""), "seq": seq, "format": 1, "at": timezone.now(),
                      "actor": "ada", "action": "step.run", "outcome": "done", "before": None, "after": {"n": 1},
                      "prev_hash": prev}  # fmt: skip
            prev = chain.entry_hash(fields)
            AuditEntry(**fields, hash=prev).save(force_insert=True)
        write(2)
        assert check_chain()["ok"]
        assert list(AuditEntry.objects.order_by("seq").values_list("format", flat=True)) == [1, 1, 3, 3]
        with unguarded():
            AuditEntry.objects.filter(seq=1).update(address="10.0.0.1")
        said = check_chain()["problems"][0]
        assert (said["seq"], said["code"]) == (1, "entry_malformed")

    def test_the_first_formats_hash_is_what_it_always_was(self) -> None:
        from datetime import UTC, datetime

        fields = {**dict.fromkeys(chain.FIELDS, ""), "seq": 1, "format": 1, "at": datetime(2026, 11, 21, tzinfo=UTC),
                  "before": None, "after": {"b": 1, "a": [True]}, "prev_hash": chain.GENESIS}  # fmt: skip
        assert chain.entry_hash(fields) == "f039fb05ec1fdcda039e1ff1f8a86da6aa97d45d557808869d19808ae9d7ed13"


class TestArchiving:
    @pytest.fixture
    def old(self, write: Callable[[int], None], sign: Callable[[], Any]) -> None:
        """Six entries, four of them 100 days old."""
        write(6)
        with unguarded():
            prev = chain.GENESIS
            for entry in AuditEntry.objects.order_by("seq").values(*chain.FIELDS):
                age = timedelta(days=100) if entry["seq"] <= 4 else timedelta(0)
                new = {**entry, "at": entry["at"] - age, "prev_hash": prev}
                prev = chain.entry_hash(new)
                made = {**new, "hash": prev, "seal": entry_hmac.seal_entry(entry["seq"], prev)}
                AuditEntry.objects.filter(seq=entry["seq"]).update(**made)
        for file in Path(keys.list_file().parent).glob("*.head"):
            file.unlink()
        write(1)
        sign()

    def archive(
        self, folder: Path, capture: Callable[..., Any], **values: Any
    ) -> archiving.ArchivedEntries | None:
        with capture(execute=True):
            return archiving.archive_entries(**{"days": 90, "folder": folder, "by": ADMIN, **values})

    @pytest.mark.usefixtures("old")
    def test_what_is_old_goes_into_a_signed_file_and_the_rest_is_still_proven(
        self, tmp_path: Path, write: Callable[[int], None],
        django_capture_on_commit_callbacks: Callable[..., Any],
    ) -> None:  # fmt: skip
        made = self.archive(tmp_path / "archive", django_capture_on_commit_callbacks)
        assert made is not None
        assert (made.first, made.last, made.entries) == (1, 4, 4)
        assert [json.loads(line)["seq"] for line in Path(made.file).read_text().splitlines()] == [1, 2, 3, 4]
        assert archiving.check_archive(Path(made.file)) == []
        write(1)
        found = check_chain()
        assert found["problems"] == []
        assert (found["first"], found["entries"]) == (5, 5)
        assert AuditEntry.objects.order_by("seq").first().seq == 5  # type: ignore[union-attr]

    @pytest.mark.usefixtures("old")
    def test_only_the_archived_may_go(
        self, tmp_path: Path, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        self.archive(tmp_path / "archive", django_capture_on_commit_callbacks)
        from django.db import transaction

        with (
            pytest.raises(DatabaseError, match="append-only"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute("DELETE FROM recovery_auditentry WHERE seq = 5")

    @pytest.mark.usefixtures("old")
    @pytest.mark.parametrize("what", ["first entry", "cut", "archive"])
    def test_what_is_taken_away_behind_a_cut_is_found(
        self, tmp_path: Path, what: str, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        made = self.archive(tmp_path / "archive", django_capture_on_commit_callbacks)
        assert made is not None
        if what == "archive":
            text = Path(made.file).read_text()
            Path(made.file).write_text(text.replace("Entry 2.", "Entry X."))
            [first, *_] = archiving.check_archive(Path(made.file))
            assert first.split()[0] == Path(made.file).name
            return
        with unguarded():
            if what == "cut":
                AuditAnchor.objects.filter(kind="cut")._raw_delete(using="default")  # type: ignore[attr-defined]
            else:
                AuditEntry.objects.filter(seq=5)._raw_delete(using="default")  # type: ignore[attr-defined]
        problem = check_chain()["problems"][0]
        assert problem["seq"] == (4 if what == "cut" else 5)

    @pytest.mark.usefixtures("old")
    def test_a_second_archive_begins_where_the_first_ended(
        self, tmp_path: Path, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        self.archive(tmp_path, django_capture_on_commit_callbacks)
        assert self.archive(tmp_path, django_capture_on_commit_callbacks) is None

    @pytest.mark.usefixtures("old")
    def test_a_file_that_an_interrupted_run_left_is_taken_when_it_is_the_same(
        self, tmp_path: Path, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        cut = AuditEntry.objects.get(seq=4)
        archiving._write_archive(1, cut, tmp_path)
        assert self.archive(tmp_path, django_capture_on_commit_callbacks) is not None

    @pytest.mark.usefixtures("old")
    def test_another_file_of_that_name_is_never_overwritten(
        self, tmp_path: Path, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        (tmp_path / "reprise-audit-1-4.jsonl").write_text("mine\n")
        with pytest.raises(Refused, match="something else"):
            self.archive(tmp_path, django_capture_on_commit_callbacks)
        assert (tmp_path / "reprise-audit-1-4.jsonl").read_text() == "mine\n"
        assert AuditEntry.objects.filter(seq=1).exists()

    def test_nothing_old_is_nothing_done_and_rules_are_kept(
        self, tmp_path: Path, write: Callable[[int], None]
    ) -> None:
        write(2)
        assert archiving.archive_entries(days=30, folder=tmp_path, by=ADMIN) is None
        with pytest.raises(WrongUse, match="30 days"):
            archiving.archive_entries(days=29, folder=tmp_path, by=ADMIN)
        with pytest.raises(Denied):
            archiving.archive_entries(days=30, folder=tmp_path, by=AUDITOR)

    @pytest.mark.usefixtures("old")
    def test_a_broken_chain_and_an_open_review_are_not_archived(self, tmp_path: Path) -> None:
        from recovery.models import ReviewItem

        ReviewItem(seq=2, why="production", at=timezone.now()).save(force_insert=True)
        with refused("review_waits", Refused, names=(2,)):
            archiving.archive_entries(days=90, folder=tmp_path, by=ADMIN)
        reviews.sign_off(seq=2, note="Fine.", by=AUDITOR)
        with unguarded():
            AuditEntry.objects.filter(seq=5).update(says="forged")
        with refused("log_broken", Refused, names=(5,)):
            archiving.archive_entries(days=90, folder=tmp_path, by=ADMIN)


class TestReviews:
    @pytest.mark.parametrize(
        ("action", "outcome", "environment", "why"),
        [
            ("recovery.execute", "done", "production", "production"),
            ("recovery.execute", "unknown", "production", "production"),
            ("recovery.resume", "done", "production", "production"),
            ("recovery.rollback", "done", "production", "production"),
            ("recovery.execute", "done", "staging", ""),
            ("recovery.execute", "done", "nobody-described-it", "production"),
            ("recovery.execute", "done", "", ""),
            ("recovery.execute", "denied", "production", ""),
            ("recovery.execute", "failed", "production", ""),
            ("recovery.open", "done", "production", ""),
            ("step.run", "done", "production", ""),
            ("recovery.break_glass", "done", "development", "break-glass"),
            ("recovery.break_glass", "denied", "production", "break-glass"),
            ("audit.archive", "done", "", "audit log"),
            ("audit.key", "denied", "", ""),
        ],
    )
    def test_one_table_says_what_is_reviewed(
        self, action: str, outcome: str, environment: str, why: str
    ) -> None:
        assert reviewing.why_reviewed(action, outcome, environment) == why

    def test_an_act_waits_until_it_is_signed_off_and_once_only(self) -> None:
        label = f.opened(f.failed_flow(f.pipeline(environment="production"))).label
        by = Actor("bob", Role.RESPONDER)
        append_entry(
            action="plan.seal", outcome="done", by=Actor("cleo", Role.RESPONDER), recovery=label, says="x"
        )
        made = append_entry(action="recovery.execute", outcome="done", by=by, recovery=label, says="x")
        assert reviews.acts_to_review(AUDITOR) == 1
        assert reviews.review_queue(AUDITOR)[0].took_part == {"bob", "cleo"}
        for name in ("bob", "cleo"):
            with refused("took_part", Refused):
                reviews.sign_off(seq=made.seq, note="Mine.", by=Actor(name, Role.ADMIN))
        with pytest.raises(Denied):
            reviews.sign_off(seq=made.seq, note="x", by=Actor("dan", Role.RESPONDER))
        reviews.sign_off(seq=made.seq, note=" Both agree. ", by=AUDITOR)
        assert reviews.acts_to_review(AUDITOR) == 0
        assert SignOff.objects.get().note == "Both agree."
        with refused("signed_off", Refused, names=("grace",)):
            reviews.sign_off(seq=made.seq, note="again", by=Actor("hal", Role.AUDITOR))
        assert AuditEntry.objects.filter(action="audit.review").count() == 5

    def test_what_is_not_in_the_queue_and_a_note_too_long_are_refused(self) -> None:
        append_entry(action="step.run", outcome="done", by=SYSTEM, says="x")
        with pytest.raises(NotFound):
            reviews.sign_off(seq=1, note="x", by=AUDITOR)
        append_entry(action="audit.archive", outcome="done", by=ADMIN, says="x")
        with pytest.raises(WrongUse, match="1 to 2000"):
            reviews.sign_off(seq=3, note="x" * 2001, by=AUDITOR)


def test_workers_act_for_registered_acts_only() -> None:
    assert set(tags.ACTIONS) >= tags.ASKING
