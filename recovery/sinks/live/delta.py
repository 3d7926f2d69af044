"""Reads what a Delta table remembers of the streams that write it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

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
        since = _commits_after(location, version)
        moved = [body for _, actions in since for action in actions if (body := _moved(action))]
    return tuple(str(body["path"]) for body in moved if body.get("dataChange", True))


@dataclass(frozen=True)
class Taken:
    """Data files of a table at one version that later commits took away: `touched` with their rows, `rewritten` where
    the commit says that it changed none. `latest`: the last of these commits."""

    touched: tuple[str, ...]
    rewritten: int
    latest: int


def taken_since(location: str, version: int) -> Taken:
    """What the commits after `version` took away of the files that the table had then.

    Raises Unreachable where the log no longer has these commits, or cannot be read.
    """
    added: set[tuple[str, str]] = set()
    touched, rewritten, latest = [], 0, version
    with reaching(location):
        for number, actions in _commits_after(location, version):
            latest = number
            for action in actions:
                if add := action.get("add"):
                    added.add(deltalog.file_key(add))
                elif (remove := action.get("remove")) and deltalog.file_key(remove) not in added:
                    moved = not remove.get("dataChange", True)
                    rewritten += moved
                    touched += [] if moved else [str(remove["path"])]
    return Taken(tuple(touched), rewritten, latest)


def bytes_of(location: str) -> int | None:
    """Bytes of the data files of the newest version; None: the log does not tell. Raises Unreachable."""
    with reaching(location):
        log = deltalog.listed(Store.open(location))
        try:
            files = deltalog.state(log, log.latest, files=True).files if log else None
        except (Malformed, deltalog.Gone):
            return None
    return None if files is None else sum(f.size for f in files.values())


def _commits_after(location: str, version: int) -> Iterator[tuple[int, list[deltalog.Action]]]:
    log = deltalog.listed(Store.open(location))
    if log is None:
        raise Unreachable(f"{location} holds no Delta table. Check the path and the storage.")
    if log.earliest > version + 1:
        raise Unreachable(f"The log of {location} begins at version {log.earliest}, after {version}.")
    try:
        yield from deltalog.commits(log, range(version + 1, log.latest + 1))
    except (Malformed, deltalog.Gone) as problem:
        raise Unreachable(f"The log of {location} cannot be read after version {version}.") from problem


def _moved(action: deltalog.Action) -> deltalog.Action | None:
    """What an action says of a data file that came or went."""
    found: deltalog.Action | None = action.get("add") or action.get("remove")
    return found
