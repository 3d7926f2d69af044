"""A workspace names who answers questions about its code, in place of an address of Spark Connect.

Where that was the address of the own API server, that server answers. Another one cannot be asked by the console any
more: its workspace names no service until somebody gives it one, and what only Spark can tell is not known till then.
The columns stay in the tables for processes of the former release, which run beside this one during an upgrade.
"""

from typing import Any

from django.db import migrations, models
from django.db.models import F


def name_own_server(apps: Any, schema_editor: Any) -> None:
    """Workspaces whose Spark was the own server's ask that server."""
    workspaces = apps.get_model("recovery", "Workspace").objects.using(schema_editor.connection.alias)
    workspaces.filter(spark_remote_ref__startswith="file:/", spark_remote_ref__endswith="/spark.remote").update(
        questions_url=F("url")
    )


class Migration(migrations.Migration):
    dependencies = [("recovery", "0029_flow_memory")]

    operations = [
        migrations.AddField("workspace", "questions_url", models.URLField(blank=True, default="", max_length=300)),
        migrations.AddField(
            "workspace", "questions_token_ref", models.CharField(blank=True, default="", max_length=300)
        ),
        migrations.AddField("workspace", "questions_token_kept", models.TextField(blank=True, default="")),
        migrations.AddField("workspace", "questions_spark", models.CharField(blank=True, default="", max_length=80)),
        migrations.RunPython(name_own_server, migrations.RunPython.noop),
        migrations.AlterField(
            "workspace", "spark_remote_ref", models.CharField(blank=True, max_length=300, db_default="")
        ),
        migrations.AlterField("workspace", "spark_remote_kept", models.TextField(blank=True, db_default="")),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField("workspace", "spark_remote_ref"),
                migrations.RemoveField("workspace", "spark_remote_kept"),
            ]
        ),
    ]
