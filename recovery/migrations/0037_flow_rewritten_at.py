"""A flow keeps when its table was last written from scratch: what was in doubt before that is in it no more."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0036_flow_query_id")]

    operations = [
        migrations.AddField(
            model_name="flow",
            name="rewritten_at",
            field=models.DateTimeField(null=True),
        ),
    ]
