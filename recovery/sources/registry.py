"""Which module answers for which kind of source. Pure.

A kind's name is that of `checkpoints.report.SourceProgress.kind` where an offset line tells it; a Python data source
and Auto Loader's older shapes are known by the reader's format.
"""

from collections.abc import Callable
from typing import Any

from recovery.sources import (
    auto_loader,
    delta,
    files,
    iceberg,
    kafka,
    kinesis,
    pubsub,
    python,
    rate,
    rate_micro_batch,
    unknown,
)
from recovery.sources.base import SourceKind

KINDS: tuple[SourceKind[Any], ...] = (
    files,
    kafka,
    delta,
    iceberg,
    rate,
    rate_micro_batch,
    python,
    auto_loader,
    kinesis,
    pubsub,
    unknown,
)
BY_NAME = {kind.KIND: kind for kind in KINDS}
#: kinds that no one is asked about -> the facts to judge them by
UNASKED: dict[str, Callable[[], Any]] = {
    rate.KIND: rate.RateFacts,
    rate_micro_batch.KIND: rate_micro_batch.RateMicroBatchFacts,
    python.KIND: python.PythonSourceFacts,
    auto_loader.KIND: auto_loader.AutoLoaderFacts,
    kinesis.KIND: kinesis.KinesisFacts,
    pubsub.KIND: pubsub.PubSubFacts,
    unknown.KIND: unknown.UnknownSourceFacts,
}

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


def source_kind_of(kind: str) -> SourceKind[Any]:
    """The module of a kind; `unknown`, which keeps every line as it is, for a name that none has."""
    return BY_NAME.get(kind, unknown)


def kind_of_format(reader_format: str) -> str:
    """The kind that a reader's format represents, in any case; "unknown" for one that is not known here."""
    return FORMATS.get(reader_format.lower(), "unknown")
