"""Which runs of a plain stream began in a table without a row of an earlier query: one that was new, or emptied."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from recovery.checkpoints import deltasink, sinklog
from recovery.checkpoints.read_cache import Recent
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.tablekind import DELTA_LOG
from recovery.errors import RepriseError
from recovery.eventlogs.values import Run
from recovery.numbers import read_whole
from recovery.pipelines.sink_descriptions import SinkClass, read_sink
from recovery.streams.updates import StreamUpdate, batch_ms

LOOKED_AT: Final = 2_000
"""Files of a table without a log, each of which tells its age."""


def list_table_beginnings(
    updates: Sequence[StreamUpdate], *, history: Sequence[StreamUpdate], since: datetime, table: str
) -> set[str]:
    """Ids of those whose query began in a table that was new or emptied, so that nothing of an earlier query is in it.
    Asks the storage.

    `history`: all updates, the newest first. Of a file table, only runs created later than `since` count: adoption has
    judged what the table passed over before. `table`: the place of the stream's table, "" for none: a run whose sink is
    a function does not name it.
    """
    before = {newer.update_id: older for newer, older in pairwise(history)}
    since_ms = since.timestamp() * 1000
    return {
        update.update_id
        for update in updates
        if _began_table(update, before.get(update.update_id), since_ms, table)
    }


def _began_table(update: StreamUpdate, before: StreamUpdate | None, since_ms: float, table: str) -> bool:
    """False where that is not known."""
    run = update.run
    if run is None or run.last_batch is None or not _is_new_query(run, before):
        return False
    sink = read_sink(run.batches[-1] if run.batches else {})
    ended_ms = _find_end(before) if before else run.started_ms
    is_judged = sink.kind is not SinkClass.FILES or update.created_ms > since_ms
    place = sink.place or table
    try:
        if ended_ms is None or not is_judged or "/" not in place:
            return False
        return _has_nothing_of_before(place, ended_ms, run.started_ms)
    except RepriseError:
        return False


def _find_end(update: StreamUpdate) -> int | None:
    """When it wrote its last batch at the latest, in ms since 1970. The log of a run that was killed names no end: then
    the end of its newest batch there. None where that is not known."""
    batch = update.run.batches[-1] if update.run and update.run.batches else {}
    began_ms, took = batch_ms(batch), batch.get("durationMs")
    took_ms = read_whole(took.get("triggerExecution")) if isinstance(took, Mapping) else None
    if update.ended_ms is not None or began_ms is None or took_ms is None:
        return update.ended_ms
    return began_ms + took_ms


def _is_new_query(run: Run, before: StreamUpdate | None) -> bool:
    """Whether a run began with batch 0, or with another id than the run before. Of a long run only the newest batches
    are kept."""
    began_at_0 = run.last_batch is not None and run.batches_in_all > run.last_batch
    return began_at_0 or (
        before is not None and before.run is not None and before.run.query_id != run.query_id
    )


_ASKED: Final = Recent[tuple[str, int, int], bool](1_000)
"""What the storage said, as every poll asks it of a run that goes on; not where it may say otherwise later."""


def _has_nothing_of_before(place: str, ended_ms: int, started_ms: int) -> bool:
    """Whether a table has no row that it had when the run before ended; the next one started at `started_ms`. False
    where that is not known. Raises RepriseError."""
    asked = (place, ended_ms, started_ms)
    known = _ASKED.get(asked)
    if known is not None:
        return known
    with reaching(place):
        table = Store.open(place)
        is_file_table = False
        if table.is_dir(DELTA_LOG):
            is_new = deltasink.was_emptied(table, ended_ms, started_ms)
        elif is_file_table := table.is_dir(sinklog.FOLDER):
            is_new = sinklog.began_after(table, ended_ms)
        else:  # rows of before may be in files that a job has written again since
            after_ms, written = max(ended_ms, started_ms), _list_write_times(table)
            is_new = bool(written) and all(ms is not None and ms > after_ms for ms in written)
    if is_new or not is_file_table:
        _ASKED.put(asked, is_new)
    return is_new


def _list_write_times(table: Store) -> list[int | None]:
    """When each file of a table was written, in ms since 1970, those of its partitions too; [] for more files than are
    looked at. Raises RepriseError, OSError."""
    written: list[int | None] = []
    folders, looked_at = [""], 0
    while folders:
        folder = folders.pop()
        entries = table.entries(folder, LOOKED_AT + 1)
        looked_at += len(entries)
        if looked_at > LOOKED_AT:
            return []
        folders += [f"{folder}/{entry.name}".lstrip("/") for entry in entries if entry.is_dir]
        written += [entry.mtime_ms for entry in entries if not entry.is_dir]
    return written
