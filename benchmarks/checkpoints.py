"""How fast is `inspect` beside `wc -l`, and a seed beside `cp -r`, on the same files in the same run?

    python -m benchmarks.checkpoints [--files 1000 100000] [--repeat 5] [--json]

Checkpoints are written by tests/checkpoint_builder.py in Spark's bytes: 120 batches, a source log compacted
every ten. Each figure is the median of `--repeat` runs; the ratio is what counts, since machines differ. A seed
puts every file on disk (fsync) and reads it back, which `cp -r` does not; both are shown.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect, seed
from tests.checkpoint_builder import Built

BATCHES = 120


def median(act: Callable[[], object], repeat: int, before: Callable[[], object] = lambda: None) -> float:
    """Median seconds of `act`; `before` runs unmeasured before each."""
    times = []
    for _ in range(repeat):
        before()
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(where: Path, files: int, repeat: int) -> dict[str, Any]:
    """Figures for a flow that has processed about `files` files."""
    flow, old = where / "flow", where / "flow" / "0"
    per_batch = max(1, round(files / BATCHES))
    Built(old, batches=BATCHES, planned=1, files_per_batch=per_batch, sidecars=False).write()
    logs = [str(p) for part in ("metadata", "offsets", "commits", "sources") for p in (old / part).rglob("*")]
    logs = [p for p in [str(old / "metadata"), *logs] if Path(p).is_file()]
    plan = seed.plan_seed(inspect(str(flow)))

    def seeded() -> None:
        ready = seed.prepare(str(flow), plan, recovery="R-1", fence=1, guard=lambda: None)
        seed.publish(str(flow), ready, guard=lambda: None)

    def afresh() -> None:
        shutil.rmtree(flow / "1", ignore_errors=True)
        shutil.rmtree(where / "copy", ignore_errors=True)

    def copied(*, sync: bool) -> None:
        subprocess.run(["cp", "-r", str(old / "sources"), str(where / "copy")], check=True)
        if sync:
            synced = [str(p) for p in (where / "copy").rglob("*")]
            subprocess.run(["sync", *synced], check=True)

    found = {
        "files": per_batch * BATCHES,
        "log_bytes": sum(Path(p).stat().st_size for p in logs),
        "log_files": len(logs),
        "wc_s": median(lambda: subprocess.run(["wc", "-l", *logs], check=True, capture_output=True), repeat),
        "inspect_s": median(lambda: inspect(str(flow)), repeat, afresh),
        "cp_s": median(lambda: copied(sync=False), repeat, afresh),
        "cp_sync_s": median(lambda: copied(sync=True), repeat, afresh),
        "seed_s": median(seeded, repeat, afresh),
    }
    found["inspect_over_wc"] = found["inspect_s"] / found["wc_s"]
    found["seed_over_cp"] = found["seed_s"] / found["cp_s"]
    found["seed_over_cp_sync"] = found["seed_s"] / found["cp_sync_s"]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = []
    for files in options.files:
        with tempfile.TemporaryDirectory(prefix="reprise-bench-") as where:
            figures.append(measure(Path(where), files, options.repeat))
    if not options.json:
        print(
            "| processed files | log MB | wc -l s | inspect s | ratio | cp -r s | cp + sync s | seed s | ratios |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for f in figures:
            print(
                f"| {f['files']:,} | {f['log_bytes'] / 1e6:.1f} | {f['wc_s']:.3f} | {f['inspect_s']:.3f} "
                f"| {f['inspect_over_wc']:.1f} | {f['cp_s']:.3f} | {f['cp_sync_s']:.3f} | {f['seed_s']:.3f} "
                f"| {f['seed_over_cp']:.1f} / {f['seed_over_cp_sync']:.1f} |"
            )
    print(json.dumps({"batches": BATCHES, "figures": figures}))


if __name__ == "__main__":
    main()
