"""Which files a seeded checkpoint holds, and in which order they are written.

Facts (MicroBatchExecution, FileStreamSource): a restart reads the two newest offset files, so N - 1 is written
too, equal to N: the range of the last committed batch is then empty. With N = 0 one file is enough, but the
source then asks for every log entry from 0. Sidecars (`.crc`) are not copied: none is better than a stale one.
"""

import json
from collections.abc import Callable, Sequence

from recovery.checkpoints import filelog
from recovery.checkpoints.formats import parse_commit, parse_offsets
from recovery.checkpoints.storage import Store, TooLarge
from recovery.checkpoints.tree import MAX_LOG_BYTES, MAX_SMALL_BYTES
from recovery.errors import Refused

Guard = Callable[[], None]


def build(
    flow: Store,
    name: str,
    version: int,
    batch: int,
    reached: Sequence[int | None],
    query_id: str,
    guard: Guard,
) -> None:
    """Write the new checkpoint under `name`. `reached`: log id of each source at the last committed batch.

    Sources first, metadata last: without metadata no Spark would take the directory for a checkpoint.
    Raises OSError when the storage fails, Refused when a log entry that is needed is gone.
    """
    old, new = flow.child(_name_of(flow, version)), flow.child(name)
    offsets = old.read(f"offsets/{batch}", MAX_SMALL_BYTES)
    keys = [line.key for line in parse_offsets(offsets).sources]
    guard()
    new.make_dirs("sources")
    for key, log_id in zip(keys, reached, strict=True):
        _log(old, new, f"sources/{key}", log_id, batch, guard)
    guard()
    new.make_dirs("offsets")
    for number in [batch - 1, batch] if batch else [batch]:
        guard()
        new.write(f"offsets/{number}", offsets, later=True)
    guard()
    new.make_dirs("commits")
    new.write(f"commits/{batch}", _commit(old.read(f"commits/{batch}", MAX_SMALL_BYTES)), later=True)
    guard()
    new.write("metadata", json.dumps({"id": query_id}, separators=(",", ":")).encode(), later=True)
    guard()
    new.settle()
    flow.sync()


def _name_of(flow: Store, version: int) -> str:
    """The directory's own name: `0007` counts as version 7 too."""
    names = [e.name for e in flow.entries() if e.is_dir and e.name.isdigit() and int(e.name) == version]
    return min(names, key=len, default=str(version))


def _commit(data: bytes) -> bytes:
    """The commit as it is; in format v2 without the ids of state files, as Spark writes it for no state."""
    commit = parse_commit(data)
    if commit.version == 1 or not commit.operators:
        return data
    body = {**commit.body, "stateUniqueIds": {}}
    return f"v{commit.version}\n{json.dumps(body, separators=(',', ':'))}".encode()


def _log(old: Store, new: Store, folder: str, reached: int | None, batch: int, guard: Guard) -> None:
    """One source's log up to the committed entry. An entry above it is left out: its files are new again."""
    new.make_dirs(folder)
    if reached is not None:
        index = filelog.index_of(e.name for e in old.entries(folder) if not e.is_dir)
        keep = {entry: name for entry, name in index.items() if entry <= reached}
        if batch == 0 and len(keep) <= reached:
            lost = next(entry for entry in range(reached + 1) if entry not in keep)
            raise Refused(f"Log entry {folder}/{lost} is gone, which a restart after batch 0 asks for.")
        if stands_alone(index, keep):
            for name in keep.values():
                guard()
                new.link(old, f"{folder}/{name}", f"{folder}/{name}")
        else:
            guard()
            new.write(f"{folder}/{reached}.compact", _compacted(old, folder, index, reached), later=True)


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
