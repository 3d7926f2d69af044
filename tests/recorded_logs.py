"""Event logs that real versions of Spark wrote, each beside what the program itself saw of its queries.

Tests read the copies in tests/fixtures/event_logs/spark-<version>. To record those of one version again, in an
environment outside of the project's that has this PySpark (README.md there says how):

    env -i PATH="$PATH" python -m tests.recorded_logs /tmp/streams [CASE...]

Each case runs its programs one after the other, each in a process of its own. What stays is the folder of logs and
`seen.json`: what `StreamingQuery` told the program, which no event log was read for.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FIXTURES: Final = Path(__file__).parent / "fixtures" / "event_logs"
SEEN: Final = "seen.json"
ROWS: Final = 4
FILES: Final = 2


@dataclass(frozen=True)
class Case:
    """`programs`: run one after the other over the same folders; `settings`: of Spark, for each of them."""

    name: str
    programs: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = (("spark.eventLog.compress", "false"),)
    since: tuple[int, int] = (3, 5)


def packed(codec: str) -> tuple[tuple[str, str], ...]:
    """Settings that have the log packed by a codec."""
    return (("spark.eventLog.compress", "true"), ("spark.eventLog.compression.codec", codec))


ROLLING: Final = (*packed("zstd"), ("spark.eventLog.rolling.enabled", "true"))
ONE_FILE: Final = (("spark.eventLog.rolling.enabled", "false"),)
CASES: Final = (
    Case("completed", ("dedupe",), (("spark.eventLog.compress", "false"), *ONE_FILE)),
    Case("zstd", ("dedupe",), (*packed("zstd"), *ONE_FILE)),
    Case("lz4", ("dedupe",), (*packed("lz4"), *ONE_FILE)),
    Case("snappy", ("dedupe",), (*packed("snappy"), *ONE_FILE)),
    Case("lzf", ("dedupe",), (*packed("lzf"), *ONE_FILE)),
    Case("rolling", ("dedupe",), ROLLING),
    Case("as-set-up", ("dedupe",), ()),
    Case("stateless", ("stateless",)),
    Case("aggregate", ("aggregate",)),
    Case("key-changed", ("dedupe", "dedupe_by_both")),
    Case("step-removed", ("dedupe", "stateless_over_dedupe")),
    Case("function-failed", ("failing_function",)),
    Case("killed", ("killed",)),
    Case("two-queries", ("two_queries",)),
    Case("foreach-batch", ("foreach_batch",)),
    Case("stopped-idle", ("stopped_idle",)),
)


def session(base: Path, settings: dict[str, str]) -> Any:
    """A small Spark whose log names no machine."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("orders").master("local[1]")
    told = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1", "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{base}/events", "spark.sql.warehouse.dir": f"{base}/warehouse", **settings,
    }  # fmt: skip
    for name, value in told.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def orders(spark: Any, base: Path, name: str = "in") -> Any:
    """A file a batch."""
    reader = spark.readStream.schema("id long, shop string, at timestamp").option("maxFilesPerTrigger", 1)
    return reader.json(f"{base}/{name}")


def arrive(base: Path, number: int, name: str = "in") -> None:
    """One more file of input: some ids of the one before come again."""
    (base / name).mkdir(parents=True, exist_ok=True)
    rows = [{"id": number * 2 + n, "shop": f"s{n}", "at": f"2026-01-01 0{number}:00:00"} for n in range(ROWS)]
    (base / name / f"{number:03}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def writing(frame: Any, base: Path, name: str | None = "orders", out: str = "out") -> Any:
    writer = frame.writeStream.format("parquet").option("path", f"{base}/{out}")
    writer = writer.option("checkpointLocation", f"{base}/checkpoint-{out}")
    return writer.queryName(name) if name else writer


def dedupe(spark: Any, base: Path) -> list[Any]:
    return [once(writing(orders(spark, base).dropDuplicates(["id"]), base))]


def dedupe_by_both(spark: Any, base: Path) -> list[Any]:
    return [once(writing(orders(spark, base).dropDuplicates(["id", "shop"]), base))]


def stateless(spark: Any, base: Path) -> list[Any]:
    return [once(writing(orders(spark, base).where("id > 0"), base, name=None))]


def stateless_over_dedupe(spark: Any, base: Path) -> list[Any]:
    return [once(writing(orders(spark, base), base))]


def aggregate(spark: Any, base: Path) -> list[Any]:
    from pyspark.sql import functions as F

    by_hour = orders(spark, base).withWatermark("at", "0 seconds").groupBy(F.window("at", "1 hour"), "shop")
    return [once(writing(by_hour.count(), base, name=None))]


def failing_function(spark: Any, base: Path) -> list[Any]:
    from pyspark.sql import functions as F

    def spoil(number: int) -> int:
        if number == 3:
            raise ValueError("order 3 has no shop")
        return number

    spoilt = F.udf(spoil, "long")
    return [once(writing(orders(spark, base).withColumn("id", spoilt("id")), base))]


def killed(spark: Any, base: Path) -> list[Any]:
    """Its second batch is under way when its driver is killed: whoever started it writes down what it saw."""

    def note(batch: Any, number: int) -> None:
        batch.write.mode("append").parquet(f"{base}/out")
        if number == 1:
            keep(base, spark, [query_of(queries[0])])
            time.sleep(2)
            driver = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
            for process in (driver, os.getpid()):
                os.kill(process, signal.SIGKILL)

    writer = orders(spark, base).dropDuplicates(["id"]).writeStream.foreachBatch(note).queryName("orders")
    queries = [writer.option("checkpointLocation", f"{base}/checkpoint-out").start()]
    queries[0].awaitTermination()
    return queries


def two_queries(spark: Any, base: Path) -> list[Any]:
    """One ends well, the other fails."""
    return [
        once(writing(orders(spark, base).dropDuplicates(["id"]), base, "first", "first")),
        once(
            writing(orders(spark, base).selectExpr("raise_error('no shop') AS e"), base, "second", "second")
        ),
    ]


def foreach_batch(spark: Any, base: Path) -> list[Any]:
    def write(batch: Any, number: int) -> None:
        batch.persist()
        batch.write.mode("append").parquet(f"{base}/out")
        batch.groupBy("shop").count().write.mode("append").parquet(f"{base}/counts")
        batch.unpersist()

    writer = orders(spark, base).dropDuplicates(["id"]).writeStream.foreachBatch(write).queryName("orders")
    return [once(writer.option("checkpointLocation", f"{base}/checkpoint-out"))]


def stopped_idle(spark: Any, base: Path) -> list[Any]:
    """Waits for input that does not come, then is stopped."""
    writer = writing(orders(spark, base).dropDuplicates(["id"]), base)
    query = writer.trigger(processingTime="200 milliseconds").start()
    while query.lastProgress is None or query.lastProgress["batchId"] < FILES:
        time.sleep(0.1)
    query.stop()
    return [query]


PROGRAMS: Final[dict[str, Callable[[Any, Path], list[Any]]]] = {
    program.__name__: program
    for program in (
        dedupe, dedupe_by_both, stateless, stateless_over_dedupe, aggregate, failing_function, killed, two_queries,
        foreach_batch, stopped_idle,
    )
}  # fmt: skip


def once(writer: Any) -> Any:
    """A query that has read all there is, or has failed."""
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as failure:
        say(f"  {type(failure).__name__}")
    return query


def query_of(query: Any) -> dict[str, Any]:
    """What the program sees of a query: its own words, not those of a log."""
    ran = [p for p in query.recentProgress if "addBatch" in p["durationMs"]]
    failure = query.exception()
    return {
        "id": str(query.id), "run": str(query.runId), "name": query.name, "batches": [p["batchId"] for p in ran],
        "rows": sum(p["numInputRows"] for p in ran), "failed": failure is not None,
        "failure": "" if failure is None else str(failure).splitlines()[0],
    }  # fmt: skip


def keep(base: Path, spark: Any, queries: list[dict[str, Any]]) -> None:
    """Write down what one application saw, beside those before it."""
    file = base / SEEN
    before = json.loads(file.read_text()) if file.exists() else []
    context = spark.sparkContext
    told = {
        "application": context.applicationId, "version": spark.version, "user": context.sparkUser(),
        "queries": queries,
    }  # fmt: skip
    file.write_text(json.dumps([*before, told], indent=1) + "\n")


def run_program(name: str, base: Path, settings: dict[str, str]) -> None:
    """In a process of its own."""
    spark = session(base, settings)
    queries = PROGRAMS[name](spark, base)
    keep(base, spark, [query_of(query) for query in queries])
    spark.stop()


def record(case: Case, where: Path, folder: Path) -> None:
    """Run the programs of a case and pack what is left."""
    base = where / case.name
    shutil.rmtree(base, ignore_errors=True)
    (base / "events").mkdir(parents=True)
    for turn, program in enumerate(case.programs):
        for number in range(FILES):
            arrive(base, turn * FILES + number)
        words = [sys.executable, "-m", "tests.recorded_logs", "--run", program, str(base)]
        here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        subprocess.run(
            [*words, json.dumps(dict(case.settings))], timeout=300, check=False, cwd=base, env=here
        )  # a log names the folder that its driver was started in
    for spare in base.glob("events/**/.*.crc"):
        spare.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / f"{case.name}.tar.xz", "w:xz", preset=9) as bundle:
        for name in ("events", SEEN):
            bundle.add(base / name, arcname=name, filter=without_owner)


def without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def unpack(version: str, case: str, to: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The folder of logs, and what each program saw, oldest first."""
    with tarfile.open(FIXTURES / version / f"{case}.tar.xz") as bundle:
        bundle.extractall(to, filter="data")
    return to / "events", json.loads((to / SEEN).read_text())


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main(where: Path, wanted: list[str]) -> None:
    import pyspark

    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    folder = FIXTURES / f"spark-{pyspark.__version__}"
    for case in CASES:
        if version >= case.since and (not wanted or case.name in wanted):
            say(case.name)
            record(case, where, folder)


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run_program(sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
