"""Which files a file source reads is decided as Spark decides it."""

import pytest

from recovery.spark.paths import is_glob, lies_under, literal, plain

SPELLINGS = {
    "/in/a.json": "/in/a.json",
    "file:/in/a.json": "/in/a.json",
    "file:///in/a.json": "/in/a.json",
    "FILE:///in//a.json": "/in/a.json",
    "s3a://bucket/in//a.json": "s3a://bucket/in/a.json",
    "file:///in/50%20x.json": "/in/50%20x.json",
    "file:///in/a b:c.json": "/in/a b:c.json",
}


@pytest.mark.parametrize(("uri", "expected"), SPELLINGS.items())
def test_one_file_has_one_spelling(uri: str, expected: str) -> None:
    assert plain(uri) == expected


UNDER = [
    ("file:///in/a.json", "/in", True),
    ("file:///in/a.json", "/in/", True),
    ("file:///in/a.json", "file:/in", True),
    ("file:///in/a.json", "/in/a.json", True),
    ("file:///in/a.json", "/", False),  # a file of a folder below, not of the root itself
    ("file:///a.json", "/", True),
    ("file:///inside/a.json", "/in", False),
    ("file:///in/sub/a.json", "/in", False),
    ("file:///in/day=1/a.json", "/in", True),
    ("file:///in/day=1/hour=2/a.json", "/in", True),
    ("file:///in/day=1/sub/a.json", "/in", False),
    ("s3a://b/in/a.json", "s3a://b/in", True),
    ("s3a://b/in/a.json", "s3a://c/in", False),
    ("file:///in/2024/a.json", "/in/*", True),
    ("file:///in/2024/a.json", "/in/*/*.json", True),
    ("file:///in/2024/a.csv", "/in/*/*.json", False),
    ("file:///in/2024/x/a.json", "/in/*", False),
    ("file:///in/a1.json", "/in/a[0-9].json", True),
    ("file:///in/ab.json", "/in/a[^0-9].json", True),
    ("file:///in/a1.json", "/in/a[!1].json", False),
    ("file:///in/eu/a.json", "/in/{eu,us}", True),
    ("file:///in/asia/a.json", "/in/{eu,us}", False),
    ("file:///in/a.json", "/in/?.json", True),
    ("file:///in/aXb.json", "/in/a.b*", False),
    ("file:///in/a*.json", "/in/a\\*.json", True),
    ("file:///in/ab.json", "/in/a\\*.json", False),
]


@pytest.mark.parametrize(("uri", "path", "expected"), UNDER)
def test_a_file_belongs_to_the_source_that_lists_it(uri: str, path: str, expected: bool) -> None:
    assert lies_under(uri, path) is expected


def test_a_recursive_source_lists_every_folder_below() -> None:
    assert lies_under("file:///in/x/y/a.json", "/in", recursive=True)
    assert not lies_under("file:///on/x/y/a.json", "/in", recursive=True)


@pytest.mark.parametrize("name", ["a b", "[1]{2}*", "q?#", "back\\slash", "50%20x"])
def test_a_literal_path_is_a_pattern_of_that_one_file(name: str) -> None:
    pattern = literal(f"file:///in/{name}.json")
    assert lies_under(f"file:///in/{name}.json", pattern)
    assert is_glob(pattern) or pattern == f"/in/{name}.json"
