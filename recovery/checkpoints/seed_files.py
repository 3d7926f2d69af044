"""Which files a checkpoint holds that goes on after a given batch without the old state.

Facts (MicroBatchExecution, FileStreamSource): a restart reads the two newest offset files, so N - 1 is written
too, equal to N: the range of the last committed batch is then empty. With N = 0 one file is enough, but the
source then asks for every log entry from 0. Sidecars (`.crc`) are not copied: none is better than a stale one.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from recovery.checkpoints import filelog
from recovery.checkpoints.file_layout import CheckpointFile, Layout
from recovery.checkpoints.file_listing import MAX_LOG_BYTES, MAX_SMALL_BYTES
from recovery.checkpoints.formats import OffsetLine, object_of, parse_commit, parse_offsets, text_of
from recovery.checkpoints.positions import is_kafka
from recovery.checkpoints.report import SourceEntry
from recovery.checkpoints.starts import SourceStart, entries_at
from recovery.checkpoints.storage import Store, TooLarge
from recovery.errors import Refused

FIRST_COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
"""The commit of a query without state whose first batch the table alone has finished. Without state no row is late,
so its watermark decides nothing."""


def seed_layout(
    old: Store,
    batch: int,
    reached: Sequence[int | None],
    query_id: str,
    *,
    commit_of: int | None,
    starts: Sequence[SourceStart] | None = None,
    watermark_ms: int | None = None,
    form_of: int | None = None,
) -> Layout:
    """A checkpoint without state that goes on after `batch`. `reached`: each old source's log id there.

    `commit_of`: the batch whose commit file is taken; None: there is none, and one is made. `starts`: every source of
    the new code (None: the old sources where they are), as `starts.check_starts` gives them. `watermark_ms`: where the
    next batch begins (None: as it is). `form_of`: the batch whose offset file is taken, with the lines of `starts`,
    where that of `batch` is lost. Raises OSError when the storage fails, Malformed or Refused when a file that is
    needed is broken or gone.
    """
    layout = Layout()
    offsets = old.read(f"offsets/{batch if form_of is None else form_of}", MAX_SMALL_BYTES)
    layout.directories.add("sources")
    lines = list(zip(parse_offsets(offsets).sources, reached, strict=True))
    for line, log_id in lines if starts is None else ():
        _take_log(old, layout, line, log_id, batch)
    for start in starts or ():
        if start.old is None:
            _begin_log(layout, start, batch)
        else:
            _go_on(old, layout, start, *lines[start.old], batch)
    if starts is not None:
        offsets = _with_starts(offsets, starts)
    if watermark_ms is not None:
        offsets = with_header(offsets, batchWatermarkMs=watermark_ms)
    for number in [batch - 1, batch] if batch else [batch]:
        layout.write(f"offsets/{number}", offsets)
    commit = FIRST_COMMIT if commit_of is None else old.read(f"commits/{commit_of}", MAX_SMALL_BYTES)
    layout.write(f"commits/{batch}", _with_watermark(_without_state_ids(commit), watermark_ms))
    layout.write("metadata", metadata_of(query_id))
    return layout


def with_header(offsets: bytes, **words: Any) -> bytes:
    """An offset file whose header says these words too."""
    lines = text_of(offsets).split("\n")
    lines[1] = dump_json({**object_of(lines[1]), **words})
    return "\n".join(lines).encode()


def dump_json(body: Any) -> str:
    """JSON as Spark writes it: without spaces, letters as they are."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def _with_starts(offsets: bytes, starts: Sequence[SourceStart]) -> bytes:
    """The offset file with the lines of the starts; what its header says of named sources that are gone goes too."""
    lines = text_of(offsets).split("\n")
    version, header = parse_offsets(offsets).version, object_of(lines[1])
    if isinstance(about := header.get("sourceMetadataInfo"), dict) and about:
        here = {start.key for start in starts}
        lines[1] = dump_json({**header, "sourceMetadataInfo": {k: v for k, v in about.items() if k in here}})
    said = [(start.key, start.offset_json or "-") for start in starts]
    return "\n".join([*lines[:2], *(f"{k}:{at}" if version > 1 else at for k, at in said)]).encode()


def _take_log(old: Store, layout: Layout, line: OffsetLine, reached: int | None, batch: int) -> None:
    """A source that goes on where it is."""
    if reached is None and line.offset_json is not None:
        keep_log(old, layout, f"sources/{line.key}")
    else:
        cut_log(old, layout, f"sources/{line.key}", reached, batch)


def _go_on(
    old: Store, layout: Layout, start: SourceStart, line: OffsetLine, reached: int | None, batch: int
) -> None:
    """A source of the old checkpoint at the position that its start names, in the directory of its new number."""
    source, target = f"sources/{line.key}", f"sources/{start.key}"
    if start.offset_json is None:
        if reached is not None or (line.offset_json is None and old.is_dir(source)):
            layout.directories.add(target)  # a file source's, which is there before anything was read
        return
    if start.log_id is None:
        keep_log(old, layout, source, target)
        return
    held = () if reached is None else _iterate_log_entries(old, source, reached)
    if not start.again and not start.skip and start.log_id == reached:
        cut_log(old, layout, source, reached, batch, target)
        return
    write_log(layout, target, entries_at(start, held, batch), start.log_id, _list_log_names(old, source))


def _begin_log(layout: Layout, start: SourceStart, batch: int) -> None:
    """A new source: a file source's log of what it skips, a Kafka source's entry of where it began."""
    folder = f"sources/{start.key}"
    if start.log_id is not None:
        write_log(layout, folder, entries_at(start, (), batch), start.log_id, {})
    elif start.offset_json is not None and is_kafka(object_of(start.offset_json)):
        layout.write(f"{folder}/0", f"\0v1\n{start.offset_json}".encode())


def write_log(
    layout: Layout, folder: str, entries: Sequence[SourceEntry], reached: int, old: dict[int, str]
) -> None:
    """A file source's log with these entries, sorted by their ids, whose newest id is `reached` (-1: it is empty).

    Entries as Spark would have written them where it reads those whichever interval it is set to: none has a number
    that the `old` log, which it has read, lacks. Else one compacted file, readable under any interval; entry 0 alone
    is never compacted, since every batch would then compact the log. Where ids are left out, all get the newest one:
    no one asks for the others, and a reader takes a compacted file that lacks ids for one that lost lines.
    """
    layout.directories.add(folder)
    if reached < 0:
        return
    by_id: dict[int, list[SourceEntry]] = {}
    for entry in entries:
        by_id.setdefault(entry.batch_id, []).append(entry)
    whole = len(by_id) == reached + 1
    plain = {n: str(n) for n in by_id}
    usual, own = filelog.DEFAULT_INTERVAL, filelog.compact_interval(old)
    known = reached <= max(old, default=0)
    if whole and known and filelog.is_log_readable(plain, usual) and filelog.is_log_readable(plain, own):
        for number, held in by_id.items():
            layout.write(f"{folder}/{number}", filelog.source_lines(held))
    else:
        compacted = entries if whole else [replace(e, batch_id=reached) for e in entries]
        layout.write(f"{folder}/{reached}.compact", filelog.source_lines(compacted))


def metadata_of(query_id: str) -> bytes:
    """The file `metadata`, as StreamMetadata.write leaves it."""
    return json.dumps({"id": query_id}, separators=(",", ":")).encode()


def _without_state_ids(data: bytes) -> bytes:
    """The commit as it is; in format v2 without the ids of state files, as Spark writes it for no state."""
    commit = parse_commit(data)
    if commit.version == 1 or not commit.operators:
        return data
    return f"v{commit.version}\n{dump_json({**commit.body, 'stateUniqueIds': {}})}".encode()


def _with_watermark(commit: bytes, watermark_ms: int | None) -> bytes:
    """The commit with the watermark that the next batch begins at."""
    if watermark_ms is None:
        return commit
    parsed = parse_commit(commit)
    return f"v{parsed.version}\n{dump_json({**parsed.body, 'nextBatchWatermarkMs': watermark_ms})}".encode()


def keep_log(old: Store, layout: Layout, folder: str, to: str | None = None) -> None:
    """The log of a source that is no file source, as it is: it holds where the source began, not what it read.

    A Kafka source keeps one entry there (KafkaSourceInitialOffsetWriter) and reads it before the first batch only.
    `to`: the name of its directory in the layout, where it is another one.
    """
    if not old.exists(folder):
        return
    for entry in old.entries(folder):
        if not entry.is_dir and not entry.name.startswith("."):
            layout.keep(
                CheckpointFile(old, f"{folder}/{entry.name}", entry.size), f"{to or folder}/{entry.name}"
            )


def cut_log(
    old: Store, layout: Layout, folder: str, reached: int | None, batch: int, to: str | None = None
) -> None:
    """One source's log up to the committed entry. An entry above it is left out: its files are new again.

    `to`: the name of its directory in the layout, where it is another one.
    """
    target = to or folder
    layout.directories.add(target)
    if reached is None or reached < 0:
        return
    sizes = {e.name: e.size for e in old.entries(folder) if not e.is_dir}
    index = filelog.index_of(sizes)
    keep = {entry: name for entry, name in index.items() if entry <= reached}
    if batch == 0 and (lost := sorted(set(range(reached + 1)) - set(keep))):
        raise Refused(f"Log entry {folder}/{lost[0]} is gone, which a restart after batch 0 asks for.")
    if stands_alone(index, keep):
        for name in keep.values():
            layout.keep(CheckpointFile(old, f"{folder}/{name}", sizes[name]), f"{target}/{name}")
    else:
        lines = filelog.source_lines(_iterate_log_entries(old, folder, reached))
        layout.write(f"{target}/{reached}.compact", lines)


def stands_alone(index: dict[int, str], keep: dict[int, str]) -> bool:
    """Can Spark read the log when the entries above are gone, whichever compact interval it derives then?

    It can when no compacted entry was cut off. Where one was, the interval follows from fewer entries,
    or from the configuration alone, and Spark may ask for `<id>.compact` in place of `<id>`.
    """
    if len(filelog.compacted_ids(keep)) == len(filelog.compacted_ids(index)):
        return True
    usual, own = filelog.DEFAULT_INTERVAL, filelog.compact_interval(index)
    return filelog.is_log_readable(keep, usual) and filelog.is_log_readable(keep, own)


def _iterate_log_entries(old: Store, folder: str, reached: int) -> Iterator[SourceEntry]:
    """All entries of a log up to `reached`. Raises Refused where it is too large to be held."""
    index = _list_log_names(old, folder)
    try:
        for entry in filelog.needed_entries(index)[0]:
            entries = filelog.parse_source(old.read(f"{folder}/{index[entry]}", MAX_LOG_BYTES))
            yield from (e for e in entries if e.batch_id <= reached)
    except TooLarge as error:
        raise Refused(f"The log {folder} is too large to be cut ({error.size} bytes).") from error


def _list_log_names(old: Store, folder: str) -> dict[int, str]:
    """Its entries by id; none where there is no such directory yet."""
    try:
        return filelog.index_of(e.name for e in old.entries(folder) if not e.is_dir)
    except FileNotFoundError:
        return {}
