from typing import Any

from django.db import migrations, models

NOTHING_BEGAN = "Nothing shows that it began:"


def name_causes(apps: Any, schema_editor: Any) -> None:
    """Of starts that ended before: the text was the code."""
    starts = apps.get_model("recovery", "StreamStart").objects
    starts.filter(failure__startswith=NOTHING_BEGAN).update(failure_class="NothingBegan")


class Migration(migrations.Migration):
    dependencies = [("recovery", "0041_application_of_a_log")]

    operations = [
        migrations.AddField("step", "problem_code", models.CharField(blank=True, default="", max_length=80)),
        migrations.AddField("streamstart", "failure_class", models.CharField(blank=True, default="", max_length=80)),
        migrations.RunPython(name_causes, migrations.RunPython.noop),
    ]
