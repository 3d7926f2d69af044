"""Sealing on a large table, and verifying a few new rows of it: seconds by the size of the table, beside one scan.

    python -m benchmarks.tables [--millions 1 4 16] [--new 100000] [--formats delta parquet] [--before] [--more]

Spark with the Delta connector runs in a process of its own on two cores, as in a demo; the questions are those of
plans and proofs, asked in one session of Spark Connect without the start of a child. Tables are generated below a
temporary folder: a row has a key (`id`), a second number and a text of 40 letters; `--new` rows are added in further
files. Beside each answer stands, measured in the same run, one scan of the new rows (all columns, summed up) and one of
the keys of the old ones. `--before` also groups the whole table by the whole row, as both did before.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROUNDS = 1
ROW = "id", "number", "text"


@contextmanager
def spark_here() -> Iterator[Any]:
    """A session of a Spark of this run."""
    from tests.connected_spark import answering_connect, spark_server
    from tests.s3 import free_port

    port = free_port()
    with spark_server(
        **answering_connect(port), **{"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
    ):
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # of this process: the server's is another
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(f"sc://localhost:{port}").create()
        yield session
        session.client.close()


def rows(spark: Any, first: int, count: int) -> Any:
    """Rows with the keys from `first` on; the text cannot be compressed away."""
    return spark.range(first, first + count, 1, max(2, count // 1_000_000)).selectExpr(
        "id", "hash(id) % 1000 as number", "left(sha2(cast(id as string), 256), 40) as text"
    )


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = work()
    return time.perf_counter() - began, answer


def quickest(work: Callable[[], Any]) -> float:
    return round(min(seconds(work)[0] for _ in range(ROUNDS)), 2)


class Told(dict[str, Any]):
    """A row of the table; each figure is told when it is there."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        print(f"  {self['format']} {self['old']:,} {name}: {value}", file=sys.stderr, flush=True)


def measured(
    spark: Any, format: str, folder: Path, old: int, new: int, *, before: bool, more: bool
) -> dict[str, Any]:
    from pyspark.sql import functions as F

    from recovery.spark import counting
    from recovery.spark.api import Budgets, Limit

    place = str(folder / f"{format}-{old}")
    rows(spark, 0, old).write.format(format).save(place)
    rows(spark, old, new).write.format("parquet").save(place + "-new")
    rows(spark, old, new).write.format("parquet").save(place + "-input")

    def table() -> Any:
        return spark.read.format(format).load(place)

    def scanned(frame: Any, *columns: str) -> Any:
        return frame.select(F.sum(F.xxhash64(*columns).cast("decimal(38,0)"))).collect()

    def written() -> Any:
        return spark.read.parquet(place + "-new")

    def expected() -> Any:
        return spark.read.parquet(place + "-input")

    budgets = Budgets(lookup=Limit(1 << 40, 600), grouping=Limit(0), versions=Limit(0))
    spread = (
        expected().withColumn("id", F.expr(f"if(id % 2 = 0, id, (id * 7919) % {old})")).dropDuplicates(["id"])
    )
    by_key, whole = counting.Apart.by(["id"]), counting.Apart.by(list(ROW))

    def compared(frame: Any, apart: counting.Apart) -> int:
        out = counting.compare(spark, table(), frame, frame, apart, 0, budgets)
        old_rows: int = table().count()
        assert [b.by.value for b in out.bounded] == ["grouping"], out.bounded
        assert (out.missing, out.extra) == (0, 0)
        return old_rows

    def sealed() -> Any:
        counted = counting.set_counts(spark, {"waiting": expected()}, ["id"], table(), budgets.lookup)
        assert (counted.rows, counted.bounded) == ({"waiting": new}, ())
        return table().count()

    out = Told(format=format, old=old, new=new, load=round(os.getloadavg()[0], 1))
    out["scan of new"] = quickest(lambda: scanned(written(), *ROW))
    out["scan of old keys"] = quickest(lambda: scanned(table(), "id"))
    out["seal"] = quickest(sealed)
    out["verify, new keys beyond the old"] = quickest(lambda: compared(written(), by_key))
    out["verify, keys all over"] = quickest(lambda: compared(spread, by_key))
    if more:
        out["verify, by the whole row, all over"] = quickest(lambda: compared(spread, whole))
        out["grouping of all keys"] = quickest(lambda: scanned(table().groupBy("id").count(), "id", "count"))
    if before:
        out["scan of old rows"] = quickest(lambda: scanned(table(), *ROW))
        out["before: plan"] = round(seconds(lambda: counted_whole(expected(), table()))[0], 2)
        union = table().unionAll(written().select(*ROW))
        out["before: verify"] = round(
            seconds(lambda: counting.compare_versions(table(), expected(), union, whole, 0))[0], 2
        )
    scans = out["scan of new"] + out["scan of old keys"]
    out["ratio"] = round(out["verify, keys all over"] / scans, 2)
    return out


def counted_whole(frame: Any, table: Any) -> Any:
    """As plans counted before: input and table in one grouping by the whole row."""
    from pyspark.sql import functions as F

    from recovery.spark import counting

    counts = counting.tallied([frame, table], [list(ROW), list(ROW)])
    return counts.agg(F.sum("n0"), F.sum("n1"), F.count_if(F.col("n0") > 0)).collect()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", nargs="+", type=float, default=[1, 4, 16])
    parser.add_argument("--new", type=int, default=100_000)
    parser.add_argument("--formats", nargs="+", default=["delta", "parquet"])
    parser.add_argument("--before", action="store_true", help="also as it was done before")
    parser.add_argument(
        "--more", action="store_true", help="also by the whole row, and all keys of the table"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-tables-") as folder, spark_here() as spark:
        for format in given.formats:
            for millions in given.millions:
                old = int(millions * 1_000_000)
                out = measured(
                    spark, format, Path(folder), old, given.new, before=given.before, more=given.more
                )
                print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
