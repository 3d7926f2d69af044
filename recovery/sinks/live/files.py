"""Reads what a file table remembers: the log of the file sink, `<table>/_spark_metadata`."""

from recovery.checkpoints import sinklog
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.tablekind import other_format
from recovery.checkpoints.uris import decode_uri
from recovery.errors import Unreachable
from recovery.sinks import unknown
from recovery.sinks.base import SinkReport


def read_table_report(location: str) -> SinkReport:
    """The table's report; `head` is None where no batch was ever written (or no log is kept).

    A table of another format (Delta, Hudi, Iceberg) gives kind "unknown". Raises Unreachable when the table's
    directory does not exist or the storage fails.
    """
    with reaching(location):
        table = Store.open(location)
        if not table.is_dir():
            raise Unreachable(f"Table directory {location} does not exist. Check the path and the storage.")
        log = sinklog.read_sink_log(table)
        if not log.present and other_format(table):
            return unknown.empty_report(location)
    return SinkReport(
        kind="files",
        location=location,
        head=log.head,
        earliest=log.earliest,
        batches={batch: tuple(decode_uri(p) for p in paths) for batch, paths in log.batches.items()},
        findings=log.findings,
        fingerprint=log.fingerprint,
        size_bytes=log.size_bytes,
        older=tuple(decode_uri(p) for p in log.older),
    )
