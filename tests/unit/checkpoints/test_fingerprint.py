"""The fingerprint of a checkpoint: another one when the stream has moved, and only then."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, read_fingerprint
from tests.checkpoint_builder import Built, put
from tests.unit.checkpoints.judging import drop


@pytest.mark.parametrize(
    "change",
    [
        lambda c: put(c / "offsets/2", Built(c).offsets(1)),
        lambda c: put(c / "sources/0/2", "v1\nother"),
        lambda c: put(c / "state/0/0/_metadata/schema", "new"),
        lambda c: shutil.rmtree(c / "state/0/1"),
        lambda c: (c / "offsets/.1.crc").unlink(),
        lambda c: drop(c, "commits/2"),
    ],
)
def test_the_fingerprint_tells_that_something_moved(tmp_path: Path, change: Callable[[Path], Any]) -> None:
    Built(tmp_path / "ck").write()
    before = read_fingerprint(str(tmp_path / "ck"))
    assert (
        read_fingerprint(str(tmp_path / "ck"))
        == before
        == inspect_checkpoint(str(tmp_path / "ck")).fingerprint
    )
    change(tmp_path / "ck")
    assert read_fingerprint(str(tmp_path / "ck")) != before


@pytest.mark.parametrize(
    "maintained",
    [
        lambda c: put(c / "state/0/0/2.snapshot", "whole"),
        lambda c: put(c / "state/0/0/..2.snapshot.5e39fcad.tmp.crc", "half"),
        lambda c: put(c / "state/0/0/SSTs/000012-5e39.sst", "rows"),
        lambda c: (c / "state/0/0/1.delta").unlink(),
    ],
    ids=["snapshot", "half a snapshot", "RocksDB's own file", "an old file removed"],
)
def test_maintenance_of_the_state_after_the_query_has_ended_makes_no_plan_stale(
    tmp_path: Path, maintained: Callable[[Path], Any]
) -> None:
    Built(tmp_path / "ck").write()
    before = inspect_checkpoint(str(tmp_path / "ck"))
    maintained(tmp_path / "ck")
    after = inspect_checkpoint(str(tmp_path / "ck"))
    assert after.fingerprint == before.fingerprint == read_fingerprint(str(tmp_path / "ck"))
    assert after.exact_fingerprint != before.exact_fingerprint, (
        "what is laid out is read back to the last file"
    )
