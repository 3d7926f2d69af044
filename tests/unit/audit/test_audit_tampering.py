"""Whoever owns the database, but neither the key nor the files beside it, changes nothing unseen.

Each forgery is made as its maker would (the triggers off, and on again), and is found at its place.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery.audit import anchoring, chain, entry_hmac, log_operations
from recovery.audit.verifying import check_chain
from recovery.errors import Refused
from recovery.models import AuditAnchor, AuditCheck, AuditEntry
from tests.refusals import refused
from tests.unit.audit.conftest import problems, unguarded

pytestmark = pytest.mark.usefixtures("signed_log")
ENTRIES = 8
FORGED: dict[str, Any] = {
    "at": timezone.now() - timedelta(days=400), "actor": "eve", "role": "viewer", "behalf": "eve", "via": "page",
    "request_id": "req-0", "task_id": "t", "session": "s", "address": "10.0.0.1", "action": "recovery.cancel",
    "outcome": "denied", "target_kind": "x", "target": "x", "recovery": "R-9", "environment": "staging", "says": "x",
    "reason": "x", "before": {"n": -1}, "after": None, "format": 1, "prev_hash": "0" * 63 + "1", "hash": "f" * 64,
}  # fmt: skip


def forge(number: int, **values: Any) -> None:
    with unguarded():
        AuditEntry.objects.filter(seq=number).update(**values)


def remove(first: int, last: int) -> None:
    with unguarded():
        AuditEntry.objects.filter(seq__gte=first, seq__lte=last)._raw_delete(using="default")  # type: ignore[attr-defined]


def swap(one: int, other: int) -> None:
    with unguarded():
        for seq, to in ((one, 10**6), (other, one), (10**6, other)):
            AuditEntry.objects.filter(seq=seq).update(seq=to)


def rewrite(first: int, **values: Any) -> None:
    """Change an entry and give it and all behind it hashes that fit, as one who has the secret key too: sealed."""
    with unguarded():
        prev = (
            AuditEntry.objects.filter(seq=first - 1).values_list("hash", flat=True).first() or chain.GENESIS
        )
        for entry in AuditEntry.objects.filter(seq__gte=first).order_by("seq").values(*chain.FIELDS):
            new = {**entry, **(values if entry["seq"] == first else {}), "prev_hash": prev}
            prev = chain.entry_hash(new)
            AuditEntry.objects.filter(seq=entry["seq"]).update(
                **{**new, "hash": prev, "seal": entry_hmac.seal_entry(entry["seq"], prev)}
            )


def test_the_log_is_whole_before_anybody_touches_it() -> None:
    found = check_chain()
    assert (found["ok"], found["entries"], found["anchored"]) == (True, ENTRIES, 6)
    assert found["anchors"] == 2


def test_every_field_has_a_forgery() -> None:
    assert set(FORGED) | {"seq"} == {*chain.FIELDS, "hash"}


@pytest.mark.parametrize("seq", [1, 4, ENTRIES])
@pytest.mark.parametrize("field", sorted(FORGED))
def test_one_changed_field_is_found_at_its_entry(field: str, seq: int) -> None:
    forge(seq, **{field: FORGED[field]})
    assert problems()[0]["seq"] == seq


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_forgery_is_found_at_the_first_entry_it_touches(data: st.DataObject) -> None:
    seqs = st.integers(1, ENTRIES)
    first, last = sorted((data.draw(seqs), data.draw(seqs)))
    kind = data.draw(st.sampled_from(["change", "remove", "swap", "renumber", "rewrite"]))
    with transaction.atomic():
        expected = first
        if kind == "change":
            field = data.draw(st.sampled_from(sorted(FORGED)))
            forge(first, **{field: FORGED[field]})
        elif kind == "remove":
            remove(first, last)
        elif kind == "swap":
            last = last if last > first else first % ENTRIES + 1
            expected = min(first, last)
            swap(first, last)
        elif kind == "renumber":
            forge(first, seq=first + 100)
        else:  # with fitting hashes it is found where somebody outside knows the hash: signed at 3 and 6, seen at 8
            rewrite(first, says="forged")
            expected = next(n for n in (3, 6, 8) if n >= first)
        assert problems()[0]["seq"] == expected
        transaction.set_rollback(True)
    assert problems() == []


@pytest.mark.parametrize("kept", range(ENTRIES))
def test_a_log_cut_off_anywhere_is_found_where_it_ends(kept: int) -> None:
    remove(kept + 1, ENTRIES)
    found = problems()
    assert found[-1]["seq"] == kept + 1
    assert found[-1]["code"] == "end_missing"


def test_an_end_cut_off_behind_the_last_signature_is_found_without_the_machine_that_saw_it(
    kept_outside: Path,
) -> None:
    next(kept_outside.glob("*.head")).unlink()
    remove(5, ENTRIES)
    assert [p["seq"] for p in problems()] == [5]


def test_new_entries_over_a_cut_end_do_not_hide_it(write: Callable[[int], None]) -> None:
    remove(7, ENTRIES)
    write(5)
    found = problems()
    assert found[0]["seq"] == ENTRIES
    assert found[0]["code"] == "end_rewritten"


def test_an_entry_put_in_with_a_number_of_its_own_is_found() -> None:
    fields = AuditEntry.objects.filter(seq=4).values(*chain.FIELDS).get()
    new = {**fields, "seq": 0}
    AuditEntry(**new, hash=chain.entry_hash(new)).save(force_insert=True)
    assert (problems()[0]["seq"], problems()[0]["code"]) == (0, "entry_inserted")


def test_an_entry_put_in_between_is_found_by_its_seal_and_where_one_behind_it_was_signed() -> None:
    with unguarded():
        for seq in range(ENTRIES, 3, -1):
            AuditEntry.objects.filter(seq=seq).update(seq=seq + 1)
        fields = AuditEntry.objects.filter(seq=3).values(*chain.FIELDS).get()
        new = {**fields, "seq": 4, "says": "never happened", "prev_hash": AuditEntry.objects.get(seq=3).hash}
        AuditEntry(**new, hash=chain.entry_hash(new)).save(force_insert=True)
    rewrite(5)
    assert [p["seq"] for p in problems()] == [4, 6, 8]


def test_a_whole_log_written_anew_is_found_at_its_first_signature(kept_outside: Path) -> None:
    next(kept_outside.glob("*.head")).unlink()
    rewrite(1, says="forged")
    assert [p["seq"] for p in problems()] == [3, 6]


def append(*, format: int = chain.FORMAT, seal: str | None = None, **values: Any) -> AuditEntry:
    """Put a proper next entry at the end, as one who owns the database and has read how entries are made."""
    last = AuditEntry.objects.order_by("-seq").values(*chain.FIELDS, "hash").first()
    assert last is not None
    hash = last.pop("hash")
    new = {
        **last,
        "seq": last["seq"] + 1,
        "prev_hash": hash,
        "format": format,
        "says": "never happened",
        **values,
    }
    made = AuditEntry(**new, hash=chain.entry_hash(new), seal=seal)
    made.save(force_insert=True)
    return made


class TestSeals:
    """The very end, of which no anchor says anything yet."""

    @pytest.mark.parametrize(
        ("what", "code"),
        [
            ("no seal", "seal_wrong"),
            ("another's seal", "seal_wrong"),
            ("a seal made up", "seal_wrong"),
            ("an unknown key", "seal_unknown_key"),
            ("an older format", "format_older"),
        ],
    )
    def test_an_entry_that_somebody_else_appended_is_found_and_never_signed(
        self, what: str, code: str
    ) -> None:
        theirs = AuditEntry.objects.get(seq=ENTRIES).seal or ""
        given = {
            "another's seal": theirs, "a seal made up": theirs.partition(":")[0] + ":" + "0" * 64,
            "an unknown key": "f" * 16 + ":" + "0" * 64,
        }  # fmt: skip
        append(format=2 if what == "an older format" else chain.FORMAT, seal=given.get(what))
        found = problems()
        assert [(p["seq"], p["code"]) for p in found] == [(ENTRIES + 1, code)]
        with refused("log_broken", Refused):
            log_operations.sign_chain()

    def test_the_seal_of_an_entry_that_was_signed_over_is_checked_too(self) -> None:
        forge(2, seal=None)
        assert [p["seq"] for p in problems()] == [2]

    def test_a_changed_end_with_a_hash_that_fits_is_found_before_it_is_signed(
        self, kept_outside: Path
    ) -> None:
        next(kept_outside.glob("*.head")).unlink()
        seal = AuditEntry.objects.get(seq=ENTRIES).seal
        rewrite(ENTRIES, says="forged")
        forge(ENTRIES, seal=seal)
        assert [p["seq"] for p in problems()] == [ENTRIES]

    def test_after_a_change_of_the_secret_key_the_former_one_proves_what_no_anchor_does(
        self, settings: Any, sign: Callable[[], Any]
    ) -> None:
        former, settings.SECRET_KEY = (
            settings.SECRET_KEY,
            "another secret key, as long as it has to be, and more",
        )
        assert [p["seq"] for p in problems()] == [ENTRIES]
        assert "REPRISE_SECRET_KEY_FALLBACKS" in problems()[0]["says"]
        settings.SECRET_KEY_FALLBACKS = [former]
        assert problems() == []
        sign()
        settings.SECRET_KEY_FALLBACKS = []
        assert problems() == [], "the anchor stands for them"
        forge(ENTRIES, says="forged")
        assert [p["seq"] for p in problems()] == [ENTRIES]

    def test_entries_from_before_seals_are_good_as_long_as_none_follows_a_sealed_one(
        self, write: Callable[[int], None], kept_outside: Path
    ) -> None:
        for file in (*kept_outside.glob("*.head"), *kept_outside.glob("*.anchors")):
            file.unlink()
        with unguarded():
            AuditAnchor.objects.all()._raw_delete(using="default")  # type: ignore[attr-defined]
        rewrite_as_second_format()
        write(1)
        assert problems() == []
        append(format=2)
        assert [p["seq"] for p in problems()] == [ENTRIES + 2]


def rewrite_as_second_format() -> None:
    """The log as the version before wrote it."""
    with unguarded():
        prev = chain.GENESIS
        for entry in AuditEntry.objects.order_by("seq").values(*chain.FIELDS):
            new = {**entry, "format": 2, "prev_hash": prev}
            prev = chain.entry_hash(new)
            AuditEntry.objects.filter(seq=entry["seq"]).update(**{**new, "hash": prev, "seal": None})


class TestAnchors:
    def test_one_removed_from_the_database_is_missed_by_the_file(self) -> None:
        with unguarded():
            AuditAnchor.objects.filter(seq=3)._raw_delete(using="default")  # type: ignore[attr-defined]
        assert [(p["seq"], p["code"]) for p in problems()] == [(3, "anchor_removed")]

    def test_one_that_was_changed_carries_a_signature_that_does_not_fit(self) -> None:
        rewrite(6, says="forged")
        with unguarded():
            AuditAnchor.objects.filter(seq=6).update(hash=AuditEntry.objects.get(seq=6).hash)
        said = problems()[0]
        assert (said["seq"], said["code"]) == (6, "anchor_forged")

    def test_one_of_a_key_that_nobody_listed_proves_nothing(
        self, kept_outside: Path, sign: Callable[[], Any]
    ) -> None:
        (kept_outside / "audit.key").unlink()
        sign()
        listed = (kept_outside / "audit.keys").read_text().splitlines()
        (kept_outside / "audit.keys").write_text(listed[0] + "\n")
        assert problems()[0]["code"] == "anchor_unknown_key"

    def test_one_that_came_while_the_log_was_read_is_not_missed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outside = [s for s in anchoring.iterate_statements() if s.outside]
        assert len(outside) == 2
        monkeypatch.setattr(anchoring, "iterate_statements", lambda: iter(outside))
        assert problems() == []

    def test_a_lost_file_beside_the_log_is_no_forgery(self, kept_outside: Path) -> None:
        next(kept_outside.glob("*.anchors")).unlink()
        assert problems() == []

    def test_a_line_that_a_stop_of_the_machine_tore_is_passed_over(
        self, kept_outside: Path, write: Callable[[int], None], sign: Callable[[], Any]
    ) -> None:
        file = next(kept_outside.glob("*.anchors"))
        file.write_bytes(file.read_bytes()[:-30])
        sign()
        assert problems() == []
        assert file.read_bytes().count(b"\n") == 3

    def test_what_is_forged_is_never_signed_and_the_banner_comes_up(self) -> None:
        forge(7, says="forged")
        assert [(p["seq"], p["code"]) for p in problems()] == [(7, "entry_changed")]
        with refused("log_broken", Refused, names=("Entry 7",)):
            log_operations.sign_chain()
        log_operations.sign_or_report()
        log_operations.sign_or_report()
        assert AuditCheck.objects.values_list("ok", flat=True).get() is False
        assert AuditAnchor.objects.count() == 2

    def test_what_was_signed_and_then_rewritten_is_not_built_upon(
        self, write: Callable[[int], None], sign: Callable[[], Any]
    ) -> None:
        with unguarded():
            AuditAnchor.objects.filter(seq=3)._raw_delete(using="default")  # type: ignore[attr-defined]
        rewrite(6, says="forged")
        assert (6, "signed_rewritten") in [(p["seq"], p["code"]) for p in problems()]
        with refused("log_broken", Refused, names=("Entry 6",)):
            sign()

    def test_what_is_signed_already_is_not_signed_again(self, sign: Callable[[], Any]) -> None:
        assert sign().statement.seq == ENTRIES
        assert sign() is None

    def test_two_anchors_in_another_order_in_the_file_are_both_good(self, kept_outside: Path) -> None:
        file = next(kept_outside.glob("*.anchors"))
        file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))
        with unguarded():
            forged = AuditEntry.objects.filter(seq=2)
            forged.update(says="x")
        assert problems()[0]["seq"] == 2
