"""What `inspect` says of damaged checkpoints, and of a table that its checkpoint does not fit: each by its finding."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.inspection import inspect_with_state
from tests.checkpoint_builder import Built, put, sink_log
from tests.unit.checkpoints.judging import codes, drop

DAMAGES: list[tuple[str, Callable[[Path], Any], set[str]]] = [
    ("metadata missing", lambda c: drop(c, "metadata"), {"METADATA_MISSING"}),
    ("metadata empty", lambda c: put(c / "metadata", ""), {"METADATA_UNREADABLE"}),
    ("metadata a list", lambda c: put(c / "metadata", "[1]"), {"METADATA_UNREADABLE"}),
    ("metadata a directory", lambda c: (drop(c, "metadata"), (c / "metadata").mkdir()), {"METADATA_MISSING"}),
    ("newest offset missing", lambda c: drop(c, "offsets/2"), {"COMMITS_AHEAD"}),
    ("newest offset empty", lambda c: put(c / "offsets/2", ""), {"OFFSET_UNREADABLE"}),
    ("newest offset cut", lambda c: put(c / "offsets/2", 'v1\n{"batchWat'), {"OFFSET_UNREADABLE"}),
    (
        "newest offset not text",
        lambda c: (c / "offsets/2").write_bytes(b"v1\n\xff\xfe"),
        {"OFFSET_UNREADABLE"},
    ),
    ("newest offset of a newer Spark", lambda c: put(c / "offsets/2", "v3\n{}"), {"OFFSET_NEWER_FORMAT"}),
    ("offset N-1 missing", lambda c: drop(c, "offsets/1"), {"OFFSET_NEIGHBOUR_MISSING"}),
    ("offset N-1 empty", lambda c: put(c / "offsets/1", ""), {"OFFSET_UNREADABLE"}),
    ("oldest offset missing", lambda c: drop(c, "offsets/0"), set()),
    ("oldest offset empty", lambda c: put(c / "offsets/0", ""), set()),
    ("all offsets missing", lambda c: drop(c, "offsets"), {"OFFSETS_MISSING"}),
    ("stray offset", lambda c: put(c / "offsets/10", Built(c).offsets(2)), {"OFFSET_STRAY"}),
    ("two strays", lambda c: [put(c / f"offsets/{n}", "x") for n in (10, 99)], {"OFFSET_STRAY"}),
    ("newest commit missing", lambda c: drop(c, "commits/2"), {"BATCH_PLANNED"}),
    (
        "two commits missing",
        lambda c: [drop(c, f"commits/{n}") for n in (1, 2)],
        {"COMMITS_BEHIND", "BATCH_PLANNED"},
    ),
    ("newest commit empty", lambda c: put(c / "commits/2", ""), {"COMMIT_UNREADABLE"}),
    ("newest commit header only", lambda c: put(c / "commits/2", "v1"), set()),
    ("newest commit of a newer Spark", lambda c: put(c / "commits/2", "v4\n{}"), {"COMMIT_NEWER_FORMAT"}),
    ("newest log entry missing", lambda c: drop(c, "sources/0/2"), {"SOURCE_LOG_MISSING"}),
    ("newest log entry empty", lambda c: put(c / "sources/0/2", ""), {"SOURCE_LOG_UNREADABLE"}),
    ("newest log entry header only", lambda c: put(c / "sources/0/2", "v1"), {"SOURCE_LOG_HEADER_ONLY"}),
    ("oldest log entry header only", lambda c: put(c / "sources/0/0", "v1\n"), {"SOURCE_LOG_HEADER_ONLY"}),
    ("log entry cut", lambda c: put(c / "sources/0/1", 'v1\n{"path":"file'), {"SOURCE_LOG_UNREADABLE"}),
    (
        "log entry of wrong types",
        lambda c: put(c / "sources/0/1", 'v1\n{"path":1}'),
        {"SOURCE_LOG_UNREADABLE"},
    ),
    ("older log entry missing", lambda c: drop(c, "sources/0/1"), {"SOURCE_LOG_GAP"}),
    ("first log entry missing", lambda c: drop(c, "sources/0/0"), {"SOURCE_LOG_GAP"}),
    ("sources gone", lambda c: drop(c, "sources"), {"SOURCE_LOG_MISSING"}),
    ("partition gone", lambda c: drop(c, "state/0/1"), {"STATE_PARTITION_MISSING"}),
    ("all partitions gone", lambda c: [drop(c, f"state/0/{n}") for n in (0, 1)], {"STATE_MISSING"}),
    ("operator metadata gone", lambda c: drop(c, "state/0/_metadata"), {"OPERATOR_METADATA_MISSING"}),
    (
        "operator metadata garbage",
        lambda c: put(c / "state/0/_metadata/metadata", "v1\n{"),
        {"OPERATOR_METADATA_UNREADABLE"},
    ),
    ("orphan sidecar ahead", lambda c: (c / "offsets/.3.crc").write_text("crc"), {"ORPHAN_CRC"}),
    (
        "orphan sidecar of a compacted entry",
        lambda c: (c / "sources/0/.9.compact.crc").write_text("crc"),
        {"ORPHAN_CRC"},
    ),
    ("sidecar of an old purged file", lambda c: (c / "offsets/0").unlink(), set()),
]


@pytest.mark.parametrize(("damage", "expected"), [d[1:] for d in DAMAGES], ids=[d[0] for d in DAMAGES])
def test_each_damage_is_named(tmp_path: Path, damage: Callable[[Path], Any], expected: set[str]) -> None:
    Built(tmp_path / "ck").write()
    damage(tmp_path / "ck")
    assert codes(tmp_path / "ck") == expected


def test_a_removed_middle_operator_and_ids_in_the_commit_betray_missing_state(tmp_path: Path) -> None:
    Built(tmp_path / "a", operators=("dedupe", "dedupe", "dedupe")).write()
    drop(tmp_path / "a", "state/1")
    assert codes(tmp_path / "a") == {"STATE_MISSING"}
    Built(tmp_path / "b", version=2).write()
    drop(tmp_path / "b", "state")
    assert codes(tmp_path / "b") == {"STATE_MISSING"}


def test_a_planned_batch_that_is_damaged_is_told_from_a_committed_one(tmp_path: Path) -> None:
    Built(tmp_path / "ck", planned=1).write()
    put(tmp_path / "ck/offsets/3", "")
    assert codes(tmp_path / "ck") == {"OFFSET_PLANNED_UNREADABLE", "BATCH_PLANNED"}
    Built(tmp_path / "other", planned=1).write()
    drop(tmp_path / "other", "sources/0/3")
    assert codes(tmp_path / "other") == {"SOURCE_LOG_PLANNED_MISSING", "BATCH_PLANNED"}


def test_an_offset_file_that_lost_one_of_two_sources_is_not_taken_for_a_code_change(tmp_path: Path) -> None:
    built = Built(tmp_path / "ck", sources=2).write()
    put(tmp_path / "ck/offsets/2", built.offsets(2).rsplit("\n", 1)[0])
    assert "OFFSET_SOURCES_LOST" in codes(tmp_path / "ck")


@pytest.mark.parametrize(("most_bytes", "found"), [(1 << 20, {"STATE_FILE_DAMAGED"}), (0, {"STATE_UNREAD"})])
def test_state_beyond_what_may_be_read_is_a_finding_and_not_sound(
    most_bytes: int, found: set[str], tmp_path: Path
) -> None:
    Built(tmp_path / "ck").write()
    delta = tmp_path / "ck/state/0/1/3.delta"
    delta.write_bytes(delta.read_bytes()[:23])
    assert codes(tmp_path / "ck") == set()
    report = inspect_with_state(str(tmp_path / "ck"), sink=None, most_bytes=most_bytes)
    assert {f.code for f in report.findings} == found


def test_deep_reads_what_only_a_rewind_needs(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=15).write()
    put(tmp_path / "ck/offsets/3", "garbage")
    put(tmp_path / "ck/commits/3", "")
    put(tmp_path / "ck/sources/0/3", 'v1\n{"path":')
    assert codes(tmp_path / "ck") == set()
    report = inspect_checkpoint(str(tmp_path / "ck"), deep=True)
    assert {f.file for f in report.findings} == {"offsets/3", "commits/3", "sources/0/3"}
    assert not report.blockers


@pytest.mark.parametrize(
    ("head", "batches", "planned", "expected"),
    [
        (2, 3, 0, set()),
        (2, 3, 1, {"BATCH_PLANNED"}),
        (3, 3, 1, {"BATCH_PLANNED", "SINK_UNCOMMITTED_BATCH"}),
        (3, 3, 0, {"SINK_SWALLOWS"}),
        (9, 3, 1, {"BATCH_PLANNED", "SINK_SWALLOWS"}),
        (1, 3, 0, {"SINK_LOG_BEHIND"}),
        (None, 3, 0, {"SINK_LOG_MISSING"}),
    ],
)
def test_the_table_s_log_is_compared(
    tmp_path: Path, head: int | None, batches: int, planned: int, expected: set[str]
) -> None:
    Built(tmp_path / "ck", batches=batches, planned=planned).write()
    (tmp_path / "table").mkdir()
    if head is not None:
        sink_log(tmp_path / "table", head)
    assert codes(tmp_path / "ck", tmp_path / "table") == expected


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("began", "head", "expected"),
    [
        (0, 6, set()),
        (HOUR_MS, 6, {"SINK_SWALLOWED"}),
        (HOUR_MS, 3, {"SINK_SWALLOWS", "SINK_SWALLOWED"}),
        (30_000, 6, set()),
    ],
    ids=["its own batches", "it has passed the head", "it has not", "clocks that differ a little"],
)
def test_batches_that_the_table_has_from_before_were_skipped(
    tmp_path: Path, began: int, head: int, expected: set[str]
) -> None:
    """A checkpoint that was reset beside a table: the first batches ran, and the table took none of them."""
    built = Built(tmp_path / "ck", batches=7 if head == 6 else 3).write()
    sink_log(tmp_path / "table", head)
    for batch in range(built.batches):
        plan_later(tmp_path / "ck", batch, by_ms=began)
    assert codes(tmp_path / "ck", tmp_path / "table") == expected


def test_batches_of_which_the_table_s_log_names_no_file_may_have_been_skipped_too(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=4).write()
    sink_log(tmp_path / "table", 3)
    put(tmp_path / "table" / "_spark_metadata" / "3", "v1")
    for batch in range(4):
        plan_later(tmp_path / "ck", batch, by_ms=HOUR_MS)
    report = inspect_checkpoint(str(tmp_path / "ck"), sink=str(tmp_path / "table"))
    [says] = [f.says for f in report.findings if f.code == "SINK_SWALLOWED"]
    assert re.findall(r"\d+", says) == [
        "0",
        "2",
        "3",
        "3",
    ]  # from, to, how many; and the one that is not known


@pytest.mark.parametrize(
    ("kept_from", "expected"),
    [(0, {"SINK_SWALLOWED"}), (5, set())],
    ids=["the batches before are known one by one", "they are not"],
)
def test_a_batch_whose_entry_is_a_compacted_one_was_skipped(
    tmp_path: Path, kept_from: int, expected: set[str]
) -> None:
    """Somebody removed offsets and commit of batch 9, which wrote `9.compact`, and it was planned again."""
    Built(tmp_path / "ck", batches=10).write()
    sink_log(tmp_path / "table", 9, kept_from=kept_from)
    plan_later(tmp_path / "ck", 9, by_ms=HOUR_MS)
    assert codes(tmp_path / "ck", tmp_path / "table") == expected


def plan_later(checkpoint: Path, batch: int, *, by_ms: int, written_after_ms: int | None = None) -> None:
    """Move the moment that an offset file names, and give the file the time of that moment or a later one."""
    file = checkpoint / f"offsets/{batch}"
    text = file.read_text()
    stamp = re.search(r'"batchTimestampMs":(\d+)', text)
    assert stamp
    planned_ms = int(stamp[1]) + by_ms
    put(file, text.replace(stamp[0], f'"batchTimestampMs":{planned_ms}'))
    if written_after_ms is not None:
        written_ns = (planned_ms + written_after_ms) * 1_000_000
        os.utime(file, ns=(written_ns, written_ns))


@pytest.mark.parametrize(
    ("later_ms", "written_after_ms", "expected"),
    [
        ({0: 20_000, 1: 20_000, 2: 20_000}, 40, {"SINK_SWALLOWED"}),
        ({0: 20_000, 1: 20_000, 2: 20_000}, HOUR_MS, set()),
        ({0: 20_000, 1: 20_000, 2: 20_000}, -40, set()),
        ({5: 20_000, 6: 20_000}, 40, {"SINK_SWALLOWED"}),
        ({5: 20_000, 6: 19_999}, 40, set()),
        ({4: HOUR_MS}, 40, set()),
        ({}, 40, set()),
    ],
    ids=[
        "reset at once",
        "reset at once, and copied since",
        "clocks that differ",
        "the newest planned again",
        "one mended with the header of the next",
        "one that names a moment after it was written",
        "its own batches",
    ],
)
def test_a_reset_within_a_minute_shows_where_the_clocks_agree(
    tmp_path: Path, later_ms: dict[int, int], written_after_ms: int, expected: set[str]
) -> None:
    Built(tmp_path / "ck", batches=7).write()
    sink_log(tmp_path / "table", 6)
    for batch in range(7):
        later = later_ms.get(batch, 0)
        after = -later if later == HOUR_MS else written_after_ms
        plan_later(tmp_path / "ck", batch, by_ms=later, written_after_ms=after)
    assert codes(tmp_path / "ck", tmp_path / "table") == expected


def test_an_empty_checkpoint_beside_a_filled_table_swallows_rows(tmp_path: Path) -> None:
    (tmp_path / "ck").mkdir()
    sink_log(tmp_path / "table", 2)
    assert codes(tmp_path / "ck", tmp_path / "table") == {"CHECKPOINT_EMPTY", "SINK_SWALLOWS"}


def test_holes_and_garbage_in_the_table_s_log_are_found_only_where_a_reader_looks(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=15).write()
    sink_log(tmp_path / "table", 14)
    drop(tmp_path / "table/_spark_metadata", "3")
    assert codes(tmp_path / "ck", tmp_path / "table") == set()
    drop(tmp_path / "table/_spark_metadata", "11")
    put(tmp_path / "table/_spark_metadata/12", "v1\nno")
    assert codes(tmp_path / "ck", tmp_path / "table") == {"SINK_LOG_HOLE", "SINK_LOG_UNREADABLE"}
