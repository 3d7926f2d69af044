"""A plan says where a source reads another folder than its committed files lie in."""

from dataclasses import replace

import pytest

from recovery.sources.base import InputFile, SourceFacts
from recovery.strategies.source_places import list_moved
from tests.unit.strategies.facts import facts, source
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
