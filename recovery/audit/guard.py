"""The database's own refusal to change the audit log: triggers against UPDATE, DELETE and TRUNCATE.

The model refuses as well, but raw SQL, another program or a bug would pass it by. Whoever owns the
database can still drop a trigger: then `verify` finds the change by the chain, and says that the
guard is gone. Used by a migration: what `install` makes must stay what that migration made.
"""

from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

TABLE: Final = "recovery_auditentry"
UPDATE_TRIGGER: Final = "audit_no_update"
DELETE_TRIGGER: Final = "audit_no_delete"
TRUNCATE_TRIGGER: Final = "audit_no_truncate"
SAYS: Final = "The audit log is append-only."

_SQLITE: Final = (
    f"CREATE TRIGGER {UPDATE_TRIGGER} BEFORE UPDATE ON {TABLE} "
    f"BEGIN SELECT RAISE(ABORT, '{SAYS}'); END",
    f"CREATE TRIGGER {DELETE_TRIGGER} BEFORE DELETE ON {TABLE} "
    f"BEGIN SELECT RAISE(ABORT, '{SAYS}'); END",
)  # fmt: skip

_POSTGRES: Final = (
    "CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{SAYS}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
    f"CREATE TRIGGER {UPDATE_TRIGGER} BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    f"CREATE TRIGGER {DELETE_TRIGGER} BEFORE DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    f"CREATE TRIGGER {TRUNCATE_TRIGGER} BEFORE TRUNCATE ON {TABLE} "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
)


def _names(connection: BaseDatabaseWrapper) -> tuple[str, ...]:
    both = (UPDATE_TRIGGER, DELETE_TRIGGER)
    return both if connection.vendor == "sqlite" else (*both, TRUNCATE_TRIGGER)


def install(connection: BaseDatabaseWrapper) -> None:
    """Create the triggers. Raises DatabaseError when they are already there."""
    with connection.cursor() as cursor:
        for statement in _SQLITE if connection.vendor == "sqlite" else _POSTGRES:
            cursor.execute(statement)


def remove(connection: BaseDatabaseWrapper) -> None:
    """Drop the triggers: for the way back of the migration, and for tests that force a change."""
    on = "" if connection.vendor == "sqlite" else f" ON {TABLE}"
    with connection.cursor() as cursor:
        for name in _names(connection):
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{on}")


def stands(connection: BaseDatabaseWrapper) -> bool:
    """Are all triggers in place and switched on?"""
    if connection.vendor == "sqlite":
        sql = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s"
    else:
        sql = "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgenabled <> 'D'"
    with connection.cursor() as cursor:
        cursor.execute(sql, [TABLE])
        found = {row[0] for row in cursor.fetchall()}
    return found >= set(_names(connection))
