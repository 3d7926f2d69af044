"""How fast is `inspect` beside Spark's own readers of state, for what both can answer?

    python -m benchmarks.spark_readers [--repeat 5] [--json]

Checkpoints are written by Spark 4.2 in this run (tests/state_checkpoints.py). Spark answers in a warm local session
(its start, about 5 s, and its first query are not counted); `inspect` answers in this process and judges all the rest
of the checkpoint besides. Median of `--repeat` runs that take turns. Two questions, each only where both answer it:

- operators, their names, stores and partitions: `state-metadata`;
- how many rows the state holds after the last batch: `statestore`, counted. `inspect` takes the number from RocksDB's
  snapshot of that very version. It tells none for HDFS-backed state nor where only a changelog is there, and of a
  join it tells the rows of all its stores together, where Spark joins them first. State format 2 is left out: Spark
  4.2 reads it only where the session's own checkpointFormatVersion is 2.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import timed
from recovery.checkpoints import inspect_checkpoint
from tests.state_checkpoints import CASES, ROCKS, Case, aggregate, put, run, session, write

NAMES = ("hdfs-dedupe", "rocksdb-aggregate", "hdfs-join")
KEYS = (10, 100_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder:
        spark = session(Path(folder) / "warehouse")
        figures = [measure(spark, name, Path(folder), options.repeat) for name in NAMES]
        counts = [count_rows(spark, keys, Path(folder), options.repeat) for keys in KEYS]
        spark.stop()
    if not options.json:
        for reader, table in (("state-metadata", figures), ("statestore", counts)):
            say(f"| checkpoint | `{reader}` | `inspect` | times as fast |")
            say("|---|---|---|---|")
            for f in table:
                say(f"| {f['name']} | {f['spark_s']:.3f} s | {f['inspect_s']:.4f} s | {f['ratio']:.0f} |")
    say(json.dumps({"figures": figures, "rows": counts}))


def measure(spark: Any, name: str, folder: Path, repeat: int) -> dict[str, Any]:
    """Both answers to the same question, checked to be the same."""
    case = next(c for c in CASES if c.name == name)
    checkpoint = str(write(spark, case, folder))

    def by_spark() -> set[tuple[int, str, str, int]]:
        rows = spark.read.format("state-metadata").load(checkpoint).collect()
        return {(r.operatorId, r.operatorName, r.stateStoreName, r.numPartitions) for r in rows}

    def by_inspect() -> set[tuple[int, str, str, int]]:
        report = inspect_checkpoint(checkpoint)
        return {(o.operator_id, o.name, s, o.partitions) for o in report.state_operators for s in o.stores}

    return {"name": name, **beside(by_spark, by_inspect, repeat)}


def count_rows(spark: Any, keys: int, folder: Path, repeat: int) -> dict[str, Any]:
    """Rows of the state of an aggregate over `keys` keys in RocksDB."""
    case = Case(f"rocksdb-{keys}-keys", aggregate, "update", ROCKS)
    put(folder / case.name / "in", 0, range(keys))
    run(spark, case, folder)
    checkpoint = str(folder / case.name / "checkpoint")

    def by_spark() -> int:
        return int(spark.read.format("statestore").load(checkpoint).count())

    def by_inspect() -> int:
        (operator,) = inspect_checkpoint(checkpoint).state_operators
        assert operator.rows is not None
        return operator.rows

    return {"name": f"aggregate, RocksDB, {keys:,} keys", **beside(by_spark, by_inspect, repeat)}


def beside(by_spark: Callable[[], Any], by_inspect: Callable[[], Any], repeat: int) -> dict[str, float]:
    """Medians of both, in seconds; the answers must be equal."""
    assert by_spark() == by_inspect()
    times: dict[str, list[float]] = {"spark": [], "inspect": []}
    for _ in range(repeat):
        times["spark"].append(timed(by_spark))
        times["inspect"].append(timed(by_inspect))
    spark_s, inspect_s = (statistics.median(times[who]) for who in ("spark", "inspect"))
    return {"spark_s": spark_s, "inspect_s": inspect_s, "ratio": spark_s / inspect_s}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
