"""Commands that ask no Spark start without what is heavy: at three in the morning, every second of a start counts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import manage

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
LOAD = """
import json, sys
import django
django.setup()
from django.core.management import load_command_class
load_command_class("recovery", sys.argv[1])
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("command", sorted(manage.READING))
def test_a_command_that_reads_starts_without_what_it_does_not_need(command: str, tmp_path: Path) -> None:
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "console.settings_reading", "REPRISE_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", LOAD, command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    loaded = set(json.loads(done.stdout))

    assert {"django", "recovery"} <= loaded
    assert loaded & set(HEAVY) == set()


def test_settings_for_reading_know_every_record_and_say_how_a_message_is_sent() -> None:
    from console import settings, settings_reading

    assert set(settings_reading.INSTALLED_APPS) < set(settings.INSTALLED_APPS)
    assert settings_reading.DATABASES == settings.DATABASES
    assert settings_reading.REPRISE_CELERY == "console.celery"
