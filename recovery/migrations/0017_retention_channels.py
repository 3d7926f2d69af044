"""Channels that are told when a flow fails are told too when its unread input is about to go.

The event `flow.retention` came with 0016: a channel of before that could not ask for it, one of later could.
"""

from typing import Any

from django.db import migrations
from django.db.migrations.recorder import MigrationRecorder

FAILED, RETENTION = "flow.failed", "flow.retention"


def subscribe(apps: Any, schema_editor: Any) -> None:
    channels = apps.get_model("recovery", "Channel").objects.all()
    done = MigrationRecorder(schema_editor.connection).applied_migrations()
    came = done.get(("recovery", "0016_flow_input"))
    if came is not None:
        channels = channels.filter(created_at__lt=came.applied)
    for channel in channels:
        if FAILED in channel.events and RETENTION not in channel.events:
            after = channel.events.index(FAILED) + 1
            channel.events = [*channel.events[:after], RETENTION, *channel.events[after:]]
            channel.save(update_fields=["events"])


class Migration(migrations.Migration):
    dependencies = [("recovery", "0016_flow_input")]

    operations = [migrations.RunPython(subscribe, migrations.RunPython.noop)]
