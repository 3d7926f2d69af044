"""A Delta table with many versions: how long the facts take, what memory they need, and each answer from them.

    python -m benchmarks.delta [--versions 100000] [--files 2]

The log is written by hand below a temporary folder: a commit for each version, in the form Spark's are, and one
checkpoint five versions before the end, as Spark leaves it. Each measurement is a process of its own.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TABLE = "f6919b61-a91b-4aec-85d9-52580932a685"
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
STATS = '{"numRecords":1000,"minValues":{"id":0},"maxValues":{"id":999},"nullCount":{"id":0}}'


def written(where: Path, versions: int, files: int) -> None:
    log = where / "_delta_log"
    log.mkdir(parents=True)
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": TABLE, "schemaString": SCHEMA, "partitionColumns": [], "configuration": {}}},
    ]
    began = int(time.time()) - versions
    for version in range(versions):
        told = {
            "timestamp": version,
            "operation": "STREAMING UPDATE",
            "operationParameters": {"epochId": str(version)},
        }
        actions = [{"commitInfo": told}, *(head if version == 0 else [])]
        actions.append({"txn": {"appId": TABLE, "version": version, "lastUpdated": version}})
        for number in range(files):
            path = f"part-{number:05}-{version:032x}-c000.snappy.parquet"
            add = {"path": path, "partitionValues": {}, "size": 10_000, "modificationTime": version}
            actions.append({"add": {**add, "dataChange": True, "stats": STATS}})
        file = log / f"{version:020}.json"
        file.write_text("".join(json.dumps(a) + "\n" for a in actions))
        # a second apart: commits of one moment would be told apart by times that are still to come
        os.utime(file, (began + version, began + version))
    rows = [{"protocol": head[0]["protocol"]}, {"metaData": {"id": TABLE, "schemaString": SCHEMA}}]
    name = f"{max(versions - 5, 0):020}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=_checkpoint_schema()), log / name)


def _checkpoint_schema() -> pa.Schema:
    return pa.schema(
        {
            "metaData": pa.struct([("id", pa.string()), ("schemaString", pa.string())]),
            "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        }
    )


def measured(where: str, first: int) -> None:
    """Facts from version `first` on, then every answer; one JSON line."""
    from recovery.sources import delta
    from recovery.sources.base import StartChoice
    from recovery.sources.delta_facts import DeltaOffset
    from recovery.sources.live import delta as live

    laps: dict[str, float] = {}

    def lap(name: str, began: float) -> None:
        laps[name] = round(time.perf_counter() - began, 3)

    line = DeltaOffset(TABLE, first, 0).as_json()
    began = time.perf_counter()
    facts = live.read_table(where, offsets=[line], options={}, look=False)
    lap("facts", began)
    for name, wanted in {
        "latest": StartChoice(latest=True),
        "time": StartChoice(at_ms=facts.times[(first + facts.latest) // 2]),
    }.items():
        began = time.perf_counter()
        chosen = delta.find_position(wanted, line, facts)
        lap(f"position: {name}", began)
        assert chosen.lost.rows
    began = time.perf_counter()
    delta.find_start_option(line, facts)
    delta.judge_reach(line, facts)
    lap("option and reach", began)
    began = time.perf_counter()
    live.read_table(where, offsets=[line], options={}, look=False, known=facts)
    lap("facts again", began)
    laps["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(json.dumps({"from": first, "versions": facts.latest + 1, **laps}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--measure", nargs=2, metavar=("TABLE", "FIRST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measured(options.measure[0], int(options.measure[1]))
        return
    folder = Path(tempfile.mkdtemp(prefix="reprise-delta-"))
    try:
        written(folder / "table", options.versions, options.files)
        for first in (0, options.versions - options.versions // 100, options.versions - 10):
            command = [
                sys.executable,
                "-m",
                "benchmarks.delta",
                "--measure",
                str(folder / "table"),
                str(first),
            ]
            subprocess.run(command, check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
