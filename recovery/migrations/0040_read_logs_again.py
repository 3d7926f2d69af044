from typing import Any

from django.db import migrations


def read_again(apps: Any, schema_editor: Any) -> None:
    """Logs that were read before kept no session settings. One that has not ended goes on where it was: read from its
    start it would seem to have grown now."""
    logs = apps.get_model("recovery", "EventLog").objects.filter(is_done=True, is_gone=False)
    unread = {"app": {"runs": []}, "file": 0, "mark": [0, 0], "problem": "", "is_done": False}
    logs.update(is_done=False, tail=unread, mtime_ms=None, size=None)


class Migration(migrations.Migration):
    dependencies = [("recovery", "0039_joint_plans")]

    operations = [migrations.RunPython(read_again, migrations.RunPython.noop)]
