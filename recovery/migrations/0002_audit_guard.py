"""The audit log can only grow: the database itself refuses to change or delete an entry."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from recovery.audit import guard


def install(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    guard.install(schema_editor.connection)


def remove(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    guard.remove(schema_editor.connection)


class Migration(migrations.Migration):

    dependencies = [("recovery", "0001_initial")]

    operations = [migrations.RunPython(install, remove)]
