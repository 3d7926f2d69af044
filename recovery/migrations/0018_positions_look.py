"""What a look at positions found moves out of the choices of its recovery, into a row of its own."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

LOOK = "positions_look"


def move_out(apps: Any, schema_editor: Any) -> None:
    looks = apps.get_model("recovery", "PositionsLook").objects
    recoveries = apps.get_model("recovery", "Recovery").objects
    for of in recoveries.filter(choices__has_key=LOOK).iterator():
        look = dict(of.choices[LOOK] or {})
        if "sources" in look:
            looks.create(recovery=of, sources=look.pop("sources") or [])
            recoveries.filter(pk=of.pk).update(choices={**of.choices, LOOK: look})


class Migration(migrations.Migration):
    dependencies = [("recovery", "0017_retention_channels")]

    operations = [
        migrations.CreateModel(
            name="PositionsLook",
            fields=[
                (
                    "recovery",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="positions_look",
                        serialize=False,
                        to="recovery.recovery",
                    ),
                ),
                ("sources", models.JSONField(default=list)),
            ],
        ),
        migrations.RunPython(move_out, migrations.RunPython.noop),
    ]
