"""How long the position of a file source takes that has read a million files: facts, distance, reach, a wish.

    python -m benchmarks.positions [--files 1000000] [--waiting 1000] [--repeat 3] [--json]

The log is on disk in Spark's bytes, as in benchmarks/checkpoints.py; the listing is held in memory, since how long a
store takes to list is the store's. `copy` is the measure of the machine: the same paths put into a dictionary once.
Each wish is asked of fresh facts, as nothing is kept between two of them.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import BATCHES, Kept
from recovery.checkpoints import inspect
from recovery.sources import files
from recovery.sources.base import InputFile, Wanted
from recovery.sources.file_facts import facts_of
from recovery.sources.uris import decoded


def measure(where: Path, count: int, waiting: int, repeat: int) -> dict[str, Any]:
    """Seconds of each question, the median of `repeat`."""
    Kept(
        where / "0",
        batches=BATCHES,
        planned=0,
        files_per_batch=max(1, count // BATCHES),
        partitions=1,
        sidecars=False,
    ).write()
    source = inspect(str(where / "0")).sources[0]
    log = list(source.committed)
    newest = log[-1].timestamp_ms
    read = [InputFile(decoded(e.path), 100, e.timestamp_ms) for e in log]
    new = [InputFile(f"file:///data/in0/new {n:09d}.json", 100, newest + n) for n in range(waiting)]
    listing = (*read, *new)
    line = source.offset_json

    def fresh() -> files.Facts:
        return files.Facts(tuple(log), listing, asked_ms=newest + waiting + 1)

    wishes = {
        "just after a file in the middle": Wanted(file=read[len(read) // 2].path),
        "at a time": Wanted(at_ms=newest - 1000),
        "the latest": Wanted(latest=True),
        "the earliest": Wanted(earliest=True),
    }
    found = {
        "copy": timed(lambda: dict.fromkeys(f.path for f in listing), repeat),
        "facts, the log read again": timed(lambda: facts_of(source, listing, asked_ms=0), repeat),
        "reach": timed(lambda: files.reach(line, fresh()), repeat),
        "distance from the beginning": timed(lambda: files.distance(None, line, fresh()), repeat),
        **{name: timed(lambda w=w: files.at(w, line, fresh()), repeat) for name, w in wishes.items()},
    }
    return {"files": len(read), "waiting": waiting, "seconds": found}


def timed(act: Callable[[], object], repeat: int) -> float:
    took = []
    for _ in range(repeat):
        start = time.perf_counter()
        act()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), told.files, told.waiting, told.repeat)
    if told.json:
        print(json.dumps(found))
        return
    print(f"{found['files']:,} files read, {found['waiting']:,} waiting")
    for name, seconds in found["seconds"].items():
        print(f"{name:<34} {seconds:8.3f} s  {seconds / found['seconds']['copy']:6.1f} x copy")


if __name__ == "__main__":
    main()
