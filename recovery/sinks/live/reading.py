"""Reads a table's memory of the streams that write it, whichever kind of table it is."""

from recovery.checkpoints.deltalog import FOLDER
from recovery.checkpoints.storage import Store, reaching
from recovery.sinks.base import SinkReport
from recovery.sinks.live import delta, files


def read(location: str, *, query_id: str | None) -> SinkReport:
    """The table's report, told for the query `query_id` where the table knows queries apart.

    Kind "unknown" for a format that nothing is known of. Raises Unreachable when there is no table or the storage
    fails.
    """
    with reaching(location):
        is_delta = Store.open(location).is_dir(FOLDER)
    return delta.read(location, query_id=query_id) if is_delta else files.read(location)


def written_since(report: SinkReport, before: int | None, files_before: tuple[str, ...]) -> tuple[str, ...]:
    """Data files that the table has now and had not (or the other way round): since version `before`, or beside
    `files_before`, what its log named then. Raises Unreachable."""
    if before is not None:
        return delta.data_files_since(report.location, before)
    now = {*report.older, *(f for held in report.batches.values() for f in held)}
    return tuple(sorted(now ^ set(files_before)))
