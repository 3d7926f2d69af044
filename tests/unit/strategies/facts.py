"""Facts of the customers incident, as values: 4 files committed, 3 unread, 12 rows in the table."""

from dataclasses import replace
from typing import Any

from recovery.checkpoints.report import CheckpointReport, Entries, SourceEntry, SourceProgress, StateOperator
from recovery.contracts.readers import SourceReader
from recovery.sinks.base import SinkReport
from recovery.sources.base import InputFile, Position, Precision, SourceFacts
from recovery.strategies.base import CodeFacts, Counts, Facts

WITH = "def q():\n    return load().dropDuplicates(['customer_id'])\n"
WITHOUT = "def q():\n    return load()\n"
FILES = [f"file:///in/changes-000{n}.json" for n in range(1, 8)]
LOG_IDS = [0, 1, 2, 2]


def entries() -> Entries:
    return Entries.from_entries(
        SourceEntry(p, 1000 + n, i) for n, (p, i) in enumerate(zip(FILES[:4], LOG_IDS, strict=True))
    )


def checkpoint(**changes: Any) -> CheckpointReport:
    values: dict[str, Any] = {
        "location": "/ck/flow/0",
        "format": "structured-streaming",
        "version": 0,
        "query_id": "q-1",
        "last_committed": 2,
        "last_planned": 3,
        "sources": (SourceProgress(0, "files", '{"logOffset":2}', 2, entries()),),
        "state_operators": (StateOperator(0, "dedupe", 2),),
        "fingerprint": "f" * 64,
    }
    return CheckpointReport(**{**values, **changes})


def keeping(keys: int) -> CheckpointReport:
    """One whose dropDuplicates holds so many keys."""
    return checkpoint(state_operators=(StateOperator(0, "dedupe", 2, rows=keys),))


def source(**changes: Any) -> SourceFacts:
    files = [InputFile(p, 100, 1000 + n) for n, p in enumerate(FILES)]
    values: dict[str, Any] = {
        "position": Position(0, "files", '{"logOffset":2}', "file 4 of 7", Precision.EXACT, True),
        "location": "/in",
        "processed": tuple(files[:4]),
        "waiting": tuple(files[4:]),
    }
    return SourceFacts(**{**values, **changes})


def facts(**changes: Any) -> Facts:
    old = CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=(SourceReader(path="/in"),), key=("customer_id",))
    new = CodeFacts({"/p/q.py": WITHOUT}, (), sources=(SourceReader(path="/in"),))
    values: dict[str, Any] = {
        "gathered_at": "2026-11-21T03:14:09+00:00",
        "workspace": "dev",
        "environment": "development",
        "pipeline_id": "p-1",
        "pipeline": "customers",
        "flow": "spark_catalog.shop.customers_incremental_flow",
        "dataset": "spark_catalog.shop.customers_changes",
        "active_update": None,
        "last_update": "u-4",
        "checkpoint": checkpoint(),
        "sink": SinkReport("files", "/w/customers_changes", 2, 0, {0: ("a",), 1: ("b",), 2: ("c",)}),
        "sources": (source(),),
        "old_code": old,
        "code": new,
        "new_code": new,
        "counts": Counts(
            table=12,
            processed=13,
            waiting=8,
            everything=21,
            repeats_waiting=0,
            by_file=dict(zip(FILES, [4, 4, 3, 2, 3, 3, 2], strict=True)),
        ),
        "old_counts": Counts(table=12, processed=12, waiting=8, everything=20, fresh_waiting=8),
    }
    return replace(Facts(**values), **changes)
