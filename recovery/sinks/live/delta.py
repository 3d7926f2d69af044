"""Reads what a Delta table remembers of the streams that write it."""

import hashlib

from recovery.checkpoints import deltalog, deltasink
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import Store, reaching
from recovery.errors import Unreachable
from recovery.sinks.base import SinkReport


def read(location: str, *, query_id: str | None, now_ms: int | None = None) -> SinkReport:
    """The table's report, told for the query `query_id`: `head` is the newest batch that it has of that one.

    Raises Unreachable when there is no Delta table or the storage fails.
    """
    with reaching(location):
        try:
            sink = deltasink.read(Store.open(location), query_id, now_ms=now_ms)
        except Malformed as problem:
            raise Unreachable(
                f"The log of {location} cannot be read: {problem.why}. Mend the table."
            ) from problem
    if sink is None:
        raise Unreachable(f"{location} holds no Delta table. Check the path and the storage.")
    marks = sorted(f"{name}\0{batch}" for name, batch in sink.heads.items())
    told = "\n".join([sink.table_id, str(sink.version), *marks])
    return SinkReport(
        kind="delta",
        location=location,
        head=sink.heads.get(query_id) if query_id else None,
        earliest=min(sink.batches, default=None),
        batches=dict(sink.batches),
        absorbs_repeats=True,
        fingerprint=hashlib.sha256(told.encode()).hexdigest(),
        heads=dict(sink.heads),
        forgotten=sink.forgotten.get(query_id) if query_id else None,
        forgets=sink.forgets,
        version=sink.version,
    )


def data_files_since(location: str, version: int) -> tuple[str, ...]:
    """Data files that came or went with data in the commits after `version`, as the log writes their paths.

    What only moves rows to other files (OPTIMIZE) is left out. Raises Unreachable where the log no longer has them.
    """
    with reaching(location):
        log = deltalog.listed(Store.open(location))
        if log is None:
            raise Unreachable(f"{location} holds no Delta table. Check the path and the storage.")
        if log.earliest > version + 1:
            raise Unreachable(f"The log of {location} begins at version {log.earliest}, after {version}.")
        since = deltalog.commits(log, range(version + 1, log.latest + 1))
        moved = [body for _, actions in since for action in actions if (body := _moved(action))]
    return tuple(str(body["path"]) for body in moved if body.get("dataChange", True))


def _moved(action: deltalog.Action) -> deltalog.Action | None:
    """What an action says of a data file that came or went."""
    found: deltalog.Action | None = action.get("add") or action.get("remove")
    return found
