"""A flow keeps what was counted below it because a person asked."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0031_failure_memory")]

    operations = [migrations.AddField("flow", "below_count", models.JSONField(default=dict))]
