"""How long the position of a file source takes that has read a million files: facts, distance, reach, a wish.

    python -m benchmarks.file_positions [--files 1000000] [--waiting 1000] [--repeat 3] [--json]

Log and listing are held in memory: what it takes to read a log is in benchmarks/checkpoints.py, and how long a store
takes to list is the store's. `copy` is the measure of the machine: the same paths put into a dictionary once. Each
question is asked of fresh facts, as nothing is kept between two of them.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from recovery.checkpoints.report import SourceEntry
from recovery.checkpoints.uris import decode_uri
from recovery.sources import files
from recovery.sources.base import InputFile, StartChoice

BATCHES = 1000


def measure(count: int, waiting: int, repeat: int) -> dict[str, Any]:
    """Seconds of each question, the median of `repeat`."""
    log = [
        SourceEntry(f"file:///data/in/part%20{n:09d}.json", 1000 * n, n * BATCHES // count)
        for n in range(count)
    ]
    newest = log[-1].timestamp_ms
    read = [InputFile(decode_uri(e.path), 100, e.timestamp_ms) for e in log]
    new = [InputFile(f"file:///data/in/new {n:09d}.json", 100, newest + n) for n in range(waiting)]
    listing = (*read, *new)
    line = f'{{"logOffset":{log[-1].batch_id}}}'

    def fresh() -> files.FileSourceFacts:
        return files.FileSourceFacts(tuple(log), listing, asked_ms=newest + waiting + 1)

    wishes = {
        "just after a file in the middle": StartChoice(file=read[len(read) // 2].path),
        "at a time": StartChoice(at_ms=newest - 1000),
        "the latest": StartChoice(latest=True),
        "the earliest": StartChoice(earliest=True),
    }
    found = {
        "copy": timed(lambda: dict.fromkeys(f.path for f in listing), repeat),
        "reach": timed(lambda: files.judge_reach(line, fresh()), repeat),
        "distance from the beginning": timed(lambda: files.measure_distance(None, line, fresh()), repeat),
        **{
            name: timed(lambda w=w: files.find_position(w, line, fresh()), repeat)
            for name, w in wishes.items()
        },
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
    found = measure(told.files, told.waiting, told.repeat)
    if told.json:
        print(json.dumps(found))
        return
    print(f"{found['files']:,} files read, {found['waiting']:,} waiting")
    for name, seconds in found["seconds"].items():
        print(f"{name:<34} {seconds:8.3f} s  {seconds / found['seconds']['copy']:6.1f} x copy")


if __name__ == "__main__":
    main()
