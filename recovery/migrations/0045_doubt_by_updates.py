"""Who hears of a failing flow hears when updates that completed, or one that runs, put a table in doubt."""

from typing import Any

from django.db import migrations

FLOW, IN_DOUBT = "flow.failed", "flow.in_doubt"


def subscribe(apps: Any, schema_editor: Any) -> None:
    for channel in apps.get_model("recovery", "Channel").objects.all():
        if FLOW in channel.events and IN_DOUBT not in channel.events:
            after = channel.events.index(FLOW) + 1
            channel.events = [*channel.events[:after], IN_DOUBT, *channel.events[after:]]
            channel.save(update_fields=["events"])


class Migration(migrations.Migration):
    dependencies = [("recovery", "0044_tables_fed_again")]

    operations = [migrations.RunPython(subscribe, migrations.RunPython.noop)]
