"""Plain programs in pieces, and what the study learns of one. No Spark answers here."""

from pathlib import Path
from typing import Any

from recovery.spark import programs

HEAD = """\
import sys, time, argparse
from pyspark.sql import SparkSession
"""
SESSION = (
    'spark = SparkSession.builder.appName("a").master("local[2]").config("spark.ui.enabled", "false")'
    ".getOrCreate()\n"
)
READ = 'df = spark.readStream.schema("id int").json("/in")\n'
START = (
    'q = df.writeStream.format("delta").option("checkpointLocation", "/ck/{0}").queryName("{0}")'
    '.start("/out/{0}")\n'
)
NOTEBOOK = """\
# Databricks notebook source
dbutils.widgets.text("place", "/in")
dbutils.widgets.text("name", "orders")
# COMMAND ----------
df = spark.readStream.schema("id int").json(dbutils.widgets.get("place"))
display(df)
# COMMAND ----------
name = dbutils.widgets.get("name")
df.writeStream.option("checkpointLocation", f"/ck/{name}").trigger(availableNow=True).toTable(name)
dbutils.notebook.exit("ok")
"""


def started(spark: Any, tmp_path: Path, code: str, *arguments: str) -> list[programs.ProgramQuery]:
    file = tmp_path / "program.py"
    file.write_text(HEAD + code)
    return list(learned(spark, file, *arguments).queries)


def learned(spark: Any, file: Path, *arguments: str) -> programs.LearnedProgram:
    return programs._queries(spark, file, arguments, {"/program.py": file})
