"""The demo's plain stream: a PySpark program as a team runs it with its own scheduler. It knows nothing of Reprise."""

from typing import Final

KEEP: Final = '.dropDuplicates(["order_id"])'
"""The step that is taken out: its state is in the checkpoint."""

_PROGRAM: Final = '''\
"""Orders of the shop, from arriving files into a table. `python orders.py FOLDER` reads what is new, then ends."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

folder = sys.argv[1]
spark = (
    SparkSession.builder.appName("orders")
    .master("local[1]")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", f"file://{folder}/events")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
arriving = spark.readStream.schema("order_id int, country string, cents long").json(f"{folder}/arriving")
orders = arriving.withColumn("country", F.upper("country"))@KEEP@
query = (
    orders.writeStream.format("parquet")
    .queryName("orders")
    .option("path", f"{folder}/table")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
'''

JOB: Final = '''\
"""Runs the program as a scheduler would: `job.py start | stop | running`. `running` ends with 0 while it runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PROGRAM, PID = FOLDER / "orders.py", FOLDER / "orders.pid"


def runs() -> int:
    """Its process id; 0 where it does not run."""
    try:
        pid = int(PID.read_text())
        return pid if str(PROGRAM) in Path(f"/proc/{pid}/cmdline").read_text() else 0
    except (OSError, ValueError):
        return 0


def start() -> int:
    if runs():
        return 0
    environment = {**os.environ, "JAVA_HOME": "@JAVA@", "PYSPARK_PYTHON": sys.executable}
    with (FOLDER / "orders.log").open("w") as log:
        words = [sys.executable, str(PROGRAM), str(FOLDER)]
        started = subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)
    PID.write_text(str(started.pid))
    return 0


def stop() -> int:
    for _ in range(600):
        if not (pid := runs()):
            return 0
        os.killpg(pid, signal.SIGTERM)
        time.sleep(0.1)
    return 1


acts = {"start": start, "stop": stop, "running": lambda: 0 if runs() else 1}
sys.exit(acts[sys.argv[1]]())
'''


def write_program(*, keeps: bool) -> str:
    """The program's text; `keeps`: with the step that keeps the first row of each order."""
    return _PROGRAM.replace("@KEEP@", KEEP if keeps else "")


def write_job(java_home: str) -> str:
    """The text of the script that starts and stops the program on this Java."""
    return JOB.replace("@JAVA@", java_home)
