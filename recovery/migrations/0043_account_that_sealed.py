from typing import Any

from django.db import migrations, models


def find_accounts(apps: Any, schema_editor: Any) -> None:
    """Of who sealed before, by the name that was kept; without an account the name stays what is compared."""
    accounts = dict(apps.get_model("auth", "User").objects.values_list("username", "pk"))
    for kind in ("Plan", "JointPlan"):
        rows = apps.get_model("recovery", kind).objects
        for name in rows.values_list("sealed_by", flat=True).order_by().distinct():
            rows.filter(sealed_by=name).update(sealed_by_id=accounts.get(name))


class Migration(migrations.Migration):
    dependencies = [("recovery", "0042_codes_of_steps_and_starts"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.AddField("plan", "sealed_by_id", models.BigIntegerField(null=True)),
        migrations.AddField("jointplan", "sealed_by_id", models.BigIntegerField(null=True)),
        migrations.RunPython(find_accounts, migrations.RunPython.noop),
    ]
