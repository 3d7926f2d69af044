"""A plan says where a source reads another folder than its committed files lie in."""

from dataclasses import replace

import pytest

from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.contracts.criterion_values import ExpectedRows
from recovery.sources.base import InputFile, SourceFacts
from recovery.strategies.source_places import list_moved
from recovery.strategies.sources import list_read_elsewhere
from tests.unit.strategies.facts import checkpoint, facts, source
from tests.unit.strategies.streams import options

Reading = tuple[SourceFacts, SourceProgress]


def reads(number: int, location: str, *files: str) -> Reading:
    """A source that has read `files`, none of which is listed where it reads now."""
    plain = source(location=location, processed=(), waiting=())
    return replace(plain, position=replace(plain.position, source=number)), has_read(number, *files)


def has_read(number: int, *files: str) -> SourceProgress:
    entries = Entries.from_entries(SourceEntry(path, 1000, n) for n, path in enumerate(files))
    return replace(checkpoint().sources[0], index=number, committed=entries)


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
def test_where_committed_files_lie(sources: list[Reading], codes: list[str]) -> None:
    facts_of, progress = zip(*sources, strict=True)
    assert [finding.code for finding in list_moved(facts_of, progress)] == codes


def test_a_strategy_that_goes_on_says_so_and_one_that_reads_all_again_does_not() -> None:
    moved = facts(sources=(replace(source(), location="/elsewhere", processed=()),))
    named = {name: "SOURCE_MOVED" in [f.code for f in o.findings] for name, o in options(moved).items()}
    assert (named["continue"], named["full-refresh"]) == (True, False)


def waits(location: str, *files: str, there: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> SourceFacts:
    """A source with files that wait, of committed ones that are `there`, and that are `gone`."""
    return replace(
        source(location=location),
        waiting=tuple(InputFile(path, 100, 1000) for path in files),
        processed=tuple(InputFile(path, 100, 1000) for path in there),
        gone=gone,
    )


READ = "file:///in/1.json"


@pytest.mark.parametrize(
    ("given", "source_map", "files"),
    [
        (waits("/new", "file:///new/1.json", "file:///new/2.json"), (None,), 1),
        (waits("/new", "file:///new/3.json"), (None,), 0),
        (waits("/new", "file:///new/1.json", gone=(READ,)), (), 1),
        (waits("s3://new/in", "s3://new/in/1.json", gone=(READ,)), (), 1),
        (waits("/in", "file:///in/b/1.json", there=("file:///in/2.json",), gone=(READ,)), (), 1),
        (waits("/in", "file:///in/b/1.json", there=(READ,)), (), 0),
        (waits("/in", "file:///in/2.json", there=(READ,)), (), 0),
    ],
    ids=[
        "another source in its place",
        "with other names",
        "the same source elsewhere",
        "in another bucket",
        "moved within its folder",
        "the same name in another folder",
        "the same folder",
    ],
)
def test_files_that_were_read_in_another_folder_are_never_exactly_none_read_again(
    given: SourceFacts, source_map: tuple[int | None, ...], files: int
) -> None:
    """A folder that was moved, copied or linked: Spark reads every file there, by another path."""
    held = facts(
        sources=(given,),
        source_map=source_map,
        checkpoint=replace(checkpoint(), sources=(has_read(0, READ),)),
    )
    assert len(list_read_elsewhere(held)) == files
    option = options(held)["continue"]
    assert (option.forecast.reread.exact, option.forecast.doubled.exact) == (not files, not files)
    assert ("FILES_READ_ELSEWHERE" in [f.code for f in option.findings]) == bool(files)
    (rows,) = (c.expected for c in option.criteria if c.code == "EVERY_ROW_ONCE")
    assert isinstance(rows, ExpectedRows)
    assert not rows.again, "what only seems to be read again explains no repeat"


def test_a_source_that_is_added_beside_the_others_reads_files_of_its_own() -> None:
    added = waits("/new", "file:///new/1.json")
    held = replace(checkpoint(), sources=(has_read(0, READ),))
    assert list_read_elsewhere(facts(sources=(source(), added), source_map=(0, None), checkpoint=held)) == ()
