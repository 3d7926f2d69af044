from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0041_application_of_a_log")]

    operations = [
        migrations.AddField("step", "problem_code", models.CharField(blank=True, default="", max_length=80)),
    ]
