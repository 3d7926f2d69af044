"""A flow keeps why it fails, and a pipeline since when, past the updates that the pipeline's row keeps."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0030_questions_service")]

    operations = [
        migrations.AddField("flow", "failure_memory", models.JSONField(default=dict)),
        migrations.AddField("pipeline", "failing_since", models.DateTimeField(null=True)),
    ]
