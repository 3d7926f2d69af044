"""A session of the run's Spark with the Delta connector: small tables, streams between them, what went wrong."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.connected_spark import ConnectedSpark

ACTS = '''
import time
from pathlib import Path

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
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress.json for progress in query.recentProgress]
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


try:
    answer = {"value": globals()[do](**asked), "error": ""}
except Exception as problem:
    answer = {"value": None, "error": whole(problem)}
'''
CONF = {
    "spark.databricks.delta.properties.defaults.checkpointInterval": "5",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
}


class DeltaRoom:
    """A session there; each method is one thing it does. Raises AssertionError when Spark has ended."""

    def __init__(self, place: str) -> None:
        self.spark = ConnectedSpark(place, CONF)

    def close(self) -> None:
        """Leave it."""
        self.spark.close()

    def ask(self, do: str, **words: Any) -> tuple[Any, str]:
        """(value, error) of one act."""
        reply = self.spark.run(ACTS, do=do, asked=words)
        return reply["value"], str(reply["error"])

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
        return self._stream(source, table, checkpoint, words)[1]

    def progress(self, source: Path, table: Path, checkpoint: Path, **words: Any) -> list[str]:
        """The progress of each batch of one update, as Spark writes it."""
        told, error = self._stream(source, table, checkpoint, words)
        assert not error, error
        return list(told)

    def _stream(
        self, source: Path, table: Path, checkpoint: Path, words: Mapping[str, Any]
    ) -> tuple[Any, str]:
        return self.ask("stream", source=str(source), table=str(table), checkpoint=str(checkpoint), **words)

    def ids(self, table: Path) -> list[int]:
        return sorted(row[0] for row in self.sql(f"SELECT id FROM delta.`{table}`"))  # noqa: S608
