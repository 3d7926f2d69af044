"""What the console's processes import: pyspark is none of it, and neither is what answers questions."""

from pathlib import Path

from tests import command_server
from tests.stack import clean_environment

IMPORTS = """
import sys
from console.celery import app
app.loader.import_default_modules()
import console.urls, console.wsgi, console.life
from recovery.workflow import steps, engine, gather, evidence, learning, probing
odd = ("pyspark", "py4j", "grpc", "recovery.spark.child", "recovery.spark.answers", "recovery.spark.session")
print([name for name in sys.modules if name.startswith(odd)])
"""


def test_web_workers_and_beat_import_nothing_that_runs_a_pipeline_s_code(tmp_path: Path) -> None:
    """In a process that has the command server's libraries already: they are more than those of a worker."""
    shell = ["shell", "--no-imports", "-c", IMPORTS]
    done = command_server.run(shell, clean_environment(tmp_path))
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
