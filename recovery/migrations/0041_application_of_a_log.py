from typing import Any

from django.db import migrations, models


def complete_logs(apps: Any, schema_editor: Any) -> None:
    """Logs that have ended are not read again, so their application is named here. A log without a time was not read to
    its end."""
    logs = apps.get_model("recovery", "EventLog").objects
    logs.filter(mtime_ms=None).update(is_whole=False)
    for row in logs.only("pk", "tail").iterator(chunk_size=200):
        tail = row.tail if isinstance(row.tail, dict) else {}
        if name := str((tail.get("app") or {}).get("name") or ""):
            logs.filter(pk=row.pk).update(application=name[:300])


class Migration(migrations.Migration):
    dependencies = [("recovery", "0040_read_logs_again")]

    operations = [
        migrations.AddField("eventlog", "application", models.CharField(blank=True, default="", max_length=300)),
        migrations.AddField("eventlog", "is_whole", models.BooleanField(default=True)),
        migrations.AddField("logfolder", "log", models.CharField(blank=True, default="", max_length=400)),
        migrations.RunPython(complete_logs, migrations.RunPython.noop),
    ]
