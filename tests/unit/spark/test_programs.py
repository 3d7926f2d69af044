"""What a plain program would start is learned without a start, whatever way it goes about it. No Spark answers here."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.spark import programs
from recovery.spark.definitions import BadCode

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


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session of Spark Connect that nobody answers: plans are made, and nothing is asked."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:9")
    monkeypatch.setattr("pyspark.errors.utils.is_debugging_enabled", lambda: False)
    monkeypatch.setattr(programs, "_set", lambda *_: None)
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection="sc://127.0.0.1:9")
    yield session
    session.client._channel.close()


def started(spark: Any, tmp_path: Path, code: str, *arguments: str) -> list[programs.Query]:
    file = tmp_path / "program.py"
    file.write_text(HEAD + code)
    return programs._queries(spark, file, arguments, {"/program.py": file})


def test_a_program_with_a_master_of_its_own_is_read_and_waits_for_nothing(spark: Any, tmp_path: Path) -> None:
    code = (
        SESSION + 'spark.sparkContext.setLogLevel("WARN")\n' + READ + START.format("orders")
        + "while q.isActive:\n    time.sleep(60)\nq.awaitTermination()\n"
        + "spark.streams.awaitAnyTermination()\nspark.stop()\n"
    )  # fmt: skip
    (query,) = started(spark, tmp_path, code)
    assert (query.format, query.name, query.mode, query.checkpoint) == (
        "delta",
        "orders",
        "append",
        "/ck/orders",
    )
    assert query.options["path"] == "/out/orders"
    assert query.frame.sparkSession is spark


def test_arguments_main_guards_and_modules_beside_it_are_as_in_a_run(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "places.py").write_text('CHECKPOINT = "/ck/x"\n')
    code = (
        "def main():\n    p = argparse.ArgumentParser(); p.add_argument('--out'); a = p.parse_args()\n"
        "    import places\n"
        f"    {SESSION}    {READ}"
        "    df.writeStream.outputMode('complete').trigger(processingTime='5 seconds')"
        ".options(checkpointLocation=places.CHECKPOINT, path=a.out).start().awaitTermination()\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    import sys

    sys.path.insert(0, str(tmp_path))
    try:
        (query,) = started(spark, tmp_path, code, "--out", "/out/x")
    finally:
        sys.path.remove(str(tmp_path))
    assert (query.checkpoint, query.mode, query.options["path"]) == ("/ck/x", "complete", "/out/x")


def test_what_comes_after_the_start_does_not_matter_and_a_function_of_batches_is_noted(
    spark: Any, tmp_path: Path
) -> None:
    code = (
        SESSION + READ + "def write(batch, number):\n    batch.write.save('/x')\n"
        "q = df.writeStream.foreachBatch(write).option('checkpointLocation', '/ck').start()\n"
        "print(q.lastProgress['batchId'])\n"
    )
    (query,) = started(spark, tmp_path, code)
    assert query.function == "foreachBatch"


def test_of_several_queries_the_one_with_the_checkpoint_is_taken(spark: Any, tmp_path: Path) -> None:
    queries = started(spark, tmp_path, SESSION + READ + START.format("a") + START.format("b"))
    assert programs._chosen(queries, "file:///ck/b", "x").name == "b"
    assert programs._chosen(queries, "/elsewhere", "a").name == "a"
    with pytest.raises(BadCode):
        programs._chosen(queries, "/elsewhere", "x")


@pytest.mark.parametrize(
    "code",
    [
        'spark.range(3).write.mode("overwrite").parquet("/x")\n',
        'spark.range(3).write.saveAsTable("t")\n',
        'spark.range(3).writeTo("t").append()\n',
        'spark.sql("INSERT INTO t VALUES (1)")\n',
        'spark.sql("DROP TABLE t")\n',
    ],
)
def test_what_a_program_would_write_before_its_start_is_refused(
    spark: Any, tmp_path: Path, code: str
) -> None:
    with pytest.raises(BadCode):
        started(spark, tmp_path, SESSION + code + READ + START.format("a"))


def test_a_program_that_fails_before_its_start_or_has_no_stream_is_bad_code(
    spark: Any, tmp_path: Path
) -> None:
    with pytest.raises(BadCode):
        started(spark, tmp_path, SESSION + "{}['x']\n")
    with pytest.raises(BadCode):
        programs._chosen(started(spark, tmp_path, SESSION), "/ck", "x")


def test_nothing_of_pyspark_stays_replaced(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.dataframe import DataFrame

    before = (SparkSession.Builder.getOrCreate, DataFrame.__dict__["writeStream"], dict(os.environ))
    started(spark, tmp_path, SESSION + READ + START.format("a"))
    assert before == (SparkSession.Builder.getOrCreate, DataFrame.__dict__["writeStream"], dict(os.environ))
