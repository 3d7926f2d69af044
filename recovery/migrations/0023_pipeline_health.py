"""How a pipeline is as a whole, and a message when it begins to fail for every channel that hears of a failing flow."""

from typing import Any

from django.db import migrations, models

FLOW, PIPELINE = "flow.failed", "pipeline.failed"


def subscribe(apps: Any, schema_editor: Any) -> None:
    for channel in apps.get_model("recovery", "Channel").objects.all():
        if FLOW in channel.events and PIPELINE not in channel.events:
            after = channel.events.index(FLOW) + 1
            channel.events = [*channel.events[:after], PIPELINE, *channel.events[after:]]
            channel.save(update_fields=["events"])


class Migration(migrations.Migration):
    dependencies = [("recovery", "0022_workspaces")]

    operations = [
        migrations.AddField("pipeline", "judged", models.CharField(blank=True, default="", max_length=20)),
        migrations.AddField("pipeline", "judged_since", models.DateTimeField(null=True)),
        migrations.AddField("pipeline", "failure", models.JSONField(default=dict)),
        migrations.RunPython(subscribe, migrations.RunPython.noop),
    ]
