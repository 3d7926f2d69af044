"""How many entries the state of a checkpoint holds, on copies of what real Spark wrote."""

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.held import HeldState, Uncounted, held_states, read_known_keys
from recovery.checkpoints.report import Column
from recovery.checkpoints.state.windows import WINDOW, windows_in
from recovery.contracts.amounts import OpenWindow
from tests.state_checkpoints import unpack

# case -> entries by operator; tests/integration/test_state_on_spark.py counts the same with Spark's own reader
ENTRIES = {
    "hdfs-dedupe-snapshots": [14],
    "hdfs-zstd": [10],
    "hdfs-window": [14],
    "hdfs-session-window": [16],
    "hdfs-join": [28],
    "hdfs-two-operators": [10, 16],
    "hdfs-pandas-state": [10],
    "rocksdb-aggregate": [10],
    "rocksdb-join": [28],
    "rocksdb-sst-6": [10],
    "rocksdb-changelog": [10],
    "rocksdb-changelog-snapshots": [14],
    "rocksdb-changelog-later": [10],
    "rocksdb-2": [10],
    "rocksdb-2-changelog": [10],
    "rocksdb-2-snapshots": [14],
    "rocksdb-2-join": [28],
}
GIB = 1 << 30


def held(where: Path, *, limit: int = GIB, batch: int | None = -1) -> list[HeldState]:
    report = inspect_checkpoint(str(where))
    last = report.last_committed if batch == -1 else batch
    return list(held_states(str(where), report.state_operators, batch=last, limit=limit))


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_are_counted_in_each_layout(tmp_path: Path, name: str) -> None:
    assert [h.entries for h in held(unpack(name, tmp_path))] == ENTRIES[name]


@pytest.mark.parametrize("name", ["rocksdb-transform", "rocksdb-2-transform", "rocksdb-join-3"])
def test_a_store_of_several_column_families_is_never_taken_for_empty(tmp_path: Path, name: str) -> None:
    assert all(h.entries for h in held(unpack(name, tmp_path)))


def test_open_windows_are_told_with_their_bounds(tmp_path: Path) -> None:
    (found,) = held(unpack("hdfs-window", tmp_path))
    assert sum(w.groups for w in found.windows) == found.entries == 14
    assert [w.start_ms for w in found.windows] == sorted({w.start_ms for w in found.windows})
    assert {(w.end_ms or 0) - w.start_ms for w in found.windows} == {5000}


def test_of_sessions_the_start_is_told_and_of_other_groups_no_window(tmp_path: Path) -> None:
    (found,) = held(unpack("hdfs-session-window", tmp_path))
    assert (sum(w.groups for w in found.windows), {w.end_ms for w in found.windows}) == (16, {None})
    assert held(unpack("rocksdb-aggregate", tmp_path / "r"))[0].windows == ()


@pytest.mark.parametrize(
    ("name", "limit", "keys"),
    [
        ("hdfs-dedupe-snapshots", GIB, [14]),
        ("hdfs-zstd", GIB, [10]),
        ("hdfs-zstd", 1, [None]),
        ("rocksdb-changelog", GIB, [10]),
        ("hdfs-two-operators", GIB, []),
        ("hdfs-window", GIB, []),
    ],
)
def test_the_keys_of_a_lone_drop_duplicates_are_counted_unless_its_files_show_their_number(
    tmp_path: Path, name: str, limit: int, keys: list[int | None]
) -> None:
    where = unpack(name, tmp_path)
    report = inspect_checkpoint(str(where))
    assert [o.rows for o in report.state_operators if keys] == [None for _ in keys]
    assert [h.entries for h in read_known_keys(str(where), report, limit=limit)] == keys
    shown = replace(report, state_operators=tuple(replace(o, rows=7) for o in report.state_operators))
    assert read_known_keys(str(where), shown, limit=limit) == ()


COLUMNS = (Column("window", WINDOW), Column("k", "bigint"))
NESTED = struct.pack("<qqq", 0, 1_000_000, 6_000_000)
KEY = struct.pack("<qqq", 0, (24 << 32) | 24, 7) + NESTED


@pytest.mark.parametrize("before", [b"", b"\0", b"\0\1"])
def test_a_key_is_read_behind_the_bytes_that_its_store_puts_before_it(before: bytes) -> None:
    assert windows_in([before + KEY], COLUMNS) == (OpenWindow(start_ms=1000, end_ms=6000, groups=1),)


@pytest.mark.parametrize("key", [b"", KEY[:24], KEY[:8], struct.pack("<qqq", 0, (99 << 32) | 24, 7) + NESTED])
def test_a_key_of_another_form_tells_no_window(key: bytes) -> None:
    assert windows_in([KEY, key], COLUMNS) == ()


def test_an_earlier_batch_has_its_own_count(tmp_path: Path) -> None:
    where = unpack("hdfs-window", tmp_path)
    assert [held(where, batch=b)[0].entries for b in (None, 0)] == [0, 4]


def _without(where: Path, pattern: str) -> None:
    for file in sorted(where.glob(pattern)):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


@pytest.mark.parametrize(
    ("name", "gone", "problem"),
    [
        ("hdfs-window", "state/0/1/2.delta", Uncounted.NOT_KEPT),
        ("hdfs-window", "state/0/1/*", Uncounted.NOT_KEPT),
        ("hdfs-join", "state/0/0/left-keyWithIndexToValue", Uncounted.NOT_KEPT),
        ("rocksdb-join", "state/0/1/right-keyWithIndexToValue", Uncounted.NOT_KEPT),
        ("rocksdb-changelog-later", "state/0/0/SSTs/*", Uncounted.NOT_KEPT),
        ("rocksdb-2", "commits/3", Uncounted.NOT_KEPT),
    ],
)
def test_state_that_is_not_whole_has_no_count(
    tmp_path: Path, name: str, gone: str, problem: Uncounted
) -> None:
    where = unpack(name, tmp_path)
    report = inspect_checkpoint(str(where))
    _without(where, gone)
    found = held_states(str(where), report.state_operators, batch=report.last_committed, limit=GIB)
    assert [(h.entries, h.problem) for h in found] == [(None, problem)]


def test_damage_is_no_count(tmp_path: Path) -> None:
    where = unpack("hdfs-window", tmp_path)
    file = where / "state/0/0/2.delta"
    file.write_bytes(file.read_bytes()[:-40])
    assert [(h.entries, h.problem) for h in held(where)] == [(None, Uncounted.DAMAGED)]


def test_more_than_the_budget_is_not_read(tmp_path: Path) -> None:
    assert held(unpack("hdfs-window", tmp_path), limit=10)[0].problem is Uncounted.TOO_LARGE
