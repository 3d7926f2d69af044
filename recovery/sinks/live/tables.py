"""Reads a table's memory of the streams that write it, from the table's own files. Needs no client of a broker."""

from recovery.checkpoints.deltalog import FOLDER
from recovery.checkpoints.storage import Store, reaching
from recovery.sinks.base import SinkReport
from recovery.sinks.live import delta, files


def read_table(location: str, *, query_id: str | None) -> SinkReport:
    """The table's report, for the query `query_id` where the table knows queries apart.

    Kind "unknown" for a format that nothing is known of. Raises Unreachable when there is no table or the storage
    fails.
    """
    with reaching(location):
        is_delta = Store.open(location).is_dir(FOLDER)
    return (
        delta.read_table_report(location, query_id=query_id)
        if is_delta
        else files.read_table_report(location)
    )
