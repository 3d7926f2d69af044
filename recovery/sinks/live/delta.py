"""Reads what a Delta table remembers of the streams that write it."""

import hashlib

from recovery.checkpoints import deltasink
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
    )
