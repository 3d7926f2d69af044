"""Damages of a checkpoint with three committed batches: what `inspect` must predict, and what Spark does.

Data for tests/integration/test_checkpoints_on_spark.py; what Spark did was observed on 4.2.0.
"""

import shutil
from collections.abc import Callable
from pathlib import Path


def remove(checkpoint: Path, name: str) -> None:
    """Remove a file or directory and its sidecar, as a person or a lifecycle rule would."""
    target = checkpoint / name
    (target.parent / f".{target.name}.crc").unlink(missing_ok=True)
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink()


def write(checkpoint: Path, name: str, data: str) -> None:
    target = checkpoint / name
    (target.parent / f".{target.name}.crc").unlink(missing_ok=True)
    target.write_text(data)


def cut(checkpoint: Path, name: str, size: int) -> None:
    write(checkpoint, name, (checkpoint / name).read_text()[:size])


def keep_lines(checkpoint: Path, name: str, count: int) -> None:
    write(checkpoint, name, "\n".join((checkpoint / name).read_text().split("\n")[:count]))


def newer(checkpoint: Path, name: str) -> None:
    write(checkpoint, name, (checkpoint / name).read_text().replace("v1", "v9", 1))


def sink_loses(checkpoint: Path, batch: int) -> None:
    remove(checkpoint.parent.parent / "table/_spark_metadata", str(batch))


def sink_gets(checkpoint: Path, batch: int) -> None:
    log = checkpoint.parent.parent / "table/_spark_metadata"
    (log / str(batch)).write_text("v1")


Damage = Callable[[Path], object]
RIGHT, DOUBLED, LOST = "right rows", "rows doubled", "rows lost"

DAMAGES: list[tuple[str, bool, Damage, str, str]] = [
    # what is damaged, stateful, how, predicted code, what Spark did: the failure's words, or what became of rows
    ("nothing", True, lambda c: None, "", RIGHT),
    ("metadata missing", True, lambda c: remove(c, "metadata"), "METADATA_MISSING", "MISSING_METADATA_FILE"),
    (
        "metadata empty",
        True,
        lambda c: write(c, "metadata", ""),
        "METADATA_UNREADABLE",
        "No content|Mismatched|Json|end-of-input",
    ),
    (
        "metadata garbage",
        True,
        lambda c: write(c, "metadata", "}{"),
        "METADATA_UNREADABLE",
        "Json|Unexpected",
    ),
    (
        "newest offset missing",
        True,
        lambda c: remove(c, "offsets/2"),
        "COMMITS_AHEAD",
        "CONCURRENT_STREAM_LOG",
    ),
    (
        "newest offset empty",
        True,
        lambda c: write(c, "offsets/2", ""),
        "OFFSET_UNREADABLE",
        "Incomplete log file",
    ),
    (
        "offset header cut",
        True,
        lambda c: cut(c, "offsets/2", 100),
        "OFFSET_UNREADABLE",
        "end-of-input|Unexpected",
    ),
    (
        "offset without sources",
        True,
        lambda c: keep_lines(c, "offsets/2", 2),
        "OFFSET_SOURCES_LOST",
        r"There are \[0\] sources",
    ),
    (
        "offset of a newer Spark",
        True,
        lambda c: newer(c, "offsets/2"),
        "OFFSET_NEWER_FORMAT",
        "INVALID_LOG_VERSION",
    ),
    (
        "offset N-1 missing",
        True,
        lambda c: remove(c, "offsets/1"),
        "OFFSET_NEIGHBOUR_MISSING",
        "batch 1 doesn't exist",
    ),
    ("older offset missing", True, lambda c: remove(c, "offsets/0"), "", RIGHT),
    (
        "all offsets missing",
        True,
        lambda c: [remove(c, f"offsets/{n}") for n in range(3)],
        "OFFSETS_MISSING",
        "assertion failed|NOT_EMPTY",
    ),
    (
        "stray offset",
        True,
        lambda c: shutil.copy(c / "offsets/2", c / "offsets/10"),
        "OFFSET_STRAY",
        "batch 9 ",
    ),
    ("newest commit missing", True, lambda c: remove(c, "commits/2"), "BATCH_PLANNED", RIGHT),
    (
        "newest commit empty",
        True,
        lambda c: write(c, "commits/2", ""),
        "COMMIT_UNREADABLE",
        "Incomplete log file",
    ),
    (
        "newest commit garbage",
        True,
        lambda c: write(c, "commits/2", "v1\n}{"),
        "COMMIT_UNREADABLE",
        "Json|Unexpected",
    ),
    (
        "commit of a newer Spark",
        True,
        lambda c: newer(c, "commits/2"),
        "COMMIT_NEWER_FORMAT",
        "INVALID_LOG_VERSION",
    ),
    (
        "all commits missing",
        True,
        lambda c: [remove(c, f"commits/{n}") for n in range(3)],
        "COMMITS_BEHIND",
        RIGHT,
    ),
    (
        "newest log entry missing",
        True,
        lambda c: remove(c, "sources/0/2"),
        "SOURCE_LOG_MISSING",
        "batch 2 doesn't exist",
    ),
    (
        "newest log entry empty",
        True,
        lambda c: write(c, "sources/0/2", ""),
        "SOURCE_LOG_UNREADABLE",
        "Incomplete log file",
    ),
    (
        "newest log entry header only",
        False,
        lambda c: write(c, "sources/0/2", "v1"),
        "SOURCE_LOG_HEADER_ONLY",
        DOUBLED,
    ),
    (
        "older log entry header only",
        False,
        lambda c: write(c, "sources/0/1", "v1"),
        "SOURCE_LOG_HEADER_ONLY",
        DOUBLED,
    ),
    ("older log entry missing", True, lambda c: remove(c, "sources/0/1"), "SOURCE_LOG_GAP", "doesn't exist"),
    (
        "sources gone",
        True,
        lambda c: remove(c, "sources"),
        "SOURCE_LOG_MISSING|SOURCE_UNKNOWN",
        "batch 2 doesn't exist",
    ),
    (
        "partition gone",
        True,
        lambda c: remove(c, "state/0/1"),
        "STATE_PARTITION_MISSING",
        "CANNOT_LOAD_STATE_STORE",
    ),
    (
        "operator metadata gone",
        True,
        lambda c: remove(c, "state/0/_metadata"),
        "OPERATOR_METADATA_MISSING",
        RIGHT,
    ),
    (
        "orphan sidecar ahead",
        True,
        lambda c: shutil.copy(c / "offsets/.2.crc", c / "offsets/.3.crc"),
        "ORPHAN_CRC",
        "concurrently",
    ),
    ("sink is ahead", False, lambda c: [sink_gets(c, n) for n in (3, 4)], "SINK_SWALLOWS", LOST),
    ("sink lost its newest", False, lambda c: sink_loses(c, 2), "SINK_LOG_BEHIND", "doesn't exist"),
    ("sink log has a hole", False, lambda c: sink_loses(c, 1), "SINK_LOG_HOLE", "doesn't exist"),
]
