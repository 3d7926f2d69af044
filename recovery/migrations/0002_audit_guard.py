"""The audit log can only grow: the database itself refuses to change or delete an entry."""

from django.db import migrations

from recovery.audit import guard


def install(apps, schema_editor):
    guard.install(schema_editor.connection)


def remove(apps, schema_editor):
    guard.remove(schema_editor.connection)


class Migration(migrations.Migration):

    dependencies = [("recovery", "0001_initial")]

    operations = [migrations.RunPython(install, remove)]
