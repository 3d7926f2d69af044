"""Marks of other tables and checkpoints: any change moves them, and a silent store is never taken for an empty one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from recovery.errors import Unreachable
from recovery.workflow import fingerprints
from recovery.workflow.fingerprints import of_checkpoint, of_tree
from tests.odd_store import OddStore

FILES = {
    "part-0.parquet": b"a",
    "k=1/part-1.parquet": b"bb",
    "k=1/j=2/part-2.parquet": b"c",
    "_spark_metadata/0": b"v1",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_bytes(data)
    return tmp_path / "t"


@pytest.fixture
def odd() -> Iterator[str]:
    """The same table on a store that does as it is told."""
    fsspec.register_implementation("odd", OddStore, clobber=True)
    OddStore.reset()
    fs = OddStore()
    for name, data in FILES.items():
        fs.pipe_file(f"/t/{name}", data)
    OddStore.calls = []
    yield "odd:///t"
    OddStore.reset()


CHANGES: list[Callable[[Path], object]] = [
    lambda t: (t / "new.parquet").write_bytes(b""),
    lambda t: (t / "k=1/j=2/part-2.parquet").unlink(),
    lambda t: (t / "k=1/part-1.parquet").write_bytes(b"bbb"),
    lambda t: (t / "part-0.parquet").rename(t / "part-9.parquet"),
    lambda t: os.utime(t / "part-0.parquet", (1, 1)),
    lambda t: (t / "_spark_metadata/.0.crc").write_bytes(b"x"),
]


@pytest.mark.parametrize(
    "change", CHANGES, ids=["added", "removed", "grown", "renamed", "rewritten", "sidecar"]
)
def test_every_change_moves_the_mark(table: Path, change: Callable[[Path], object]) -> None:
    before = of_tree(str(table))
    assert of_tree(str(table)) == before
    change(table)
    assert of_tree(str(table)) != before


def test_a_checkpoint_whose_state_was_maintained_has_not_moved_and_one_whose_batch_ran_has(
    tmp_path: Path,
) -> None:
    for name in ("0/offsets/0", "0/state/0/0/1.delta", "0/state/0/0/_metadata/schema"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("v1")
    before = of_checkpoint(str(tmp_path))
    (tmp_path / "0/state/0/0/1.snapshot").write_text("whole")
    (tmp_path / "0/state/0/0/1.delta").unlink()
    assert of_checkpoint(str(tmp_path)) == before
    (tmp_path / "0/offsets/1").write_text("v1")
    assert of_checkpoint(str(tmp_path)) != before


def test_a_place_that_is_not_there_is_absent_and_an_empty_one_is_not(tmp_path: Path) -> None:
    assert of_tree(str(tmp_path / "none")) == "absent"
    assert of_tree(str(tmp_path)) != "absent"


def test_a_link_back_to_a_directory_above_is_not_followed(table: Path) -> None:
    before = of_tree(str(table))
    (table / "k=1" / "back").symlink_to(table)
    assert of_tree(str(table)) == before


def test_a_file_is_no_directory(table: Path) -> None:
    with pytest.raises(Unreachable):
        of_tree(str(table / "part-0.parquet"))


def test_more_than_is_looked_at_is_said(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (table / "/".join(["d"] * 33)).mkdir(parents=True)
    with pytest.raises(Unreachable, match="nested more than 32"):
        of_tree(str(table))
    monkeypatch.setattr(fingerprints, "MAX_FILES", 3)
    with pytest.raises(Unreachable, match="more than 3 files"):
        of_tree(str(table))


def test_a_change_far_away_moves_the_mark(odd: str) -> None:
    before = of_tree(odd)
    assert of_tree(odd) == before != "absent"
    OddStore().pipe_file("/t/k=1/part-1.parquet", b"longer")
    assert of_tree(odd) != before
    assert of_tree("odd:///nothing") == "absent"


def failing(nth: int, error: Exception) -> Any:
    left = [nth]

    def before(_operation: str, _path: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise error

    return staticmethod(before)


@pytest.mark.parametrize(
    "error", [TimeoutError("no answer"), PermissionError(13, "denied"), RuntimeError("botocore")]
)
def test_a_store_that_fails_at_any_call_is_not_taken_for_an_empty_one(odd: str, error: Exception) -> None:
    of_tree(odd)
    total = len(OddStore.calls)
    assert total >= 4
    for nth in range(1, total + 1):
        OddStore.before = failing(nth, error)
        with pytest.raises(Unreachable, match="cannot be read"):
            of_tree(odd)


def test_a_directory_that_is_gone_since_it_was_listed_holds_nothing(odd: str) -> None:
    before = of_tree(odd)

    def gone(operation: str, path: str) -> None:
        if path.endswith("j=2"):
            raise FileNotFoundError(path)

    OddStore.before = staticmethod(gone)
    assert of_tree(odd) != before
