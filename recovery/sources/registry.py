"""Which module or value answers for which kind of source. Pure.

A kind's name is that of `checkpoints.report.SourceProgress.kind` where an offset line shows it; a Python data source
and Auto Loader's older shapes are known by the reader's format.
"""

from typing import Any

from recovery.sources import delta, files, iceberg, kafka, unasked
from recovery.sources.base import PositionedSource, SourceKind

#: kinds whose systems are asked, and at whose positions a stream can start
POSITIONED: dict[str, PositionedSource[Any]] = {files.KIND: files, kafka.KIND: kafka, delta.KIND: delta}
UNASKED = {kind.KIND: kind for kind in unasked.KINDS}
BY_NAME: dict[str, SourceKind] = {**POSITIONED, iceberg.KIND: iceberg, **UNASKED}

# DataStreamReader.format -> kind; a table that is named alone has no format of its own.
FORMATS = {
    **dict.fromkeys(("json", "csv", "parquet", "orc", "text", "xml", "avro", "binaryfile"), "files"),
    "kafka": "kafka",
    "delta": "delta",
    "iceberg": "iceberg",
    "rate": "rate",
    "rate-micro-batch": "rate-micro-batch",
    "cloudfiles": "auto-loader",
    "kinesis": "kinesis",
    "aws-kinesis": "kinesis",
    "pubsub": "pubsub",
}


def source_kind_of(kind: str) -> SourceKind:
    """What answers for a kind; `unknown`, which keeps every line as it is, for a name that none has."""
    return BY_NAME.get(kind, unasked.UNKNOWN)


def kind_of_format(reader_format: str) -> str:
    """The kind that a reader's format represents, in any case; "unknown" for one that is not known here."""
    return FORMATS.get(reader_format.lower(), "unknown")
