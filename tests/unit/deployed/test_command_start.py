"""Commands that ask no Spark start without what is heavy: at three in the morning, every second of a start counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import manage
from tests.stack import clean_environment

ROOT = Path(__file__).resolve().parents[3]
HEAVY = (
    "allauth",
    "celery",
    "confluent_kafka",
    "kombu",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pyspark",
)
# What every command starts with is loaded once; then each command in a fork of its own.
LOAD = """
import json, os, sys
import django
django.setup()
from django.core.management import load_command_class
for command in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        load_command_class("recovery", command)
        print(json.dumps([command, sorted({name.split(".")[0] for name in sys.modules})]), flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, command
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The packages that each command has loaded when it begins."""
    environment = clean_environment(tmp_path_factory.mktemp("home"))
    environment |= {"DJANGO_SETTINGS_MODULE": "console.settings_reading", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *sorted(manage.READING)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr  # names the command: without it, all examples would fail alike
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("command", sorted(manage.READING))
def test_a_command_that_reads_starts_without_what_it_does_not_need(
    loaded: dict[str, list[str]], command: str
) -> None:
    assert {"django", "recovery"} <= set(loaded[command])
    assert set(loaded[command]) & set(HEAVY) == set()


def test_settings_for_reading_know_every_record_and_say_how_a_message_is_sent() -> None:
    from console import settings, settings_reading

    assert set(settings_reading.INSTALLED_APPS) < set(settings.INSTALLED_APPS)
    assert settings_reading.DATABASES == settings.DATABASES
    assert settings_reading.REPRISE_CELERY == "console.celery"
