"""Where a source lies, by what the code's readers say of themselves."""

from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints.report import SourceProgress
from recovery.contracts.amounts import Amount
from recovery.errors import Unreachable
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.live import file_source_facts, probe, unread
from tests.delta_tables import TABLE, add, table

NAMED = {"format": "delta", "path": "main.shop.orders", "table": "main.shop.orders", "options": {}}


@pytest.mark.parametrize(
    ("described", "place"),
    [
        ({"format": "json", "path": "/in/*", "location": "/in/*"}, "/in/*"),
        ({"format": "json", "path": "/in"}, "/in"),
        ({**NAMED, "location": "file:/lake/orders"}, "file:/lake/orders"),
        ({"format": "delta", "path": "main.shop.orders", "location": "/lake/orders"}, "/lake/orders"),
        ({**NAMED, "location": None}, ""),
        ({"format": "table", "path": "main.shop.orders", "location": None}, ""),
        ({"format": "kafka", "path": None, "location": None, "options": {"subscribe": "t"}}, ""),
        ({}, ""),
    ],
    ids=[
        "a path",
        "a path that no room told",
        "a table by name",
        "a table by name, as it is noted",
        "a table that the catalog does not place",
        "a table that the catalog does not know",
        "no files",
        "no code",
    ],
)
def test_the_place_of_a_source_is_where_its_files_lie_and_never_the_name_of_a_table(
    described: dict[str, Any], place: str
) -> None:
    assert file_source_facts.place_of(described) == place


def test_a_place_that_nobody_knows_is_said() -> None:
    with pytest.raises(Unreachable) as problem:
        file_source_facts.known_place({**NAMED, "location": None})
    assert problem.value.sentence == file_source_facts.NO_PLACE


def test_a_delta_table_by_name_is_looked_at_where_its_files_lie_by_both_looks(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    table(place, [[], [add("f1")], [add("f2")], [add("f3")]])
    told = {**NAMED, "location": str(place)}
    progress = SourceProgress(0, "delta", DeltaOffset(TABLE, 2).as_json())
    assert unread.count_unread(progress, told).waits.files == Amount(value=2)
    assert probe.probe_source(progress, told).unread.files == Amount(value=2)
    assert probe.latest_position(told, "delta", progress.offset_json) == DeltaOffset(TABLE, 4).as_json()


def test_a_table_of_files_by_name_is_listed_where_its_files_lie_by_both_looks(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "1.parquet").write_bytes(b"12345")
    told = {"format": "parquet", "path": "shop.orders", "table": "shop.orders", "location": f"file:{folder}"}
    progress = SourceProgress(0, "files", None)
    assert unread.count_unread(progress, told).waits.files == Amount(value=1)
    found = probe.probe_source(progress, told)
    assert (found.unread.files, found.location) == (Amount(value=1), f"file:{folder}")


@pytest.mark.parametrize("kind", ["rate", "unknown"])
def test_the_end_of_a_source_that_is_not_asked_cannot_be_told(kind: str) -> None:
    assert probe.latest_position({}, kind, "7") is None
    assert probe.range_between({}, kind, "7", "9") is None


def test_what_lies_between_two_positions_needs_a_place() -> None:
    line = DeltaOffset(TABLE, 2).as_json()
    assert probe.latest_position({**NAMED, "location": None}, "delta", line) is None
    assert probe.range_between({**NAMED, "location": None}, "delta", line, line) is None
