"""Which files a checkpoint holds that goes on after a given batch without the old state.

Facts (MicroBatchExecution, FileStreamSource): a restart reads the two newest offset files, so N - 1 is written
too, equal to N: the range of the last committed batch is then empty. With N = 0 one file is enough, but the
source then asks for every log entry from 0. Sidecars (`.crc`) are not copied: none is better than a stale one.
"""

import json
from collections.abc import Sequence

from recovery.checkpoints import filelog
from recovery.checkpoints.formats import parse_commit, parse_offsets
from recovery.checkpoints.layout import Kept, Layout
from recovery.checkpoints.storage import Store, TooLarge
from recovery.checkpoints.tree import MAX_LOG_BYTES, MAX_SMALL_BYTES
from recovery.errors import Refused


def seed_layout(
    old: Store, batch: int, reached: Sequence[int | None], query_id: str, *, commit_of: int | None = None
) -> Layout:
    """A checkpoint without state that goes on after `batch`. `reached`: each source's log id there.

    `commit_of`: the batch whose commit file is taken, where `batch` itself has none. Raises OSError when the
    storage fails, Malformed or Refused when a file that is needed is broken or gone.
    """
    layout = Layout()
    offsets = old.read(f"offsets/{batch}", MAX_SMALL_BYTES)
    layout.directories.add("sources")
    for line, log_id in zip(parse_offsets(offsets).sources, reached, strict=True):
        if log_id is None and line.offset_json is not None:
            keep_log(old, layout, f"sources/{line.key}")
        else:
            cut_log(old, layout, f"sources/{line.key}", log_id, batch)
    for number in [batch - 1, batch] if batch else [batch]:
        layout.write(f"offsets/{number}", offsets)
    commit = old.read(f"commits/{batch if commit_of is None else commit_of}", MAX_SMALL_BYTES)
    layout.write(f"commits/{batch}", _stateless(commit))
    layout.write("metadata", metadata_of(query_id))
    return layout


def metadata_of(query_id: str) -> bytes:
    """The file `metadata`, as StreamMetadata.write leaves it."""
    return json.dumps({"id": query_id}, separators=(",", ":")).encode()


def _stateless(data: bytes) -> bytes:
    """The commit as it is; in format v2 without the ids of state files, as Spark writes it for no state."""
    commit = parse_commit(data)
    if commit.version == 1 or not commit.operators:
        return data
    body = {**commit.body, "stateUniqueIds": {}}
    return f"v{commit.version}\n{json.dumps(body, separators=(',', ':'))}".encode()


def keep_log(old: Store, layout: Layout, folder: str) -> None:
    """The log of a source that is no file source, as it is: it holds where the source began, not what it read.

    A Kafka source keeps one entry there (KafkaSourceInitialOffsetWriter) and reads it before the first batch only.
    """
    if not old.exists(folder):
        return
    for entry in old.entries(folder):
        if not entry.is_dir and not entry.name.startswith("."):
            layout.keep(Kept(old, f"{folder}/{entry.name}", entry.size), f"{folder}/{entry.name}")


def cut_log(old: Store, layout: Layout, folder: str, reached: int | None, batch: int) -> None:
    """One source's log up to the committed entry. An entry above it is left out: its files are new again."""
    layout.directories.add(folder)
    if reached is None:
        return
    sizes = {e.name: e.size for e in old.entries(folder) if not e.is_dir}
    index = filelog.index_of(sizes)
    keep = {entry: name for entry, name in index.items() if entry <= reached}
    if batch == 0 and (lost := sorted(set(range(reached + 1)) - set(keep))):
        raise Refused(f"Log entry {folder}/{lost[0]} is gone, which a restart after batch 0 asks for.")
    if stands_alone(index, keep):
        for name in keep.values():
            layout.keep(Kept(old, f"{folder}/{name}", sizes[name]), f"{folder}/{name}")
    else:
        layout.write(f"{folder}/{reached}.compact", _compacted(old, folder, index, reached))


def stands_alone(index: dict[int, str], keep: dict[int, str]) -> bool:
    """Can Spark read the log when the entries above are gone, whichever compact interval it derives then?

    It can when no compacted entry was cut off. Where one was, the interval follows from fewer entries,
    or from the configuration alone, and Spark may ask for `<id>.compact` where `<id>` stands.
    """
    if len(filelog.compacted(keep)) == len(filelog.compacted(index)):
        return True
    usual, own = filelog.DEFAULT_INTERVAL, filelog.interval(index)
    return filelog.readable(keep, usual) and filelog.readable(keep, own)


def _compacted(old: Store, folder: str, index: dict[int, str], reached: int) -> bytes:
    """All entries up to `reached` as one compacted file: alone, it is readable under any interval."""
    entries = []
    try:
        for entry in filelog.needed(index)[0]:
            entries += filelog.parse_source(old.read(f"{folder}/{index[entry]}", MAX_LOG_BYTES))
    except TooLarge as error:
        raise Refused(f"The log {folder} is too large to be cut ({error.size} bytes).") from error
    return filelog.source_lines(e for e in entries if e.batch_id <= reached)
