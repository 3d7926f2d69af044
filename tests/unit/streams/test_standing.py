"""How far a stream came, and since when, by the names and times of its files."""

import os
from pathlib import Path

from recovery.streams.standing import read_progress
from tests.checkpoint_builder import Built


def test_the_time_of_the_last_commit_is_not_that_of_a_batch_planned_after_it(tmp_path: Path) -> None:
    root = Built(tmp_path / "orders").write().root
    committed = read_progress(str(root)).committed
    assert committed is not None
    os.utime(root / "commits" / str(committed), (1_000, 1_000))
    planned = root / "offsets" / str(committed + 1)
    planned.write_text("v1\n{}")
    os.utime(planned, (2_000, 2_000))

    progress = read_progress(str(root))

    assert (progress.committed, progress.planned) == (committed, committed + 1)
    assert (progress.committed_ms, progress.moved_ms) == (1_000_000, 2_000_000)
