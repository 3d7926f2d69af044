"""What the console's processes import: pyspark is none of it, and neither is what answers questions."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
IMPORTS = """
import sys
from console.celery import app
import django; django.setup()
app.loader.import_default_modules()
import console.urls, console.wsgi, console.life
from recovery.workflow import steps, engine, gather, evidence, learning, probing
odd = ("pyspark", "py4j", "grpc", "recovery.spark.child", "recovery.spark.answers", "recovery.spark.session")
print([name for name in sys.modules if name.startswith(odd)])
"""


def test_web_workers_and_beat_import_nothing_that_runs_a_pipeline_s_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
