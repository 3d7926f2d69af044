"""A start keeps the newest batch that it brought: what its run commits later is of the run, not of the recovery."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0045_doubt_by_updates")]

    operations = [migrations.AddField("streamstart", "batch_after", models.BigIntegerField(null=True))]
