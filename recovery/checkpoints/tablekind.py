"""What a directory of files without a file sink's log (`_spark_metadata`) is: a table of another format, what batch
jobs or foreachBatch write, or what only a file sink writes.

Known from names alone. Spark's batch writers mark what they finished (`_SUCCESS`; Databricks `_started_…`,
`_committed_…`) and give all files of one job the same id; a streaming file sink marks nothing and gives each file an
id of its own (HadoopMapReduceCommitProtocol, ManifestFileCommitProtocol; seen on 4.2).
"""

import re
from collections import Counter
from enum import StrEnum

from recovery.checkpoints.storage import Store

DELTA_LOG = "_delta_log"
LOOKED_AT = 10_000  # names of the table
PART = re.compile(r"part-\d{5,}-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-c\d+)?\..+")
MARKS = re.compile(r"_SUCCESS|_(started|committed)_\d+")
ICEBERG_METADATA = re.compile(r".+\.metadata\.json(\.gz)?")


class TableKind(StrEnum):
    """How it is called. FILES: nothing tells it from a file sink's table that has lost its log."""

    DELTA = "a Delta table"
    ICEBERG = "an Iceberg table"
    HUDI = "a Hudi table"
    BATCH = "written by batch jobs"
    FILES = "files"


def other_format(table: Store) -> TableKind | None:
    """The format that keeps a record of its own; None: none that is known here. Raises OSError."""
    if table.is_dir(DELTA_LOG):
        return TableKind.DELTA
    if table.is_dir(".hoodie"):
        return TableKind.HUDI
    if table.is_dir("metadata") and any(
        ICEBERG_METADATA.fullmatch(e.name) for e in table.entries("metadata")
    ):
        return TableKind.ICEBERG
    return None


def kind_of(table: Store) -> TableKind:
    """What a table without `_spark_metadata` is, by its first ten thousand names. Raises OSError."""
    if other := other_format(table):
        return other
    names = list(table.walk(LOOKED_AT)[0])
    if any(MARKS.fullmatch(name.rsplit("/", 1)[-1]) for name in names):
        return TableKind.BATCH
    data = [n.rsplit("/", 1)[-1] for n in names if not any(part[:1] in "._" for part in n.split("/"))]
    parts = [PART.fullmatch(name) for name in data]
    jobs = Counter(part[1] for part in parts if part)
    if data and (not all(parts) or max(jobs.values()) > 1):
        return TableKind.BATCH
    return TableKind.FILES
