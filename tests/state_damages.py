"""Damages of state: what `inspect` must predict, and what Spark 4.2 does at the next restart.

Data for tests/integration/test_state_on_spark.py (against Spark) and tests/unit/checkpoints/state (without it, on the
copies of what Spark wrote). Names may hold `*`: the first match is meant, since ids differ from run to run.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RUNS = ""  # Spark goes on without an error
LOAD = "CANNOT_LOAD_STATE_STORE"


def find(root: Path, pattern: str) -> Path:
    """The first file of this pattern, by name; hidden ones are Hadoop's."""
    return sorted(p for p in root.glob(pattern) if not p.name.startswith("."))[0]


def bare(file: Path) -> Path:
    """The same file, without Hadoop's checksum of it: a changed file with its old checksum is another damage."""
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    return file


def lose(root: Path, *patterns: str) -> None:
    for pattern in patterns:
        found = find(root, pattern)
        bare(found)
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def empty(root: Path, pattern: str) -> None:
    bare(find(root, pattern)).write_bytes(b"")


def cut(root: Path, pattern: str, size: int) -> None:
    file = bare(find(root, pattern))
    file.write_bytes(file.read_bytes()[:size])


def flip(root: Path, pattern: str, at: int) -> None:
    """One bit of one byte; a negative place counts from the end."""
    file = bare(find(root, pattern))
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def flip_each(root: Path, pattern: str, at: int) -> None:
    """`flip` in every file of this pattern."""
    for file in root.glob(pattern):
        if not file.name.startswith("."):
            flip(root, file.relative_to(root).as_posix(), at)


def swap(root: Path, pattern: str, old: str, new: str) -> None:
    file = bare(find(root, pattern))
    text = file.read_bytes()
    assert old.encode() in text
    file.write_bytes(text.replace(old.encode(), new.encode(), 1))


def newest(root: Path, folder: str) -> str:
    return f"{folder}/{max(int(p.name) for p in (root / folder).iterdir() if p.name.isdigit())}"


def no_ids(root: Path) -> None:
    """The newest commit as format 1 would have it."""
    file = bare(root / newest(root, "commits"))
    body = json.loads(file.read_text().split("\n")[1])
    file.write_text("v1\n" + json.dumps({"nextBatchWatermarkMs": body["nextBatchWatermarkMs"]}))


def other_ids(root: Path) -> None:
    """The newest commit names files that nobody wrote."""
    file = bare(root / newest(root, "commits"))
    file.write_text(re.sub(r"[0-9a-f]{8}(-[0-9a-f-]{27})", r"00000000\1", file.read_text()))


def other_provider(root: Path) -> None:
    for name in (newest(root, "offsets"), "offsets/2"):
        swap(root, name, "HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")


def moved(root: Path) -> None:
    """As if the checkpoint had been copied to here, and its old place were still there."""
    old = root.with_name("old-place")
    shutil.copytree(root, old, dirs_exist_ok=True)
    swap(root, "state/0/_metadata/v2/0", f"{root.name}/state", "old-place/state")


def take_back(root: Path, batch: int) -> None:
    """Remove what came after a batch from the logs, and leave the state: a rollback in place."""
    for folder in ("offsets", "commits", "sources/0"):
        for file in (root / folder).iterdir():
            if file.name.isdigit() and int(file.name) > batch:
                bare(file).unlink()


@dataclass(frozen=True)
class Damage:
    """`code`: of the findings, "" for none; `deep`: only found when asked for; `spark`: RUNS or the failure's words."""

    name: str
    case: str
    do: Callable[[Path], object]
    code: str
    spark: str
    deep: bool = False


HDFS, SNAP, ROCKS, LOG, LOGSNAP, TWO, TWOLOG, TWOSNAP, TWS, JOIN = (
    "hdfs-dedupe", "hdfs-dedupe-snapshots", "rocksdb-dedupe", "rocksdb-changelog",
    "rocksdb-changelog-snapshots", "rocksdb-2",
    "rocksdb-2-changelog", "rocksdb-2-snapshots", "rocksdb-transform", "hdfs-join",
)  # fmt: skip
DAMAGES = (
    Damage("nothing, hdfs", HDFS, lambda c: None, "", RUNS),
    Damage("nothing, rocksdb", ROCKS, lambda c: None, "", RUNS),
    Damage("nothing, format 2", TWOLOG, lambda c: None, "", RUNS),
    Damage("nothing, column families", TWS, lambda c: None, "", RUNS),
    Damage("nothing, limit", "hdfs-limit", lambda c: None, "", RUNS),
    Damage("nothing, global aggregate", "hdfs-global-aggregate", lambda c: None, "", RUNS),
    Damage("operator directory gone", HDFS, lambda c: lose(c, "state/0"), "STATE_MISSING", "MISSING_STATE_DIRECTORY"),
    Damage("first of two operators gone", "hdfs-two-operators", lambda c: lose(c, "state/0"), "STATE_MISSING", "."),
    Damage("partition gone", HDFS, lambda c: lose(c, "state/0/1"), "STATE_PARTITION_MISSING", LOAD),
    Damage("newest delta gone", HDFS, lambda c: lose(c, "state/0/0/4.delta"), "STATE_FILE_MISSING", LOAD),
    Damage("first delta gone", HDFS, lambda c: lose(c, "state/0/1/1.delta"), "STATE_FILE_MISSING", LOAD),
    Damage("delta empty", HDFS, lambda c: empty(c, "state/0/0/4.delta"), "STATE_FILE_DAMAGED", LOAD),
    Damage("delta cut", HDFS, lambda c: cut(c, "state/0/0/4.delta", 30), "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("delta without its end", HDFS, lambda c: cut(c, "state/0/0/4.delta", 49), "", RUNS, deep=True),
    Damage("bit of a delta", HDFS, lambda c: flip(c, "state/0/0/4.delta", 30), "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("older delta gone", SNAP, lambda c: lose(c, "state/0/0/2.delta"), "STATE_GAP", RUNS),
    Damage("all older deltas gone", SNAP, lambda c: lose(c, *[f"state/0/{p}/{v}.delta" for p in (0, 1)
                                                              for v in (1, 2, 3)]), "", RUNS),
    Damage("snapshot and an older delta gone", SNAP, lambda c: lose(c, "state/0/0/*.snapshot", "state/0/0/2.delta"),
           "STATE_FILE_MISSING", LOAD),
    Damage("snapshot gone", SNAP, lambda c: lose(c, "state/0/0/*.snapshot"), "", RUNS),
    Damage("snapshot empty", SNAP, lambda c: empty(c, "state/0/0/*.snapshot"), "STATE_SNAPSHOT_DAMAGED", RUNS),
    Damage("snapshot cut", SNAP, lambda c: cut(c, "state/0/0/*.snapshot", 40), "STATE_SNAPSHOT_DAMAGED", RUNS,
           deep=True),
    Damage("snapshot empty and an older delta gone", SNAP,
           lambda c: (empty(c, "state/0/0/*.snapshot"), lose(c, "state/0/0/2.delta")),
           "STATE_FILE_DAMAGED STATE_GAP", LOAD),
    Damage("store of a join gone", JOIN, lambda c: lose(c, "state/0/1/right-keyToNumValues"),
           "STATE_STORE_MISSING", LOAD),
    Damage("file of a join's store gone", JOIN, lambda c: lose(c, "state/0/0/left-keyToNumValues/5.delta"),
           "STATE_FILE_MISSING", LOAD),
    Damage("operator metadata gone", HDFS, lambda c: lose(c, "state/0/_metadata"), "OPERATOR_METADATA_MISSING", RUNS),
    Damage("operator metadata garbage", HDFS, lambda c: swap(c, "state/0/_metadata/metadata", "{", "}"),
           "OPERATOR_METADATA_UNREADABLE", RUNS),
    Damage("operator metadata empty", HDFS, lambda c: empty(c, "state/0/_metadata/metadata"),
           "OPERATOR_METADATA_UNREADABLE", RUNS),
    Damage("operator metadata of a newer Spark", HDFS, lambda c: swap(c, "state/0/_metadata/metadata", "v1", "v9"),
           "OPERATOR_METADATA_NEWER", RUNS),
    Damage("schema gone", HDFS, lambda c: lose(c, "state/0/0/_metadata/schema"), "STATE_SCHEMA_MISSING", RUNS),
    Damage("schema garbage", HDFS, lambda c: bare(c / "state/0/0/_metadata/schema").write_bytes(b"\0\2xx"),
           "STATE_SCHEMA_UNREADABLE", "."),
    Damage("schema empty", HDFS, lambda c: empty(c, "state/0/0/_metadata/schema"), "STATE_SCHEMA_UNREADABLE", "."),
    Damage("schema of a newer Spark", HDFS, lambda c: swap(c, "state/0/0/_metadata/schema", "v2", "v9"),
           "STATE_NEWER_FORMAT", "INVALID_LOG_VERSION"),
    Damage("provider of another kind", HDFS, other_provider, "STATE_PROVIDER_DIFFERS", LOAD),
    Damage("zip gone", ROCKS, lambda c: lose(c, "state/0/0/4.zip"), "STATE_FILE_MISSING", LOAD),
    Damage("zip empty", ROCKS, lambda c: empty(c, "state/0/0/4.zip"), "STATE_FILE_DAMAGED", LOAD),
    Damage("zip cut", ROCKS, lambda c: cut(c, "state/0/0/4.zip", 2000), "STATE_FILE_DAMAGED", LOAD),
    Damage("older zip gone", ROCKS, lambda c: lose(c, "state/0/0/2.zip"), "STATE_GAP", RUNS),
    Damage("sst gone", ROCKS, lambda c: lose(c, "state/0/0/SSTs/000008*"), "STATE_SST_MISSING", LOAD),
    Damage("sst cut", ROCKS, lambda c: cut(c, "state/0/0/SSTs/000008*", 600), "STATE_FILE_DAMAGED", LOAD),
    Damage("byte of keys and values in an sst", ROCKS, lambda c: flip_each(c, "state/0/0/SSTs/*", 10),
           "STATE_BLOCK_DAMAGED", "block checksum mismatch", deep=True),
    Damage("byte of the filter in an sst", ROCKS, lambda c: flip_each(c, "state/0/0/SSTs/*", 60),
           "STATE_FILTER_DAMAGED", RUNS, deep=True),
    Damage("byte of the index in an sst", ROCKS, lambda c: flip_each(c, "state/0/0/SSTs/*", 128),
           "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("byte of the properties in an sst", ROCKS, lambda c: flip_each(c, "state/0/0/SSTs/*", 500),
           "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("byte of the index in an sst before changelogs", LOGSNAP,
           lambda c: flip_each(c, "state/0/0/SSTs/*", 148), "STATE_SNAPSHOT_DAMAGED", RUNS, deep=True),
    Damage("byte of keys and values in an sst of RocksDB's format 6", "rocksdb-sst-6",
           lambda c: flip_each(c, "state/0/0/SSTs/*", 10),
           "STATE_BLOCK_DAMAGED", "block checksum mismatch", deep=True),
    Damage("changelog gone", LOG, lambda c: lose(c, "state/0/0/2.changelog"), "STATE_FILE_MISSING", LOAD),
    Damage("changelog cut", LOG, lambda c: cut(c, "state/0/0/2.changelog", 40), "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("zip before changelogs gone", LOGSNAP, lambda c: lose(c, "state/0/0/*.zip"), "", RUNS),
    Damage("zip before changelogs empty", LOGSNAP, lambda c: empty(c, "state/0/0/*.zip"),
           "STATE_SNAPSHOT_DAMAGED", RUNS),
    Damage("sst before changelogs gone", LOGSNAP, lambda c: lose(c, "state/0/0/SSTs/*"),
           "STATE_SNAPSHOT_DAMAGED", RUNS),
    Damage("sst before changelogs cut", LOGSNAP, lambda c: cut(c, "state/0/0/SSTs/*", 500),
           "STATE_SNAPSHOT_DAMAGED", RUNS),
    Damage("zip before changelogs empty and a changelog gone", LOGSNAP,
           lambda c: (empty(c, "state/0/0/*.zip"), lose(c, "state/0/0/2.changelog")),
           "STATE_FILE_DAMAGED STATE_GAP", LOAD),
    Damage("zip of format 2 before changelogs gone", TWOSNAP, lambda c: lose(c, "state/0/0/*.zip"),
           "STATE_FILE_MISSING", LOAD),
    Damage("zip of format 2 empty and a changelog gone", TWOSNAP,
           lambda c: (empty(c, "state/0/0/*.zip"), lose(c, "state/0/0/2_*.changelog")),
           "STATE_FILE_DAMAGED STATE_GAP", LOAD),
    Damage("zip of format 2 before changelogs empty", TWOSNAP, lambda c: empty(c, "state/0/0/*.zip"),
           "STATE_SNAPSHOT_DAMAGED", RUNS),
    Damage("ids gone from the commit", TWOLOG, no_ids, "STATE_IDS_MISSING", LOAD),
    Damage("other ids in the commit", TWOLOG, other_ids, "STATE_FILE_MISSING", LOAD),
    Damage("zip of format 2 gone", TWO, lambda c: lose(c, "state/0/0/4_*.zip"), "STATE_FILE_MISSING", LOAD),
    Damage("changelog of the lineage gone", TWOLOG, lambda c: lose(c, "state/0/0/2_*.changelog"),
           "STATE_FILE_MISSING", LOAD),
    Damage("newest changelog of format 2 cut", TWOLOG, lambda c: cut(c, "state/0/0/4_*.changelog", 60),
           "STATE_FILE_DAMAGED", LOAD),
    Damage("bit of a changelog of format 2", TWOLOG, lambda c: flip(c, "state/0/0/2_*.changelog", 100),
           "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("bit of a zip of format 2", TWO, lambda c: flip(c, "state/0/0/4_*.zip", 70),
           "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("checksum file of another file", TWO, lambda c: swap(c, "state/0/0/4_*.zip.crc", '"value":', '"value":1'),
           "STATE_FILE_DAMAGED", LOAD, deep=True),
    Damage("checksum file gone", TWO, lambda c: lose(c, "state/0/0/4_*.zip.crc"), "", RUNS, deep=True),
    Damage("operator metadata v2 gone", TWS, lambda c: lose(c, "state/0/_metadata"), "OPERATOR_METADATA_LOST", "."),
    Damage("operator metadata v2 empty", TWS, lambda c: empty(c, "state/0/_metadata/v2/0"),
           "OPERATOR_METADATA_LOST", "."),
    Damage("operator metadata v2 of a newer Spark", TWS, lambda c: swap(c, "state/0/_metadata/v2/0", "v2", "v9"),
           "STATE_NEWER_FORMAT", "INVALID_LOG_VERSION"),
    Damage("operator metadata v2 of a join gone", "rocksdb-join-3", lambda c: lose(c, "state/0/_metadata"),
           "OPERATOR_METADATA_LOST", "."),
    Damage("schema named at another place", TWS, moved, "STATE_SCHEMA_ELSEWHERE", RUNS),
    Damage("schema of column families gone", TWS, lambda c: lose(c, "state/0/_stateSchema/default/0_*"),
           "STATE_SCHEMA_GONE", "."),
    Damage("schema of column families empty", TWS, lambda c: empty(c, "state/0/_stateSchema/default/0_*"),
           "STATE_SCHEMA_UNREADABLE", "."),
    Damage("schema named at a place that is gone", TWS,
           lambda c: swap(c, "state/0/_metadata/v2/0", "file:/", "file:/gone/"), "STATE_SCHEMA_GONE", "."),
    Damage("zip of column families gone", TWS, lambda c: lose(c, "state/0/1/4.zip"), "STATE_FILE_MISSING", LOAD),
)  # fmt: skip
