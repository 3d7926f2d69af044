"""How fast is `inspect` beside `wc -l`, and a seed beside `cp -r`, on the same files in the same run?

    python -m benchmarks.checkpoints [--files 1000 100000 1000000] [--repeat 5] [--json]

Checkpoints are written by tests/checkpoint_builder.py in Spark's bytes: 1,000 batches of which the last hundred are
kept (as Spark keeps them), a source log compacted every ten, 2,000 state files. Each figure is the median of
`--repeat` runs that take turns; the ratio is what counts, since machines differ. `inspect` and the seed run inside
one process, without its start; `wc` and `cp` are processes of their own. Memory is the peak of a fresh process that
inspects and asks for totals, beside one that only imports. A seed puts every file on disk (fsync), reads it back
and takes three fingerprints, none of which `cp -r` does. It is taken twice: by the process that has just inspected the
checkpoint, as the seed step of a recovery is, and by one that has read nothing yet. Before each the files are left
alone for as long as it takes until an inode proves anything (recovery/checkpoints/read_cache.py).
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect_checkpoint, read_cache, seed
from tests.checkpoint_builder import Built

BATCHES = 1000
KEPT = 100  # minBatchesToRetain
PARTITIONS = 20
MEMORY = """
import sys
from recovery.checkpoints import inspect_checkpoint
if len(sys.argv) > 1:
    source = inspect_checkpoint(sys.argv[1]).sources[0]
    assert source.as_dict()["committed_files"] == int(sys.argv[2])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


class Kept(Built):
    """Only what Spark has not purged: the last hundred batches and log entries, states of the last hundred."""

    def write(self) -> "Kept":
        self._put("metadata", json.dumps({"id": self.query_id}))
        for batch in range(self.batches - KEPT, self.batches + self.planned):
            self.log(0, batch)
            self._put(f"offsets/{batch}", self.offsets(batch))
            if batch < self.batches:
                self._put(f"commits/{batch}", self.commit(batch))
        self._state(0, "dedupe")
        return self

    def _state(self, operator: int, name: str) -> None:
        super()._state(operator, name)
        for partition in range(self.partitions):
            for batch in range(self.batches - KEPT):
                (self.root / f"state/{operator}/{partition}/{batch + 1}.delta").unlink()


def timed(act: Callable[[], object]) -> float:
    """Seconds that `act` takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def quiet(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def peak_kb(*words: str) -> int:
    """Peak memory of a fresh process (kB): VmHWM, since ru_maxrss is at least that of the process that forks."""
    ran = subprocess.run([sys.executable, "-c", MEMORY, *words], check=True, capture_output=True, text=True)
    return int(ran.stdout)


def measure(where: Path, files: int, repeat: int) -> dict[str, Any]:
    """Figures for a flow that has processed `files` files."""
    flow, old = where / "flow", where / "flow" / "0"
    per_batch = max(1, files // BATCHES)
    Kept(
        old, batches=BATCHES, planned=1, files_per_batch=per_batch, partitions=PARTITIONS, sidecars=False
    ).write()
    quiet("sync", "-f", str(old))
    logs = [
        str(p) for part in ("offsets", "commits", "sources") for p in (old / part).rglob("*") if p.is_file()
    ]

    def plan() -> seed.SeedPlan:
        time.sleep(1.1 * read_cache.UNSURE_NS / 1e9)  # the last seed's links are gone since a moment only
        read_cache.forget_digests()
        found = seed.plan_seed(inspect_checkpoint(str(flow)))
        assert found.committed_files == (per_batch * BATCHES,)
        return found

    def seeded(plan: seed.SeedPlan) -> None:
        ready = seed.prepare_seed(str(flow), plan, recovery="R-1", fence=1, guard=lambda: None)
        seed.publish_checkpoint(str(flow), ready, guard=lambda: None)

    times: dict[str, list[float]] = {name: [] for name in ("wc", "inspect", "cp", "cp_sync", "seed", "fresh")}
    for _ in range(repeat):
        times["wc"].append(timed(lambda: quiet("wc", "-l", *logs)))
        read_cache.forget_digests()
        times["inspect"].append(timed(lambda: inspect_checkpoint(str(flow))))
        for name in ("cp", "cp_sync"):
            shutil.rmtree(where / "copy", ignore_errors=True)
            times[name].append(timed(lambda: quiet("cp", "-r", str(old / "sources"), str(where / "copy"))))
            if name == "cp_sync":
                copies = [str(p) for p in (where / "copy").rglob("*")]
                times[name][-1] += timed(lambda: quiet("sync", *copies))  # noqa: B023
        shutil.rmtree(where / "copy", ignore_errors=True)
        for name in ("seed", "fresh"):
            made = plan()
            if name == "fresh":
                read_cache.forget_digests()
            times[name].append(timed(lambda: seeded(made)))  # noqa: B023
            shutil.rmtree(flow / "1")
    found: dict[str, Any] = {f"{name}_s": statistics.median(taken) for name, taken in times.items()}
    found["files"] = per_batch * BATCHES
    found["log_bytes"] = sum(Path(p).stat().st_size for p in logs)
    found["log_files"] = len(logs)
    found["state_files"] = sum(1 for _ in (old / "state").rglob("*.delta"))
    found["memory_kb"] = peak_kb(str(flow), str(found["files"]))
    found["memory_import_kb"] = peak_kb()
    found["inspect_over_wc"] = found["inspect_s"] / found["wc_s"]
    found["seed_over_cp"] = found["seed_s"] / found["cp_s"]
    found["fresh_over_cp"] = found["fresh_s"] / found["cp_s"]
    found["seed_over_cp_sync"] = found["seed_s"] / found["cp_sync_s"]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = []
    for files in options.files:
        with tempfile.TemporaryDirectory(prefix="reprise-bench-") as where:
            figures.append(measure(Path(where), files, options.repeat))
    if not options.json:
        print(
            "| processed files | log MB | `wc -l` | `inspect` | × `wc -l` | peak MB (import alone) "
            "| seed | × `cp -r` | × `cp -r` and sync | seed, nothing read before | × `cp -r` |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for f in figures:
            peaks = f"{f['memory_kb'] / 1024:.0f} ({f['memory_import_kb'] / 1024:.0f})"
            print(
                f"| {f['files']:,} | {f['log_bytes'] / 1e6:.1f} | {f['wc_s']:.3f} s | {f['inspect_s']:.3f} s "
                f"| {f['inspect_over_wc']:.1f} | {peaks} | {f['seed_s']:.3f} s "
                f"| {f['seed_over_cp']:.1f} | {f['seed_over_cp_sync']:.2f} | {f['fresh_s']:.3f} s "
                f"| {f['fresh_over_cp']:.1f} |"
            )
    print(json.dumps({"batches": BATCHES, "figures": figures}))


if __name__ == "__main__":
    main()
