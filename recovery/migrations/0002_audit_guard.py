"""The audit log can only grow: the database itself refuses to change or delete an entry."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

TABLE = "recovery_auditentry"
SAYS = "The audit log is append-only."
REFUSE = f"BEGIN SELECT RAISE(ABORT, '{SAYS}'); END"
SQLITE = (
    f"CREATE TRIGGER audit_no_update BEFORE UPDATE ON {TABLE} {REFUSE}",
    f"CREATE TRIGGER audit_no_delete BEFORE DELETE ON {TABLE} {REFUSE}",
)
POSTGRES = (
    "CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$BEGIN RAISE EXCEPTION '{SAYS}' USING ERRCODE = 'integrity_constraint_violation'; END$$",
    f"CREATE TRIGGER audit_no_update BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    f"CREATE TRIGGER audit_no_delete BEFORE DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    f"CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
)


def install(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    with schema_editor.connection.cursor() as cursor:
        for statement in SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRES:
            cursor.execute(statement)


def remove(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    sqlite = schema_editor.connection.vendor == "sqlite"
    with schema_editor.connection.cursor() as cursor:
        for event in ("update", "delete", *(() if sqlite else ("truncate",))):
            on = "" if sqlite else f" ON {TABLE}"
            cursor.execute(f"DROP TRIGGER IF EXISTS audit_no_{event}{on}")


class Migration(migrations.Migration):

    dependencies = [("recovery", "0001_initial")]

    operations = [migrations.RunPython(install, remove)]
