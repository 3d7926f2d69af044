"""Where an adopted stream writes, as Spark takes it for a table: by its format and path, or by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.tablekind import DELTA_LOG, TableKind, other_format
from recovery.checkpoints.uris import decode_uri, spell_place
from recovery.errors import NotFound, Refused
from recovery.eventlogs.seen import SeenRun
from recovery.pipelines.sink_descriptions import read_sink
from recovery.streams.places import leave_out_other_checkpoints

FORMATS: Final = ("parquet", "json", "csv", "orc")
LOOKED_AT: Final = 2_000


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
    sinks = (read_sink(batch) for run in reversed(own) for batch in run.run.batches[-1:])
    place = next((sink.place for sink in sinks if sink.description), "")
    return sink_of(place) if "/" in place else Sink("", "")


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
