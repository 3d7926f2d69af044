"""A Spark of a test's own with the Delta connector: small tables, streams between them, what went wrong.

One child process for a module: Spark's settings for Delta are read when its JVM starts.
"""

from pathlib import Path
from typing import Any

from console.supervisor import jars
from recovery.server.driver import connectors
from tests.spark_child import QUICK, SparkChild

CHILD = '''
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

conf = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def sql(text):
    return [list(row) for row in spark.sql(text).collect()]


def add(table, first, files, rows=2):
    frame = spark.range(first, first + rows * files, 1, files).selectExpr("id", "id % 3 as k")
    frame.write.format("delta").mode("append").save(table)


def stream(source, table, checkpoint, options={}, select=["id"], stateful=False, until=None, breaks=None,
           keyed=None, format="delta"):
    frame = spark.readStream.format("delta").options(**options).load(source)
    if breaks is not None:
        frame = frame.selectExpr("*", f"if(id = {breaks}, raise_error('planned only'), 0) as broken")
        frame = frame.where("broken = 0").drop("broken")
    if stateful:
        frame = frame.dropDuplicates(["id"])
    frame = frame.selectExpr(*select)
    def each(batch, number):
        writer = batch.write.format("delta").mode("append")
        if keyed:
            writer = writer.option("txnAppId", keyed).option("txnVersion", number)
        writer.save(table)
    if keyed is not None:
        writer = frame.writeStream.foreachBatch(each)
    else:
        writer = frame.writeStream.format(format).option("path", table)
    writer = writer.option("checkpointLocation", checkpoint)
    if until is None:
        writer.trigger(availableNow=True).start().awaitTermination()
        return
    query = writer.trigger(processingTime="2 seconds").start()
    while not Path(checkpoint, "commits", str(until)).exists():
        if query.exception():
            raise query.exception()
        time.sleep(0.05)
    query.stop()


def whole(problem):
    """The failure with all its causes: which file is missing stands in the innermost."""
    text, cause = f"{type(problem).__name__}: {problem}"[:4000], getattr(problem, "_origin", None)
    while cause is not None:
        text += f" << {cause.toString()}"[:1000]
        cause = cause.getCause()
    return text


for line in sys.stdin:
    asked = json.loads(line)
    try:
        said = {"value": globals()[asked.pop("do")](**asked), "error": ""}
    except Exception as problem:
        said = {"value": None, "error": whole(problem)}
    print("ANSWER " + json.dumps(said, default=str), flush=True)
spark.stop()
'''
CONF = {
    "spark.databricks.delta.properties.defaults.checkpointInterval": "5",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
}


class DeltaRoom(SparkChild):
    """The child; each method is one thing it does. Raises AssertionError with its log when it dies."""

    def __init__(self, folder: Path, **conf: str) -> None:
        archives = jars.ensure("connectors", tell=lambda _: None)[0].parent
        super().__init__(folder, CHILD, {**connectors(str(archives)), **CONF, **conf})

    def ask(self, do: str, **words: Any) -> tuple[Any, str]:
        """(value, error) of one act."""
        said = self.answer({"do": do, **words})
        return said["value"], str(said["error"])

    def sql(self, text: str) -> list[list[Any]]:
        value, error = self.ask("sql", text=text)
        assert not error, error
        return list(value)

    def add(self, table: Path, first: int, files: int, rows: int = 2) -> None:
        """One commit of `files` files with `rows` rows each, ids from `first` on."""
        _, error = self.ask("add", table=str(table), first=first, files=files, rows=rows)
        assert not error, error

    def stream(self, source: Path, table: Path, checkpoint: Path, **words: Any) -> str:
        """One update: "" or the text of its failure."""
        return self.ask("stream", source=str(source), table=str(table), checkpoint=str(checkpoint), **words)[
            1
        ]

    def ids(self, table: Path) -> list[int]:
        return sorted(row[0] for row in self.sql(f"SELECT id FROM delta.`{table}`"))  # noqa: S608
