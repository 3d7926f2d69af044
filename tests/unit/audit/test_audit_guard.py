"""The database itself refuses to change or remove what is kept, and a guard that is gone is found."""

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from recovery.audit import anchoring, guard, keys
from recovery.models import AuditAnchor, AuditEntry
from tests.unit.audit.conftest import problems

pytestmark = pytest.mark.usefixtures("signed_log")


def _rows_everywhere() -> None:
    from recovery.models import ReviewItem, SignOff

    item = ReviewItem(seq=1, why="production", at=timezone.now())
    item.save(force_insert=True)
    SignOff(item=item, by="a", note="b", at=timezone.now()).save(force_insert=True)
    connection.check_constraints()  # PostgreSQL cuts off no table while a check of it waits for the commit


@pytest.mark.parametrize("table", guard.TABLES)
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET seq = seq + 1", "DELETE FROM {}", "TRUNCATE {} CASCADE"]
)
def test_the_database_refuses_to_change_what_is_kept(table: str, statement: str) -> None:
    if "TRUNCATE" in statement and connection.vendor == "sqlite":
        statement = "DELETE FROM {} WHERE 1 = 1"  # SQLite has no TRUNCATE
    if "UPDATE" in statement and table == "recovery_signoff":
        statement = "UPDATE {} SET note = 'x'"
    _rows_everywhere()
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format(table))


@pytest.mark.parametrize("name", ["audit_no_update", "recovery_signoff_no_delete"])
def test_a_trigger_that_is_gone_is_named(name: str) -> None:
    table = "recovery_signoff" if "signoff" in name else guard.ENTRIES
    on = "" if connection.vendor == "sqlite" else f" ON {table}"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}{on}")
    (found,) = problems()
    assert (found["seq"], found["code"]) == (0, "triggers_gone")
    assert f"({name})" in found["says"]


def test_a_trigger_of_the_same_name_that_refuses_nothing_is_no_trigger() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER audit_no_update")
            cursor.execute(
                "CREATE TRIGGER audit_no_update BEFORE UPDATE ON recovery_auditentry BEGIN SELECT 1; END"
            )
        else:
            cursor.execute(
                "CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$BEGIN RETURN NEW; END$$"
            )
    assert "audit_no_update" in problems()[0]["says"]


def test_a_cut_that_our_key_has_not_signed_lets_entries_go_and_is_found() -> None:
    entry = AuditEntry.objects.get(seq=4)
    AuditAnchor(
        kind=anchoring.CUT, seq=4, hash=entry.hash, at=timezone.now(), key_id=next(iter(keys.public_keys())),
        signature="00" * 64,
    ).save(force_insert=True)  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM recovery_auditentry WHERE seq <= 4")
    found = problems()
    assert [(p["seq"], p["code"]) for p in found[:2]] == [(4, "cut_forged"), (1, "entries_missing")]
    assert "1 to 4" in found[1]["says"]
