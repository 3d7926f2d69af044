"""The files of a scratch checkpoint that first replays what was processed: its planned batch, and what comes after.

Written through `Store`, as all that the asker lays there (`recovery.spark.scratch`). Facts (MicroBatchExecution,
FileStreamSource, HDFSBackedStateStoreProvider; run on Spark 4.2): a batch that `offsets/0` plans and no commit ends is
run with exactly the files of `sources/<n>/0`, at the watermark of its header; what ends by then leaves the state in
that batch. Where batch 0 is planned without input instead, the replay is batch 1. Its state is then a snapshot of
nothing and one delta, which can be carried to any later version: a delta that removes something is no snapshot.
"""

from recovery.checkpoints import formats
from recovery.checkpoints.file_listing import MAX_SMALL_BYTES
from recovery.checkpoints.filelog import source_lines
from recovery.checkpoints.report import SourceEntry
from recovery.checkpoints.seed_files import dump_json
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.uris import canonical_uri, encode_uri
from recovery.numbers import whole

SINK_LOG = "rows/_spark_metadata"


def source_log(scratch: str, number: int) -> bytes:
    """Entry 0 of a source's log: the copy of what was processed of it."""
    folder = f"input/{number}/before"
    with reaching(scratch):
        there = Store.open(scratch)
        files = sorted(
            (e for e in there.entries(folder) if e.name.endswith(".parquet")), key=lambda e: e.name
        )
        place = canonical_uri(there.path(folder) if there.local else f"{scratch.rstrip('/')}/{folder}")
    return source_lines(SourceEntry(encode_uri(f"{place}/{e.name}"), e.mtime_ms or 0, 0) for e in files)


def set_watermark(place: str, next_ms: int | None) -> None:
    """Let the batch after the replayed one begin at the watermark that the flow's own checkpoint has."""
    with reaching(place):
        there = Store.open(place)
        newest = max(n for e in there.entries("commits") if (n := whole(e.name)) is not None)
        name = f"commits/{newest}"
        commit = formats.parse_commit(there.read(name, MAX_SMALL_BYTES))
        body = {**commit.body, "nextBatchWatermarkMs": next_ms or 0}
        for old in (name, f"commits/.{newest}.crc"):
            if there.exists(old):
                there.remove(old)
        there.write(name, f"v{commit.version}\n{dump_json(body)}".encode())


def forget_log(scratch: str) -> None:
    """Remove the sink's log where it does not begin with batch 0: without it the folder is read file by file."""
    with reaching(scratch):
        there = Store.open(scratch)
        if there.exists(SINK_LOG) and not there.exists(f"{SINK_LOG}/0"):
            there.remove(SINK_LOG)
