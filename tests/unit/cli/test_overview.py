"""`bin/manage --help` names each command of ours once, and none of Django's."""

from django.core.management import find_commands, get_commands

from recovery import management
from recovery.management.overview import APP, GROUPS, write_overview


def test_each_command_is_in_one_group() -> None:
    ours = find_commands(next(iter(management.__path__)))
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(ours)


def test_no_command_of_django_is_offered() -> None:
    offered = {line.split()[0] for line in write_overview().splitlines() if line.startswith("  ")}
    assert offered == {name for name, app in get_commands().items() if app == APP}
