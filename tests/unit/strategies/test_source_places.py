"""A plan says where a source reads another folder than its committed files lie in."""

from dataclasses import replace

import pytest

from recovery.checkpoints.report import CheckpointReport, Entries, SourceEntry
from recovery.sources.base import InputFile, SourceFacts
from recovery.strategies.source_places import list_moved
from recovery.strategies.sources import list_read_elsewhere
from tests.unit.strategies.facts import checkpoint, facts, source
from tests.unit.strategies.streams import options


def reads(number: int, location: str, *files: str) -> SourceFacts:
    read = tuple(InputFile(path, 100, 1000) for path in files)
    plain = source(location=location, processed=read, waiting=())
    return replace(plain, position=replace(plain.position, source=number))


@pytest.mark.parametrize(
    ("sources", "codes"),
    [
        ([reads(0, "/in", "file:///in/1")], []),
        ([reads(0, "file:/in/", "file:///in/day=1/1")], []),
        ([reads(0, "s3a://shop/in", "s3://shop/in/1")], []),
        ([reads(0, "/in/*/x", "file:///in/a/x/1")], []),
        ([reads(0, "/in/1.json", "file:///in/1.json")], []),
        ([reads(0, "/in")], []),
        ([reads(0, "a topic", "file:///in/1")], []),
        ([reads(0, "/in", "file:///old/1", "file:///in/2")], []),
        ([reads(0, "/in", "file:///inner/1")], ["SOURCE_MOVED"]),
        (
            [reads(0, "/a", "file:///b/1"), reads(1, "/b", "file:///a/1")],
            ["SOURCES_SWAPPED", "SOURCES_SWAPPED"],
        ),
        ([reads(0, "/a", "file:///b/1"), reads(1, "clicks")], ["SOURCE_MOVED"]),
        ([reads(0, "/a", "file:///b/1"), reads(1, "/b")], ["SOURCES_SWAPPED"]),
        ([reads(0, "/a", "file:///c/1"), reads(1, "/b", "file:///b/1")], ["SOURCE_MOVED"]),
    ],
)
def test_where_committed_files_lie(sources: list[SourceFacts], codes: list[str]) -> None:
    assert [finding.code for finding in list_moved(sources)] == codes


def test_a_strategy_that_goes_on_says_so_and_one_that_reads_all_again_does_not() -> None:
    moved = facts(sources=(replace(source(), location="/elsewhere"),))
    named = {name: "SOURCE_MOVED" in [f.code for f in o.findings] for name, o in options(moved).items()}
    assert (named["continue"], named["full-refresh"]) == (True, False)


def committed(*files: str) -> CheckpointReport:
    """A checkpoint whose one source has read these."""
    entries = Entries.from_entries(SourceEntry(path, 1000, n) for n, path in enumerate(files))
    report = checkpoint()
    return replace(report, sources=(replace(report.sources[0], committed=entries),))


def waits(location: str, *files: str) -> SourceFacts:
    return replace(source(location=location), waiting=tuple(InputFile(path, 100, 1000) for path in files))


MOVED = reads(0, "/new", "file:///in/1.json")
NEW = waits("/new", "file:///new/1.json", "file:///new/2.json")


@pytest.mark.parametrize(
    ("given", "source_map", "files"),
    [
        (NEW, (None,), 1),
        (waits("/new", "file:///new/3.json"), (None,), 0),
        (replace(MOVED, waiting=NEW.waiting), (), 1),
        (waits("/in", "file:///in/2.json"), (), 0),
    ],
    ids=["another source in its place", "with other names", "the same source elsewhere", "the same folder"],
)
def test_files_that_were_read_in_another_folder_are_never_exactly_none_read_again(
    given: SourceFacts, source_map: tuple[int | None, ...], files: int
) -> None:
    """A folder that was moved, copied or linked: Spark reads every file there, by another path."""
    held = facts(sources=(given,), source_map=source_map, checkpoint=committed("file:///in/1.json"))
    assert len(list_read_elsewhere(held)) == files
    forecast = options(held)["continue"].forecast
    assert (forecast.reread.exact, forecast.doubled.exact) == (not files, not files)
    assert ("FILES_READ_ELSEWHERE" in [f.code for f in options(held)["continue"].findings]) == bool(files)


def test_a_source_that_is_added_beside_the_others_reads_files_of_its_own() -> None:
    both = facts(sources=(source(), NEW), source_map=(0, None), checkpoint=committed("file:///in/1.json"))
    assert list_read_elsewhere(both) == ()
