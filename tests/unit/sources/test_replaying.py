"""What was processed can be replayed only where exactly that is still there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints.report import SourceEntry
from recovery.sources.base import InputFile
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.file_facts import FileSourceFacts
from recovery.sources.input_ranges import InputRange
from recovery.sources.live import delta as live
from recovery.sources.live.replaying import measure_processed
from recovery.sources.replaying import GapCode, ProcessedInput, ReplayGap, processed_files, processed_versions
from tests.delta_tables import TABLE, add, remove, table
from tests.unit.strategies.facts import source
from tests.unit.strategies.streams import source as other

COMMITS = [[add("a"), add("b")], [add("c")], [add("d")]]


def line(version: int, index: int = -100, **more: Any) -> str:
    return DeltaOffset(more.pop("table_id", TABLE), version, index, **more).as_json()


def versions(
    where: Path, commits: list[Any], committed: str | None, *, look: bool = False, **options: Any
) -> Any:
    place = str(table(where / "table", commits))
    facts = live.read_table(place, offsets=[line(0)], options=options, since=0, look=look)
    return processed_versions(0, committed, facts)


def test_of_a_table_the_files_of_its_commits_are_replayed_up_to_the_position(tmp_path: Path) -> None:
    found = versions(tmp_path, COMMITS, line(2))
    assert [path for _, paths in found.versions for path in paths] == ["a", "b", "c"]
    inside = versions(tmp_path / "inside", COMMITS, line(0, 0))
    assert [path for _, paths in inside.versions for path in paths] == ["a"]


def test_nothing_was_read_of_a_source_that_has_no_position(tmp_path: Path) -> None:
    assert versions(tmp_path, COMMITS, None) == InputRange("delta")


def test_a_file_that_was_rewritten_since_is_read_as_it_was_committed(tmp_path: Path) -> None:
    """OPTIMIZE puts rows that wait into one file with those that were read; the stream never read that one."""
    moved = [remove("a", dataChange=False), remove("d", dataChange=False), add("ad", dataChange=False)]
    found = versions(tmp_path, [*COMMITS, moved], line(2))
    assert [path for _, paths in found.versions for path in paths] == ["a", "b", "c"]


TOLD: dict[str, tuple[list[Any], str, dict[str, Any], GapCode]] = {
    "a row was taken out": ([*COMMITS, [remove("a")]], line(2), {}, GapCode.UNKNOWN),
    "another table": (COMMITS, line(2, table_id="another"), {}, GapCode.UNKNOWN),
    "within its first snapshot": (COMMITS, line(2, 0, initial=True), {}, GapCode.UNKNOWN),
    "it begins later": (COMMITS, line(2), {"startingVersion": "1"}, GapCode.UNKNOWN),
    "a change feed": (COMMITS, line(2), {"readChangeFeed": "true"}, GapCode.UNKNOWN),
    "files that are gone": (COMMITS, line(2), {"look": True}, GapCode.GONE),
}


@pytest.mark.parametrize(("commits", "committed", "options", "code"), TOLD.values(), ids=TOLD.keys())
def test_what_a_table_cannot_tell_of_is_a_gap(
    tmp_path: Path, commits: list[Any], committed: str, options: dict[str, Any], code: GapCode
) -> None:
    found = versions(tmp_path, commits, committed, **options)
    assert isinstance(found, ReplayGap)
    assert found.code is code


def test_a_log_that_was_cleaned_does_not_tell_what_came_first(tmp_path: Path) -> None:
    place = str(table(tmp_path / "table", COMMITS))
    facts = live.read_table(place, offsets=[line(0)], options={}, since=0, look=False)
    found = processed_versions(0, line(2), replace(facts, earliest=1))
    assert isinstance(found, ReplayGap)
    assert found.code is GapCode.GONE


def test_sources_that_are_no_files_and_no_tables_are_not_replayed() -> None:
    found = measure_processed([other("kafka")])
    assert [gap.code for gap in found.gaps] == [GapCode.UNKNOWN]
    assert found.size is None
    assert [gap.code for gap in measure_processed([other("files", problem="No answer.")]).gaps] == [
        GapCode.UNKNOWN
    ]


def held_by(there: Sequence[InputFile], read: int, log: Sequence[InputFile] | None = None) -> FileSourceFacts:
    """The first `read` files of `log` were read, with the times that they have there."""
    entries = (SourceEntry(f.path, f.mtime_ms, n) for n, f in enumerate((log or there)[:read]))
    return FileSourceFacts(log=tuple(entries), listing=tuple(there), asked_ms=5000)


def test_files_are_replayed_as_they_were_read_unless_one_is_gone_or_other() -> None:
    read = [InputFile(f"file:///in/{n}.json", 100, 1000 + n) for n in range(3)]
    whole = source(processed=tuple(read[:2]), facts=held_by(read, read=2))
    assert processed_files(0, whole) == InputRange("files", files=("file:///in/0.json", "file:///in/1.json"))
    assert measure_processed([whole]) == ProcessedInput(
        files=("file:///in/0.json", "file:///in/1.json"), size=200
    )
    gone = processed_files(0, replace(whole, gone=("file:///in/9.json",)))
    newer = [replace(read[0], mtime_ms=5), *read[1:]]
    other_now = processed_files(
        0, replace(whole, processed=tuple(newer[:2]), facts=held_by(newer, read=2, log=read))
    )
    unread = processed_files(
        0, replace(whole, facts=held_by([*read[:2], replace(read[2], mtime_ms=5)], read=2))
    )
    assert isinstance(gone, ReplayGap)
    assert isinstance(other_now, ReplayGap)
    assert (gone.code, other_now.code) == (GapCode.GONE, GapCode.CHANGED)
    assert isinstance(unread, InputRange), "what waits may change"
    assert isinstance(processed_files(0, source()), ReplayGap)
