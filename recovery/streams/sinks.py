"""Where an adopted stream writes, as Spark takes it for a table: by its format and path, or by name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from recovery.checkpoints import deltasink, sinklog
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.tablekind import DELTA_LOG, TableKind, other_format
from recovery.checkpoints.uris import decode_uri, spell_place, strip_file_scheme
from recovery.errors import NotFound, Refused, RepriseError
from recovery.eventlogs.seen import SeenRun
from recovery.eventlogs.values import Run
from recovery.numbers import read_whole
from recovery.streams.places import leave_out_other_checkpoints
from recovery.streams.updates import StreamUpdate, batch_ms

FORMATS: Final = ("parquet", "json", "csv", "orc")
LOOKED_AT: Final = 2_000
_NAMED: Final = re.compile(r"(FileSink|DeltaSink)\[(.{1,1000})\]")


@dataclass(frozen=True)
class Sink:
    """`place`: its path, "" for a table by name and where nothing is known; `dataset`: what Spark reads it by, "" where
    that is not known."""

    place: str
    dataset: str


def sink_of(text: str) -> Sink:
    """Of a path, URL or name of a table. Raises Unreachable, Refused."""
    if "/" not in text:
        parts = text.split(".")
        return Sink("", ".".join(["spark_catalog", "default"][: max(0, 3 - len(parts))] + parts))
    kind = _format(text)
    return Sink(text, f"{kind}.`{text}`" if kind else "")


def check_named_sink(sink: Sink, report: CheckpointReport) -> None:
    """Checks that a folder is at the path that somebody named, and that the stream reads no file from there. Before
    the first batch is committed, no table need be there. Raises NotFound (`no_sink`), Refused (`sink_is_source`),
    Unreachable."""
    committed = report.last_committed
    if not sink.place or committed is None:
        return
    with reaching(sink.place):
        is_there = Store.open(sink.place).is_dir()
    if not is_there:
        raise NotFound(
            f"Nothing is at {sink.place}, although the checkpoint has committed batch {committed}. Correct the sink. "
            "If its table was removed, leave the sink out.",
            code="no_sink",
            flags=("--sink",),
        )
    folder = f"{spell_place(sink.place).rstrip('/')}/"
    read = (decode_uri(entry.path) for source in report.sources for entry in source.committed.first)
    if any(spell_place(path).startswith(folder) for path in read):
        raise Refused(
            f"{sink.place} holds files that the stream has read, so it is no table of the stream. Name the folder that "
            "it writes.",
            code="sink_is_source",
            flags=("--sink",),
        )


def sink_by_log(checkpoint: str, seen: Sequence[SeenRun]) -> Sink:
    """As the newest batch in event logs that names a sink does; nothing where that is no folder, as a topic. `seen`:
    runs of the query, the oldest first. Those that name another checkpoint show the table of a copy, or of the
    original."""
    own = leave_out_other_checkpoints(checkpoint, seen)
    batches = (batch for run in reversed(own) for batch in run.run.batches[-1:])
    named = next((description for batch in batches if (description := _describe_sink(batch))), "")
    _, place = _read_description(named)
    return sink_of(place) if "/" in place else Sink("", "")


def _describe_sink(batch: Mapping[str, object]) -> str:
    sink = batch.get("sink")
    return str(sink.get("description") or "") if isinstance(sink, Mapping) else ""


def _read_description(description: str) -> tuple[str, str]:
    """Class and place of the table that a sink's description names; "" each where it names none."""
    named = _NAMED.search(description)
    return (named[1], strip_file_scheme(named[2].rstrip("/"))) if named and "`" not in named[2] else ("", "")


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
    kind, place = _read_description(_describe_sink(run.batches[-1]) if run.batches else "")
    ended_ms = _find_end(before) if before else run.started_ms
    is_judged = kind != "FileSink" or update.created_ms > since_ms
    place = place or table
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


_ASKED: Final[dict[tuple[str, int, int], bool]] = {}
"""What the storage said, as every poll asks it of a run that goes on; not where it may say otherwise later."""
MOST_ASKED: Final = 1_000


def _has_nothing_of_before(place: str, ended_ms: int, started_ms: int) -> bool:
    """Whether a table has no row that it had when the run before ended; the next one started at `started_ms`. False
    where that is not known. Raises RepriseError."""
    asked = (place, ended_ms, started_ms)
    if asked in _ASKED:
        return _ASKED[asked]
    with reaching(place):
        table = Store.open(place)
        is_delta = table.is_dir(DELTA_LOG)
        if is_delta:
            is_new = deltasink.was_emptied(table, ended_ms, started_ms)
        elif table.is_dir(sinklog.FOLDER):
            is_new = sinklog.began_after(table, ended_ms)
        else:
            files = table.entries("", LOOKED_AT + 1)
            is_new = len(files) <= LOOKED_AT and all(
                not file.is_dir and file.mtime_ms is not None and file.mtime_ms > ended_ms for file in files
            )
    if is_new or is_delta:
        if len(_ASKED) >= MOST_ASKED:
            _ASKED.clear()
        _ASKED[asked] = is_new
    return is_new


def _format(place: str) -> str:
    """The format of a table's files; "" where there is nothing yet that tells it."""
    with reaching(place):
        store = Store.open(place)
        if not store.is_dir():
            return ""
        kind = other_format(store)
        if store.is_dir(DELTA_LOG):
            return "delta"
        if kind is not None and kind is not TableKind.FILES:
            return ""
        names = list(store.walk(LOOKED_AT)[0])
    data = [n for n in names if not any(part[:1] in "._" for part in n.split("/"))]
    ends = [name.rsplit(".", 1)[-1] for name in data]
    plain = [n.removesuffix(".gz").rsplit(".", 1)[-1] for n in data]
    return next((f for f in FORMATS if f in ends or f in plain), "")
