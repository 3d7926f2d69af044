"""What later batches read is read again only where Spark would read it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.sources.base import InputFile, Position, Precision, SourceFacts
from recovery.workflow.going_back import read_later

FILES = [InputFile(f"file:///in/{name}.json", 5, ms) for ms, name in enumerate("abc", start=1)]


@pytest.mark.parametrize(
    ("waiting", "ignored", "reread", "gone", "changed"),
    [
        ("bc", "", "bc", "", False),
        ("b", "c", "b", "c", False),  # Spark passes c over: its rows would leave the table for good
        ("c", "", "c", "b", False),
        ("bC", "", "bc", "", True),  # c was written again since it was read
    ],
)
def test_a_file_that_spark_passes_over_counts_as_gone(
    waiting: str, ignored: str, reread: str, gone: str, changed: bool
) -> None:
    def files(names: str) -> tuple[InputFile, ...]:
        by_name = dict(zip("abc", FILES, strict=True))
        found = [(by_name[n.lower()], 60 * n.isupper()) for n in names]
        return tuple(InputFile(file.path, 5, (file.mtime_ms or 0) + later) for file, later in found)

    entries = Entries.from_entries(SourceEntry(f.path, f.mtime_ms or 0, n) for n, f in enumerate(FILES))
    now = SimpleNamespace(
        checkpoint=SimpleNamespace(sources=[SourceProgress(0, "files", "{}", 2, entries)]), noted={}
    )
    then = SourceFacts(
        Position(0, "files", "{}", "file 1 of 3", Precision.EXACT, True), "/in", processed=tuple(FILES[:1]),
        waiting=files(waiting), ignored=files(ignored),
    )  # fmt: skip

    later = read_later(cast(Any, now), (then,), ())

    names = ["".join(path[-6] for path in paths) for paths in (later.files, later.gone)]
    assert (names, later.changed) == ([reread, gone], changed)
