"""Delta logs by hand: commits of a few actions, with the names and forms that Spark writes. No data files."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TABLE = "f6919b61-a91b-4aec-85d9-52580932a685"
EPOCH_MS = 1_790_000_000_000
SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
)


def add(path: str, rows: int | None = 2, *, size: int = 100, **more: Any) -> dict[str, Any]:
    stats = None if rows is None else json.dumps({"numRecords": rows})
    body = {"path": path, "size": size, "modificationTime": EPOCH_MS, "dataChange": True, "stats": stats}
    return {"add": {**body, **more}}


def remove(path: str, rows: int | None = 2, *, at_ms: int = EPOCH_MS, **more: Any) -> dict[str, Any]:
    body = {"path": path, "deletionTimestamp": at_ms, "dataChange": True, "size": 100}
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"remove": {**body, **stats, **more}}


def metadata(table_id: str = TABLE, schema: str = SCHEMA, **properties: str) -> dict[str, Any]:
    body = {"id": table_id, "schemaString": schema, "partitionColumns": [], "configuration": properties}
    return {"metaData": body}


def txn(app_id: str, version: int, updated_ms: int = EPOCH_MS) -> dict[str, Any]:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": updated_ms}}


def info(operation: str, **more: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, **more}}


def commit(table: Path, version: int, *actions: Mapping[str, Any], at_ms: int | None = None) -> None:
    """One commit file; its mtime is `at_ms`, else a minute after that of the version before."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    file = log / f"{version:020}.json"
    file.write_text("".join(json.dumps(a) + "\n" for a in actions))
    seconds = (EPOCH_MS + 60_000 * version if at_ms is None else at_ms) / 1000
    os.utime(file, (seconds, seconds))


def table(where: Path, commits: Sequence[Sequence[Mapping[str, Any]]], **properties: str) -> Path:
    """A table whose version 0 has the metadata and the first actions."""
    for version, actions in enumerate(commits):
        first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, metadata(**properties)]
        commit(where, version, *(first if version == 0 else []), *actions)
    return where
