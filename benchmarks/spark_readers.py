"""How fast is `inspect` beside Spark's own readers of state, for what both can answer?

    python -m benchmarks.spark_readers [--repeat 5] [--json]

Checkpoints are written by Spark 4.2 in this run (tests/state_checkpoints.py). Asked for: operators, their names,
stores, partitions and the batches whose state can be read. Spark answers with `state-metadata` in a warm local session
(its start, about 5 s, and its first query are not counted); `inspect` answers in this process and judges all the rest
of the checkpoint besides. Median of `--repeat` runs that take turns.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import timed
from recovery.checkpoints import inspect
from tests.state_checkpoints import CASES, session, write

NAMES = ("hdfs-dedupe", "rocksdb-aggregate", "hdfs-join")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder:
        spark = session(Path(folder) / "warehouse")
        figures = [measure(spark, name, Path(folder), options.repeat) for name in NAMES]
        spark.stop()
    if not options.json:
        print("| checkpoint | `state-metadata` | `inspect` | times as fast |")
        print("|---|---|---|---|")
        for f in figures:
            print(f"| {f['name']} | {f['spark_s']:.3f} s | {f['inspect_s']:.4f} s | {f['ratio']:.0f} |")
    print(json.dumps({"figures": figures}))


def measure(spark: Any, name: str, folder: Path, repeat: int) -> dict[str, Any]:
    """Both answers to the same question, checked to be the same."""
    case = next(c for c in CASES if c.name == name)
    checkpoint = str(write(spark, case, folder))

    def by_spark() -> set[tuple[int, str, str, int]]:
        rows = spark.read.format("state-metadata").load(checkpoint).collect()
        return {(r.operatorId, r.operatorName, r.stateStoreName, r.numPartitions) for r in rows}

    def by_inspect() -> set[tuple[int, str, str, int]]:
        report = inspect(checkpoint)
        return {(o.operator_id, o.name, s, o.partitions) for o in report.state_operators for s in o.stores}

    assert by_spark() == by_inspect()
    times: dict[str, list[float]] = {"spark": [], "inspect": []}
    for _ in range(repeat):
        times["spark"].append(timed(by_spark))
        times["inspect"].append(timed(by_inspect))
    spark_s, inspect_s = (statistics.median(times[who]) for who in ("spark", "inspect"))
    return {"name": name, "spark_s": spark_s, "inspect_s": inspect_s, "ratio": spark_s / inspect_s}


if __name__ == "__main__":
    main()
