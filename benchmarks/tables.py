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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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


class FigureRow(dict[str, Any]):
    """A row of the page; each figure is printed once it is there."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        print(f"  {self['format']} {self['old']:,} {name}: {value}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Tables:
    """A table of old rows, the new rows that were written, and those that the input yields, each read anew."""

    spark: Any
    format: str
    place: str
    old: int

    @classmethod
    def write(cls, spark: Any, format: str, folder: Path, old: int, new: int) -> Self:
        """`old` rows as the table, `new` further ones as what was written and as what the input yields."""
        place = str(folder / f"{format}-{old}")
        rows(spark, 0, old).write.format(format).save(place)
        for part in ("new", "input"):
            rows(spark, old, new).write.format("parquet").save(f"{place}-{part}")
        return cls(spark, format, place, old)

    def table(self) -> Any:
        return self.spark.read.format(self.format).load(self.place)

    def written(self) -> Any:
        return self.spark.read.parquet(self.place + "-new")

    def expected(self) -> Any:
        return self.spark.read.parquet(self.place + "-input")

    def spread(self) -> Any:
        """As many rows as are new, every other one with a key from all over the old ones."""
        from pyspark.sql import functions as F

        other = F.expr(f"if(id % 2 = 0, id, (id * 7919) % {self.old})")
        return self.expected().withColumn("id", other).dropDuplicates(["id"])


def scan_columns(frame: Any, *columns: str) -> Any:
    """Read every value of these columns once."""
    from pyspark.sql import functions as F

    return frame.select(F.sum(F.xxhash64(*columns).cast("decimal(38,0)"))).collect()


def measure_tables(
    spark: Any, format: str, folder: Path, old: int, new: int, *, before: bool, more: bool
) -> dict[str, Any]:
    """Seconds of a seal and of verifications, beside the scans that they cannot do without."""
    from recovery.spark import counting
    from recovery.spark.api import Budgets, Limit

    of = Tables.write(spark, format, folder, old, new)
    budgets = Budgets(lookup=Limit(1 << 40, 600), grouping=Limit(0), versions=Limit(0))
    by_key, whole = counting.ComparedColumns.by(["id"]), counting.ComparedColumns.by(list(ROW))

    def verify(frame: Any, apart: counting.ComparedColumns) -> int:
        out = counting.compare(spark, of.table(), frame, frame, apart, 0, budgets)
        old_rows: int = of.table().count()
        assert [b.by.value for b in out.bounded] == ["grouping"], out.bounded
        assert (out.missing, out.extra) == (0, 0)
        return old_rows

    def seal() -> Any:
        counted = counting.set_counts(spark, {"waiting": of.expected()}, ["id"], of.table(), budgets.lookup)
        assert (counted.rows, counted.bounded) == ({"waiting": new}, ())
        return of.table().count()

    out = FigureRow(format=format, old=old, new=new, load=round(os.getloadavg()[0], 1))
    out["scan of new"] = quickest(lambda: scan_columns(of.written(), *ROW))
    out["scan of old keys"] = quickest(lambda: scan_columns(of.table(), "id"))
    out["seal"] = quickest(seal)
    out["verify, new keys beyond the old"] = quickest(lambda: verify(of.written(), by_key))
    out["verify, keys all over"] = quickest(lambda: verify(of.spread(), by_key))
    if more:
        out["verify, by the whole row, all over"] = quickest(lambda: verify(of.spread(), whole))
        out["grouping of all keys"] = quickest(
            lambda: scan_columns(of.table().groupBy("id").count(), "id", "count")
        )
    if before:
        out["scan of old rows"] = quickest(lambda: scan_columns(of.table(), *ROW))
        out["before: plan"] = round(seconds(lambda: counted_whole(of.expected(), of.table()))[0], 2)
        union = of.table().unionAll(of.written().select(*ROW))
        out["before: verify"] = round(
            seconds(lambda: counting.compare_versions(of.table(), of.expected(), union, whole, 0))[0], 2
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
                out = measure_tables(
                    spark, format, Path(folder), old, given.new, before=given.before, more=given.more
                )
                print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
