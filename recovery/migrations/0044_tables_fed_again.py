from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0043_account_that_sealed")]

    operations = [
        migrations.AddField("flow", "fed_again_at", models.DateTimeField(null=True)),
        migrations.AddField("flow", "fed_again_by", models.BigIntegerField(null=True)),
    ]
