"""The database's own refusal to change the audit log: triggers against UPDATE, DELETE and TRUNCATE.

The model refuses as well, but raw SQL, another program or a bug would pass it by. Whoever owns the database can
still drop a trigger: then `verify` finds the change by the chain, and says that the guard is gone. One way is
open: an entry may be deleted once an anchor of kind `cut` covers it, which `archiving` writes in the same
transaction; a cut that our key has not signed is found by `verify`. Used by migrations: what `install` makes
must stay what they made.
"""

from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

ENTRIES: Final = "recovery_auditentry"
BESIDE: Final = ("recovery_auditanchor", "recovery_reviewitem", "recovery_signoff")
TABLES: Final = (ENTRIES, *BESIDE)
SAYS: Final = "The audit log is append-only."
_CUT: Final = "SELECT 1 FROM recovery_auditanchor WHERE kind = 'cut' AND seq >= OLD.seq"
_BODIES: Final = {
    "audit_refuse": f"BEGIN RAISE EXCEPTION '{SAYS}' USING ERRCODE = 'integrity_constraint_violation'; END",
    "audit_refuse_uncut": f"BEGIN IF EXISTS ({_CUT}) THEN RETURN OLD; END IF; "
    f"RAISE EXCEPTION '{SAYS}' USING ERRCODE = 'integrity_constraint_violation'; END",
}


def trigger_name(table: str, event: str) -> str:
    """The name of a trigger; those of the entries are older than the other tables."""
    return f"audit_no_{event}" if table == ENTRIES else f"{table}_no_{event}"


def _guards_of_sqlite(table: str) -> dict[str, str]:
    unless = f"WHEN NOT EXISTS ({_CUT}) " if table == ENTRIES else ""
    refuse = f"BEGIN SELECT RAISE(ABORT, '{SAYS}'); END"
    update, delete = trigger_name(table, "update"), trigger_name(table, "delete")
    return {
        update: f"CREATE TRIGGER {update} BEFORE UPDATE ON {table} {refuse}",
        delete: f"CREATE TRIGGER {delete} BEFORE DELETE ON {table} {unless}{refuse}",
    }


def _guards_of_postgres(table: str) -> dict[str, str]:
    function = "audit_refuse_uncut" if table == ENTRIES else "audit_refuse"
    made = {}
    for event, each, does in (
        ("update", "ROW", "audit_refuse"),
        ("delete", "ROW", function),
        ("truncate", "STATEMENT", "audit_refuse"),
    ):
        name = trigger_name(table, event)
        made[name] = (
            f"CREATE TRIGGER {name} BEFORE {event.upper()} ON {table} FOR EACH {each} EXECUTE FUNCTION {does}()"
        )
    return made


def install_triggers(connection: BaseDatabaseWrapper) -> None:
    """Create the triggers of every table. Raises DatabaseError when they are already there."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for name, body in _BODIES.items():
                cursor.execute(
                    f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
                )
        for table in TABLES:
            made = _guards_of_sqlite(table) if connection.vendor == "sqlite" else _guards_of_postgres(table)
            for statement in made.values():
                cursor.execute(statement)


def remove_triggers(connection: BaseDatabaseWrapper) -> None:
    """Drop the triggers: for the way back of the migration, and for tests that force a change."""
    with connection.cursor() as cursor:
        for table in TABLES:
            if table not in connection.introspection.table_names(cursor):
                continue
            for name in (
                _guards_of_sqlite(table) if connection.vendor == "sqlite" else _guards_of_postgres(table)
            ):
                on = "" if connection.vendor == "sqlite" else f" ON {table}"
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}{on}")


def missing_triggers(connection: BaseDatabaseWrapper) -> list[str]:
    """Names of triggers that are gone, switched off, or no longer what was installed."""
    triggers = (
        _sqlite_triggers(connection) if connection.vendor == "sqlite" else _postgres_triggers(connection)
    )
    expected: dict[str, str] = {}
    for table in TABLES:
        expected |= _guards_of_sqlite(table) if connection.vendor == "sqlite" else _guards_of_postgres(table)
    return sorted(name for name, made in expected.items() if triggers.get(name) != made)


def _sqlite_triggers(connection: BaseDatabaseWrapper) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        return dict(cursor.fetchall())


def _postgres_triggers(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """By name, the statement that made it; one with another function body, or switched off, is left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.tgname, pg_get_triggerdef(t.oid), p.proname, p.prosrc FROM pg_trigger t "
            "JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgenabled = 'O' AND NOT t.tgisinternal"
        )
        rows = cursor.fetchall()
    return {
        name: made.replace(" ON public.", " ON ")
        for name, made, function, body in rows
        if _BODIES.get(function) == body
    }
