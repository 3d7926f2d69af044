"""A flow keeps what its recoveries say of its table, lists with it; who hears of a failing flow hears when a table
turns out to differ. What is known already is kept after the upgrade (`pipelines/follow.py`)."""

from typing import Any

from django.db import migrations, models

FLOW, DIFFERS = "flow.failed", "flow.table_differs"


def subscribe(apps: Any, schema_editor: Any) -> None:
    for channel in apps.get_model("recovery", "Channel").objects.all():
        if FLOW in channel.events and DIFFERS not in channel.events:
            after = channel.events.index(FLOW) + 1
            channel.events = [*channel.events[:after], DIFFERS, *channel.events[after:]]
            channel.save(update_fields=["events"])


class Migration(migrations.Migration):
    dependencies = [("recovery", "0037_flow_rewritten_at")]

    operations = [
        migrations.RemoveIndex(model_name="listed", name="listed_counts"),
        migrations.AddField("flow", "table_doubt", models.CharField(blank=True, default="", max_length=20)),
        migrations.AddField("flow", "differs_since", models.DateTimeField(null=True)),
        migrations.AddField("listed", "doubt", models.CharField(blank=True, default="", max_length=20)),
        migrations.AddIndex(
            "listed",
            models.Index(
                fields=[
                    "environment", "broken", "at_risk_from", "doubt", "flow", "state", "condition", "since",
                    "name",
                ],
                name="listed_counts",
            ),
        ),
        migrations.RunPython(subscribe, migrations.RunPython.noop),
    ]  # fmt: skip
