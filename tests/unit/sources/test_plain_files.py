"""Which files of a Delta table stand for themselves, and how much is read where they do not."""

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import deltalog
from recovery.sources.delta_facts import DeltaOffset, is_plain_table
from recovery.sources.live import delta as live
from tests.delta_tables import TABLE, add, commit, metadata, remove, table

VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "cardinality": 1}


@pytest.mark.parametrize(
    ("path", "more", "alone"),
    [
        ("part-0.parquet", {}, True),
        ("p=1/part-0.parquet", {"partitionValues": {"p": "1"}}, True),
        ("p=1/q=x/part-0.parquet", {"partitionValues": {"q": "x", "p": "1"}}, True),
        ("p=1/part-0.parquet", {"partitionValues": [("p", "1")]}, True),
        ("p=a%2520b%253D/part-0.parquet", {"partitionValues": {"p": "a b="}}, True),
        ("p=%C3%A9/part-0.parquet", {"partitionValues": {"p": "é"}}, True),
        ("p=__HIVE_DEFAULT_PARTITION__/part-0.parquet", {"partitionValues": {"p": None}}, True),
        ("p=__HIVE_DEFAULT_PARTITION__/part-0.parquet", {"partitionValues": {"p": ""}}, True),
        ("p=%25C3%25A9/part-0.parquet", {"partitionValues": {"p": "é"}}, False),
        (
            "p=__HIVE_DEFAULT_PARTITION__/part-0.parquet",
            {"partitionValues": {"p": "__HIVE_DEFAULT_PARTITION__"}},
            False,
        ),
        ("p=1/part-0.parquet", {"partitionValues": {"p": "2"}}, False),
        ("p=1/part-0.parquet", {}, False),
        ("Xy/part-0.parquet", {"partitionValues": {"p": "1"}}, False),
        ("Xy/part-0.parquet", {}, False),
        ("part-0.parquet", {"partitionValues": {"p": "1"}}, False),
        ("file:/other/part-0.parquet", {}, False),
        ("s3://bucket/part-0.parquet", {}, False),
        ("/other/part-0.parquet", {}, False),
        ("_part-0.parquet", {}, False),
        (".part-0.parquet", {}, False),
        ("part-0.parquet", {"deletionVector": VECTOR}, False),
    ],
)
def test_a_file_stands_for_itself_where_its_folders_say_its_partition_and_no_row_is_deleted(
    path: str, more: dict[str, Any], alone: bool
) -> None:
    assert deltalog.added_file(add(path, **more)["add"]).plain is alone


def schema(**types: Any) -> str:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    ("more", "types", "features", "alone"),
    [
        ({}, {"id": "long"}, None, True),
        ({}, {"id": "long"}, ["deletionVectors", "columnMapping", "timestampNtz"], True),
        ({"partitionColumns": ["p", "d"]}, {"id": "long", "p": "string", "d": "date"}, None, True),
        ({"configuration": {"delta.columnMapping.mode": "none"}}, {"id": "long"}, ["columnMapping"], True),
        ({"configuration": {"delta.columnMapping.mode": "id"}}, {"id": "long"}, ["columnMapping"], False),
        ({}, {"id": "long"}, ["typeWidening"], False),
        ({}, {"id": "long"}, ["somethingNew"], False),
        ({"partitionColumns": ["p"]}, {"p": "timestamp"}, None, False),
        ({"partitionColumns": ["p"]}, {"p": "decimal(9,2)"}, None, False),
        ({"partitionColumns": ["p"]}, {"p": {"type": "struct", "fields": []}}, None, False),
        ({"partitionColumns": ["p"]}, {"id": "long"}, None, False),
    ],
)
def test_a_table_is_read_file_by_file_only_where_nothing_in_its_metadata_changes_what_a_file_says(
    more: dict[str, Any], types: dict[str, Any], features: list[str] | None, alone: bool
) -> None:
    protocol = {"minReaderVersion": 3, **({} if features is None else {"readerFeatures": features})}
    assert is_plain_table({"configuration": {}, **more}, protocol, schema(**types)) is alone


def test_a_padded_column_is_padded_by_the_table_alone() -> None:
    told = schema(id="long").replace(
        '"metadata": {}', '"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}'
    )
    assert not is_plain_table({"configuration": {}}, {"minReaderVersion": 1}, told)


def test_a_version_is_as_large_as_what_it_holds(tmp_path: Path) -> None:
    """Also by a compaction, which no stream reads."""
    place = table(
        tmp_path,
        [
            [add("a", size=10), add("b", size=20)],
            [add("c", size=40)],
            [remove("a", size=10, dataChange=False), add("d", size=9, dataChange=False)],
            [remove("b", size=20)],
        ],
    )
    facts = live.read_table(str(place), offsets=[DeltaOffset(TABLE, 0).as_json()], options={}, look=False)
    assert facts.plain
    assert [facts.size_of(v) for v in range(4)] == [None] * 4
    assert [live.measure_table(facts).size_of(v) for v in range(4)] == [30, 70, 69, 49]
    later = live.read_table(str(place), offsets=[DeltaOffset(TABLE, 2).as_json()], options={}, look=False)
    assert [live.measure_table(later).size_of(v) for v in range(4)] == [None, 70, 69, 49]


def test_the_size_of_a_table_that_is_gone_is_not_told(tmp_path: Path) -> None:
    place = table(tmp_path / "t", [[add("a")]])
    facts = live.read_table(str(place), offsets=[None], options={}, look=False)
    for file in (place / "_delta_log").iterdir():
        file.unlink()
    assert live.measure_table(facts).size_of(0) is None


def test_a_change_of_metadata_is_seen_where_it_is_committed(tmp_path: Path) -> None:
    place = table(tmp_path, [[], [add("a")]])
    commit(place, 2, metadata(**{"delta.columnMapping.mode": "name"}))
    facts = live.read_table(str(place), offsets=[DeltaOffset(TABLE, 1).as_json()], options={}, look=False)
    assert (facts.plain, facts.commits[1].schema, facts.commits[2].schema is None) == (False, None, False)
