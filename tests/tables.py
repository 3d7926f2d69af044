"""Reads a file table as any reader would, without Spark: the files that its log names, with pyarrow."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq


def data_files(table: Path) -> list[Path]:
    """Data files in the order of the log; a compacted entry holds all before it."""
    log = table / "_spark_metadata"
    names = [p.name for p in log.iterdir() if not p.name.startswith(".")]
    compact = max((int(n.split(".")[0]) for n in names if n.endswith(".compact")), default=-1)
    wanted = sorted(
        (
            n
            for n in names
            if int(n.split(".")[0]) >= compact and (n.endswith(".compact") or int(n) > compact)
        ),
        key=lambda n: int(n.split(".")[0]),
    )
    lines = [line for n in wanted for line in (log / n).read_text().splitlines()[1:]]
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines if line]


def rows(table: Path) -> list[dict[str, Any]]:
    """Every row, one dict each."""
    return [row for file in data_files(table) for row in pq.read_table(file).to_pylist()]


def key(row: dict[str, Any]) -> str:
    """A row as text, the same for equal rows."""
    return json.dumps(row, sort_keys=True)
