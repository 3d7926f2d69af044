"""A flow keeps its query id in a column of its own, so that flows that share one are found by an index."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Left


def note_known_ids(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """From the newest progress that the row has; none for a flow that its code has no more, kept for its recovery."""
    known = Left(Coalesce(KT("last_progress__id"), models.Value("")), 80)
    listed = apps.get_model("recovery", "Flow").objects.exclude(state="unknown", condition="")
    listed.update(query_id=known)


class Migration(migrations.Migration):
    dependencies = [("recovery", "0035_stream_signs")]

    operations = [
        migrations.AddField(
            "flow", "query_id", models.CharField(max_length=80, blank=True, default="", db_index=True)
        ),
        migrations.RunPython(note_known_ids, migrations.RunPython.noop),
    ]
