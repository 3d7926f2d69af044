"""A file table of a million data files: reading its log, and what a question to Spark carries of it.

    python -m benchmarks.file_table [--files 1000 100000 1000000]

The log is one compacted file and one batch, as Spark's file sink writes it. Each size is read by a process of its own,
which tells its peak of memory; beside it stands `wc -l` of the same log. *Question*: bytes of the paths as JSON, as a
proof sends them; the API server takes 64 MB (`recovery.server.http.LARGEST_QUESTION`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READ = """
import json, resource, sys, time
from recovery.sinks.live import files

if sys.argv[1] == "-":
    print(json.dumps({"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
    raise SystemExit
began, cpu = time.perf_counter(), time.process_time()
report = files.read_table_report(sys.argv[1])
took, cpu = time.perf_counter() - began, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
paths = [path for found in (report.older, *report.batches.values()) for path in found]
sent = len(json.dumps(paths))
print(json.dumps({"files": len(paths), "seconds": round(took, 2), "cpu": round(cpu, 2), "peak_mb": peak,
                  "question_mb": round(sent / 2**20, 1)}))
"""


def made(table: Path, files: int) -> Path:
    """The log of a table with so many data files. The newest ten are of a batch of their own."""
    log = table / "_spark_metadata"
    log.mkdir(parents=True)

    def line(number: int) -> str:
        path = (table / f"part-{number:08}-2f0f3a1e-7c1d-4bb5-9a55-000000000000-c000.snappy.parquet").as_uri()
        return json.dumps(
            {
                "path": path, "size": 1000, "isDir": False, "modificationTime": 1_700_000_000_000,
                "blockReplication": 1, "blockSize": 33554432, "action": "add",
            }
        )  # fmt: skip

    compact = log / "9.compact"
    with compact.open("w") as out:
        out.write("v1")
        out.writelines(f"\n{line(number)}" for number in range(files - 10))
    (log / "10").write_text("\n".join(["v1", *[line(number) for number in range(files - 10, files)]]))
    return compact


def asked(place: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", READ, place], check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", nargs="+", type=int, default=[1_000, 100_000, 1_000_000])
    given = parser.parse_args()
    print(json.dumps({"imports alone": asked("-")}))
    for files in given.files:
        with tempfile.TemporaryDirectory(prefix="reprise-file-table-") as folder:
            compact = made(Path(folder), files)
            began = time.perf_counter()
            subprocess.run(["wc", "-l", str(compact)], check=True, capture_output=True)
            bare = time.perf_counter() - began
            found = asked(folder)
            log = round(compact.stat().st_size / 2**20, 1)
        load = round(os.getloadavg()[0], 1)
        print(json.dumps({**found, "log_mb": log, "wc": round(bare, 3), "load": load}), flush=True)


if __name__ == "__main__":
    main()
