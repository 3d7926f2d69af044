"""Slices put together without anything twice; what a batch reader is handed for them."""

import json
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from recovery.sources.input_ranges import InputRange
from recovery.spark.slicing import absolute, below, delta, kafka_options, merge_slices


def kafka(**spans: tuple[int, int]) -> dict[str, Any]:
    start = {name[1:]: span[0] for name, span in spans.items()}
    end = {name[1:]: span[1] for name, span in spans.items()}
    return InputRange("kafka", start={"t": start}, end={"t": end}).as_dict()


def ranges(slices: list[Any]) -> list[dict[str, tuple[int, int]]]:
    return [{n: (at, s["end"]["t"][n]) for n, at in s["start"]["t"].items()} for s in slices]


MERGED = {
    "one": ([kafka(p0=(1, 4), p1=(0, 2))], [{"0": (1, 4), "1": (0, 2)}]),
    "ranges that touch": ([kafka(p0=(1, 4)), kafka(p0=(4, 9))], [{"0": (1, 9)}]),
    "ranges that overlap": ([kafka(p0=(3, 9)), kafka(p0=(1, 4))], [{"0": (1, 9)}]),
    "a range in another": ([kafka(p0=(1, 9)), kafka(p0=(3, 4))], [{"0": (1, 9)}]),
    "ranges apart": (
        [kafka(p0=(1, 2), p1=(0, 1)), kafka(p0=(5, 6))],
        [{"0": (1, 2), "1": (0, 1)}, {"0": (5, 6)}],
    ),
    "empty ranges": ([kafka(p0=(4, 4)), kafka(p0=(2, 2))], []),
    "nothing": ([], []),
}


@pytest.mark.parametrize("case", MERGED)
def test_ranges_of_a_partition_are_read_once(case: str) -> None:
    given, expected = MERGED[case]
    assert ranges(merge_slices(given)) == expected


def test_a_delta_file_is_read_once_at_the_version_that_named_it_first() -> None:
    one = InputRange("delta", versions=((3, ("a", "b")), (1, ("c",)))).as_dict()
    two = InputRange("delta", versions=((5, ("b", "d")), (3, ("e",)))).as_dict()
    (found,) = merge_slices([one, two])
    assert found["versions"] == [[1, ["c"]], [3, ["a", "b", "e"]], [5, ["d"]]]
    assert merge_slices([InputRange("delta").as_dict()]) == []


def test_a_batch_reader_gets_exactly_the_partitions_and_no_option_of_streams() -> None:
    options = {
        "kafka.bootstrap.servers": "h:1",
        "SubscribePattern": "t.*",
        "startingOffsetsByTimestamp": "{}",
        "startingTimestamp": "5",
        "endingOffsets": "latest",
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": "9",
        "minOffsetsPerTrigger": "1",
        "maxTriggerDelay": "1m",
        "includeHeaders": "true",
        "kafka.group.id": "g",
    }
    found = kafka_options(options, kafka(p10=(1, 4), p9=(0, 2)))
    assert {name: found.pop(name) for name in ("kafka.bootstrap.servers", "includeHeaders", "kafka.group.id")}
    assert {name: json.loads(text) for name, text in found.items()} == {
        "assign": {"t": [9, 10]},
        "startingOffsets": {"t": {"10": 1, "9": 0}},
        "endingOffsets": {"t": {"10": 4, "9": 2}},
    }


PATHS = [
    ("file:/data/t", "part-0.parquet", "/data/t/part-0.parquet"),
    ("file:///data/t/", "p=a%20b/part-0.parquet", "/data/t/p=a b/part-0.parquet"),
    ("/data/t", "p=50%2525/x+y.parquet", "/data/t/p=50%25/x+y.parquet"),
    ("s3a://bucket/t", "q/x.parquet", "/t/q/x.parquet"),
    ("abfss://c@a.dfs.core.windows.net/t", "x.parquet", "/t/x.parquet"),
    ("hdfs://nn:8020/t", "hdfs://nn:8020/other/x%20y.parquet", "/other/x y.parquet"),
    ("/data/t", "file:/other/x.parquet", "/other/x.parquet"),
    ("/data/t", "/other/x.parquet", "/other/x.parquet"),
]


@pytest.mark.parametrize(("location", "path", "expected"), PATHS)
def test_files_of_a_log_are_found_wherever_the_table_lies(location: str, path: str, expected: str) -> None:
    assert absolute(location, [path]) == [expected]


@pytest.mark.parametrize(
    ("location", "path", "expected"),
    [
        ("file:/data/t", "part-0.parquet", "/data/t/part-0.parquet"),
        ("/data/t/", "p=a%20b/part-0.parquet", "/data/t/p=a b/part-0.parquet"),
        ("/data/[t]", "p=50%2525/{x}.parquet", "/data/\\[t\\]/p=50%25/\\{x\\}.parquet"),
        ("s3a://bucket/t", "q/x.parquet", "s3a://bucket/t/q/x.parquet"),
    ],
)
def test_a_file_that_is_read_by_itself_is_named_whole_and_is_no_pattern(
    location: str, path: str, expected: str
) -> None:
    assert below(location, [path]) == [expected]


class Frame:
    """A frame that knows what was read for it, all together."""

    def __init__(self, *read: Any) -> None:
        self.read = read
        self.schema = StructType([StructField("id", LongType(), True)])

    def unionAll(self, other: "Frame") -> "Frame":
        return Frame(*self.read, *other.read)

    def where(self, _: Any) -> "Frame":
        return Frame(*(f"picked from {one}" for one in self.read))


@pytest.mark.parametrize(
    ("part", "read"),
    [
        (
            InputRange("delta", versions=((3, ("a", "b")), (4, ("c",))), direct=True),
            (("/t/a", "/t/b"), ("/t/c",)),
        ),
        (InputRange("delta"), ("picked from {}",)),
    ],
    ids=["files by themselves", "nothing"],
)
def test_files_that_stand_for_themselves_are_read_without_their_table(
    part: InputRange, read: tuple[Any, ...]
) -> None:
    def parquet(_schema: Any, paths: list[str]) -> Frame:
        return Frame(tuple(paths))

    assert delta(Frame, parquet, "/t", Frame(), [part.as_dict()]).read == read
