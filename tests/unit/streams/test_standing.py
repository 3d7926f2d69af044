"""How far a stream came, and since when, by the names and times of its files."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from console.presenters import words
from console.presenters.streams import stream_facts
from recovery.streams.actions import StreamDetails
from recovery.streams.preview import preview_stream
from recovery.streams.standing import read_progress
from tests.checkpoint_builder import Built
from tests.unit.streams.running_streams import ADMIN


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


@pytest.mark.django_db
def test_what_is_shown_of_the_last_batch_is_when_it_was_committed(tmp_path: Path) -> None:
    root = Built(tmp_path / "orders").write().root
    last = read_progress(str(root)).committed
    for moment, file in ((7_200, root / "commits" / str(last)), (10_800, root / "offsets" / str(last))):
        os.utime(file, (moment, moment))
    preview = preview_stream(checkpoint=str(root), said=StreamDetails(), by=ADMIN)

    facts, _ = stream_facts(preview, datetime(1970, 1, 1, 5, tzinfo=UTC))

    committed = datetime(1970, 1, 1, 2, tzinfo=UTC)
    small = next(fact.small for fact in facts if fact.name == "Last batch")
    assert small.startswith(words.format_clock(committed, datetime(1970, 1, 1, 5, tzinfo=UTC)))
