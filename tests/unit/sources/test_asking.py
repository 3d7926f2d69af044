"""Where a source lies, by what the code's readers say of themselves."""

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.checkpoints.report import SourceProgress
from recovery.contracts.amounts import Amount
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.errors import Unreachable
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.live import file_source_facts, probe, unread
from tests.delta_tables import TABLE, add, table

NAMED = SourceReader("delta", "main.shop.orders", table="main.shop.orders")


def test_a_place_that_nobody_knows_is_said() -> None:
    with pytest.raises(Unreachable) as problem:
        file_source_facts.require_place(NAMED)
    assert problem.value.sentence == file_source_facts.NO_PLACE


def test_a_delta_table_by_name_is_looked_at_where_its_files_lie_by_both_looks(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    table(place, [[], [add("f1")], [add("f2")], [add("f3")]])
    reader = replace(NAMED, location=str(place))
    progress = SourceProgress(0, "delta", DeltaOffset(TABLE, 2).as_json())
    assert unread.count_unread(progress, reader).waits.files == Amount(value=2)
    assert probe.probe_source(progress, reader).unread.files == Amount(value=2)
    assert probe.latest_position(reader, "delta", progress.offset_json) == DeltaOffset(TABLE, 4).as_json()


def test_a_table_of_files_by_name_is_listed_where_its_files_lie_by_both_looks(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "1.parquet").write_bytes(b"12345")
    reader = SourceReader("parquet", "shop.orders", table="shop.orders", location=f"file:{folder}")
    progress = SourceProgress(0, "files", None)
    assert unread.count_unread(progress, reader).waits.files == Amount(value=1)
    found = probe.probe_source(progress, reader)
    assert (found.unread.files, found.location) == (Amount(value=1), f"file:{folder}")


@pytest.mark.parametrize("kind", ["rate", "unknown"])
def test_the_end_of_a_source_that_is_not_asked_cannot_be_told(kind: str) -> None:
    assert probe.latest_position(NO_READER, kind, "7") is None
    assert probe.range_between(NO_READER, kind, "7", "9") is None


def test_what_lies_between_two_positions_needs_a_place() -> None:
    line = DeltaOffset(TABLE, 2).as_json()
    assert probe.latest_position(NAMED, "delta", line) is None
    assert probe.range_between(NAMED, "delta", line, line) is None
