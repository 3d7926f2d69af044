"""The audit log only grows, and any tampering is found at its entry."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from recovery.audit import chain, guard
from recovery.audit.actions import append_entry
from recovery.audit.log_operations import verify_chain
from recovery.models import AuditEntry
from recovery.people.roles import SYSTEM


@pytest.mark.django_db
def test_an_empty_log_is_whole() -> None:
    assert verify_chain() == {
        "ok": True,
        "entries": 0,
        "first": 1,
        "head": "",
        "problems": [],
        "anchors": 0,
        "anchored": 0,
    }


def test_entries_are_numbered_from_one_and_hashed_over_the_one_before(five_entries: None) -> None:
    entries = list(AuditEntry.objects.order_by("seq"))
    assert [e.seq for e in entries] == [1, 2, 3, 4, 5]
    assert [e.prev_hash for e in entries] == [chain.GENESIS, *(e.hash for e in entries[:-1])]
    found = verify_chain()
    assert (found["ok"], found["entries"], found["head"]) == (True, 5, entries[-1].hash)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE recovery_auditentry SET says = 'x'",
        "DELETE FROM recovery_auditentry",
        "DELETE FROM recovery_auditentry WHERE seq=5",
    ],
)
def test_the_database_itself_refuses_to_change_or_delete_an_entry(five_entries: None, statement: str) -> None:
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert verify_chain()["entries"] == 5


def test_the_model_refuses_to_change_or_delete_an_entry(five_entries: None) -> None:
    entry = AuditEntry.objects.get(seq=3)
    with pytest.raises(TypeError, match="never changed"):
        entry.save()
    with pytest.raises(TypeError, match="never deleted"):
        entry.delete()


@pytest.mark.parametrize(
    "column", [c for c in chain.FIELDS if c not in ("seq", "at", "before", "after", "format")]
)
def test_a_changed_column_is_found_at_its_entry(force: Callable[[str], None], column: str) -> None:
    force(f"UPDATE recovery_auditentry SET {column} = 'forged' WHERE seq = 3")  # noqa: S608
    found = verify_chain()
    assert not found["ok"]
    assert found["problems"][0]["seq"] == 3


@pytest.mark.parametrize(
    ("sql", "seq", "words"),
    [
        (
            "UPDATE recovery_auditentry SET at = '2020-01-01 00:00:00' WHERE seq = 2",
            2,
            "not what was written",
        ),
        ("""UPDATE recovery_auditentry SET after = '{"lost": 0}' WHERE seq = 4""", 4, "not what was written"),
        ("DELETE FROM recovery_auditentry WHERE seq = 3", 3, "Entry 3 is missing"),
        ("DELETE FROM recovery_auditentry WHERE seq IN (2, 3, 4)", 2, "Entries 2 to 4 are missing"),
        ("DELETE FROM recovery_auditentry WHERE seq = 1", 1, "Entry 1 is missing"),
        ("UPDATE recovery_auditentry SET seq = 9 WHERE seq = 5", 5, "Entries 5 to 8 are missing"),
        ("UPDATE recovery_auditentry SET seq = 0 WHERE seq = 4", 0, "no place in the chain"),
    ],
)
def test_a_forced_change_is_found_where_it_is(
    force: Callable[[str], None], sql: str, seq: int, words: str
) -> None:
    force(sql)
    found = verify_chain()
    assert not found["ok"]
    assert found["problems"][0]["seq"] == seq
    assert words in found["problems"][0]["says"]


def test_two_entries_that_changed_places_are_found(force: Callable[[str], None]) -> None:
    force("UPDATE recovery_auditentry SET seq = 99 WHERE seq = 2; ")
    force("UPDATE recovery_auditentry SET seq = 2 WHERE seq = 4")
    force("UPDATE recovery_auditentry SET seq = 4 WHERE seq = 99")
    assert [p["seq"] for p in verify_chain()["problems"]] == [2, 3, 4, 5]


def test_a_rewritten_entry_with_a_fitting_hash_has_no_seal_and_breaks_the_next_one(
    force: Callable[[str], None],
) -> None:
    entry = AuditEntry.objects.filter(seq=3).values(*chain.FIELDS).get()
    forged = chain.entry_hash({**entry, "says": "forged"})
    force(f"UPDATE recovery_auditentry SET says = 'forged', hash = '{forged}' WHERE seq = 3")  # noqa: S608
    assert [p["seq"] for p in verify_chain()["problems"]] == [3, 4]


def test_a_missing_guard_is_said(five_entries: None) -> None:
    guard.remove_triggers(connection)
    found = verify_chain()
    assert not found["ok"]
    assert "triggers are gone" in found["problems"][0]["says"]


def test_a_log_with_thousands_of_forged_entries_has_a_short_report(force: Callable[[str], None]) -> None:
    for number in range(150):
        append_entry(action="step.run", outcome="done", by=SYSTEM, says=f"More {number}.")
    force("UPDATE recovery_auditentry SET says = 'forged'")
    problems = verify_chain()["problems"]
    assert len(problems) == 101
    assert problems[-1]["says"] == "55 more problems."


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats()
    | st.text(max_size=20)
    | st.just("\x00"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.django_db
@given(value=json_values, says=st.text(max_size=30))
def test_any_value_reads_back_with_the_same_hash(value: object, says: str) -> None:
    with transaction.atomic():
        entry = append_entry(
            action="plan.seal", outcome="done", by=SYSTEM, says=says, before=value, after={"v": value}
        )
        stored = AuditEntry.objects.filter(pk=entry.pk).values(*chain.FIELDS, "hash").get()
        assert chain.entry_hash(stored) == stored["hash"]
        transaction.set_rollback(True)


def test_what_is_not_json_is_a_bug_and_said_so() -> None:
    with pytest.raises(TypeError, match="object cannot"):
        chain.as_plain_json({"x": object()})


def test_dates_sets_and_tuples_become_plain() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert chain.as_plain_json({"a": at, "b": {"z", "a"}, "c": (1.0, 2.5)}) == {
        "a": "2026-11-21T00:00:00+00:00",
        "b": ["a", "z"],
        "c": [1, 2.5],
    }
