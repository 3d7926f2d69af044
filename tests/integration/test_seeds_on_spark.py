"""Seeds at positions that somebody chose, run by real Spark: exactly the rows after each position, none twice."""

import json
from pathlib import Path

import pytest

from recovery.checkpoints.seed import SourceStart
from tests.connected_spark import ConnectedSpark
from tests.integration.seed_streams import Streams, both, offsets
from tests.kafka import KafkaBroker
from tests.skeletons import lay_skeleton_of

pytestmark = pytest.mark.spark


@pytest.fixture
def streams(beside_spark: ConnectedSpark, tmp_path: Path) -> Streams:
    return Streams(beside_spark, None, tmp_path)


@pytest.fixture
def brokered(beside_spark: ConnectedSpark, kafka: KafkaBroker, tmp_path: Path) -> Streams:
    return Streams(beside_spark, kafka, tmp_path)


def line(log_id: int) -> str:
    return f'{{"logOffset":{log_id}}}'


FILES = [
    ("where it stands", 4, line(3), (), (), [4, 5]),
    ("the newest again", 4, line(2), (3,), (), [3, 4, 5]),
    ("the oldest again", 4, line(3), (0,), (), [0, 4, 5]),
    ("one in the midst again", 4, line(3), (1,), (), [1, 4, 5]),
    ("all again", 4, line(-1), (0, 1, 2, 3), (), [0, 1, 2, 3, 4, 5]),
    ("one that waits skipped", 4, line(4), (), ((4, 4),), [5]),
    ("all that wait skipped", 4, line(4), (), ((4, 4), (5, 4)), []),
    ("one again, one skipped", 4, line(4), (2,), ((4, 4),), [2, 5]),
    ("batch 0 alone, all again", 1, line(-1), (0,), (), [0, 1, 2]),
    ("batch 0 alone, one skipped", 1, line(1), (), ((1, 1),), [2]),
    ("compacted, the newest again", 12, line(10), (11,), (), [11, 12, 13]),
    ("compacted, the oldest again", 12, line(11), (0, 1), (), [0, 1, 12, 13]),
    ("compacted, one skipped", 12, line(12), (), ((12, 12),), [13]),
]


@pytest.mark.parametrize("read", [1, 4, 12])
def test_files_are_read_again_or_skipped_as_told(streams: Streams, read: int) -> None:
    """Every case goes on from a copy of one checkpoint; the same files wait for all of them."""
    streams.sources = [streams.files("f")]
    streams.put("f", *range(read))
    assert streams.run() == sorted(both("f", *range(read)))
    streams.put("f", read, read + 1)
    streams.sources = [streams.files("f", maxFilesPerTrigger="1000")]
    for says, at, again, skip, wanted in [f[:1] + f[2:] for f in FILES if f[1] == read]:
        case = streams.copied(says)
        start = SourceStart(
            0,
            0,
            at,
            again=tuple(streams.uri("f", n) for n in again),
            skip=tuple(streams.entry("f", n, log_id) for n, log_id in skip),
        )
        case.seed([start])
        assert case.run() == sorted(both("f", *wanted)), says
        assert case.run() == [], says


def test_kafka_goes_on_from_any_offsets(brokered: Streams) -> None:
    source = brokered.topic("t")
    brokered.sources = [source]
    brokered.send(source, "a", 0, 1, 2)
    brokered.send(source, "b", 0, 1, 2, partition=1)
    assert len(brokered.run()) == 6
    brokered.send(source, "a", 3, 4)
    assert len(brokered.run()) == 2
    brokered.send(source, "b", 3, 4, partition=1)
    for at, wanted in {
        (5, 3): ["b3", "b4"],
        (1, 3): ["a1", "a2", "a3", "a4", "b3", "b4"],
        (5, 5): [],
        (0, 4): ["a0", "a1", "a2", "a3", "a4", "b4"],
    }.items():
        case = brokered.copied(f"at {at}")
        case.seed([SourceStart(0, 0, offsets(source, *at))])
        assert case.run() == wanted, at
        assert case.run() == [], at


def test_an_end_that_is_named_in_an_offset_file_is_no_position(brokered: Streams) -> None:
    """Why -2 and -1 are refused in a seed: Spark fails at the one, and looks for the other when a task runs."""
    source = brokered.topic("t", 1)
    brokered.sources = [source]
    brokered.send(source, "a", 0, 1)
    brokered.run()
    cases = {name: brokered.copied(f"at {name}") for name in (-2, -1)}
    for name, case in cases.items():
        made = case.seed([SourceStart(0, 0, offsets(source, 2))])
        for file in (made / "offsets").glob("[0-9]*"):
            file.write_text(file.read_text().replace('{"0":2}', f'{{"0":{name}}}'))
    brokered.send(source, "a", 2)
    assert cases[-2].run() == ["a0", "a1", "a2"]
    assert "earliest offset -1 does not equal -2" in cases[-1].attempt()["problem"]


def test_delta_goes_on_from_any_version_and_file(streams: Streams) -> None:
    for first in (0, 4, 8):
        streams.add("d", *range(first, first + 4))
    streams.sources = [streams.table("d", startingVersion="0")]
    assert len(streams.run()) == 12
    told = json.loads(streams.lines()[0] or "")
    assert (told["reservoirVersion"], told["index"]) == (3, -1)
    streams.add("d", 12, 13)
    streams.sources = [streams.table("d", maxFilesPerTrigger="1000")]
    for version, index, wanted in [
        (3, -1, 2),
        (2, -1, 6),
        (2, 1, 4),
        (3, 0, 1),
        (0, -1, 14),
        (4, -1, 0),
        (2, 9, 2),
    ]:
        case = streams.copied(f"at {version} {index}")
        at = json.dumps({**told, "reservoirVersion": version, "index": index}, separators=(",", ":"))
        case.seed([SourceStart(0, 0, at)])
        assert len(case.run()) == wanted, at
        assert case.run() == [], at


def test_sources_that_are_added_start_where_they_are_told(brokered: Streams) -> None:
    """Files alone; then Kafka in two ways, files of which one is skipped, and a table, in another order."""
    brokered.sources = [brokered.files("f")]
    brokered.put("f", 0, 1, 2)
    assert brokered.run() == both("f", 0, 1, 2)
    brokered.put("f", 3)
    kafka, late, more = (
        brokered.topic("k"),
        brokered.topic("l", 1, startingOffsets="latest"),
        brokered.files("m"),
    )
    brokered.send(kafka, "k", 0, 1, 2)
    brokered.send(kafka, "q", 0, partition=1)
    brokered.send(late, "l", 0)
    brokered.put("m", 0, 1)
    for version in range(3):
        brokered.add("d", 2 * version, 2 * version + 1)
    table = brokered.table("d", startingVersion="0")
    told = json.loads(brokered.spark.run("""
import json
answer = json.dumps([r.id for r in spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()])
""", path=table[1]))[0]  # fmt: skip
    at = {
        "sourceVersion": 1,
        "reservoirId": told,
        "reservoirVersion": 2,
        "index": -1,
        "isStartingVersion": False,
    }
    brokered.sources = [table, kafka, late, more, brokered.files("f")]
    made = brokered.seed(
        [
            SourceStart(0, None, json.dumps(at, separators=(",", ":"))),
            SourceStart(1, None, offsets(kafka, 2, 0)),
            SourceStart(2, None, None),
            SourceStart(3, None, line(0), skip=(brokered.entry("m", 0, 0),)),
            SourceStart(4, 0, line(2)),
        ]
    )
    assert brokered.run() == sorted(["d4", "d5", "k2", "q0", *both("m", 1), *both("f", 3)])
    assert (made / "sources/1/0").read_bytes().startswith(b"\0v1\n")
    assert (made / "sources/2/0").read_bytes().startswith(b"\0v1\n"), (
        "Spark writes it where the options decide"
    )
    brokered.send(late, "l", 1)
    brokered.send(kafka, "k", 3)
    brokered.put("m", 2)
    brokered.add("d", 6)
    assert brokered.run() == sorted(["d6", "k3", "l1", *both("m", 2)])


def test_two_of_three_sources_change_places_and_one_is_dropped(brokered: Streams) -> None:
    """The names of files would be refused by Spark in the other's place, and offsets of the other topic be read."""
    one, two = brokered.topic("one", 1), brokered.topic("two", 1)
    files = brokered.files("f", maxFilesPerTrigger="1000")
    brokered.sources = [one, files, two]
    for n in range(3):
        brokered.send(one, "a", n)
    brokered.send(two, "b", 0)
    brokered.put("f", 0, 1)
    brokered.run()
    brokered.send(one, "a", 3)
    brokered.send(two, "b", 1)
    brokered.put("f", 2)
    first, log, second = brokered.lines()
    brokered.sources = [two, files]
    brokered.seed([SourceStart(0, 2, second), SourceStart(1, 1, log)])
    assert brokered.run() == sorted(["b1", *both("f", 2)])
    brokered.sources = [files, one, two]
    brokered.seed(
        [SourceStart(0, 1, brokered.lines()[1]), SourceStart(1, None, first), SourceStart(2, 0, second)]
    )
    assert brokered.run() == ["a3", "b1"], "back where each was told, though version 1 has read b1"
    assert brokered.run() == []


def test_a_second_topic_beside_the_first(brokered: Streams) -> None:
    one, two = brokered.topic("one", 1), brokered.topic("two", 1)
    brokered.sources = [one]
    brokered.send(one, "a", 0, 1)
    brokered.run()
    brokered.send(one, "a", 2)
    brokered.send(two, "b", 0, 1, 2)
    brokered.sources = [two, one]
    assert (
        "There are [1] sources in the checkpoint offsets and now there are [2]"
        in brokered.attempt()["problem"]
    )
    brokered.seed([SourceStart(0, None, offsets(two, 1)), SourceStart(1, 0, offsets(one, 2))])
    assert brokered.run() == ["a2", "b1", "b2"]


WINDOWS = """
frame = frame.selectExpr("split(value, ' ')[0] as k", "timestamp_seconds(cast(split(value, ' ')[1] as long)) as t")
frame = frame.withWatermark("t", "0 seconds").groupBy("k", "t").count().selectExpr("k", "unix_seconds(t)", "count")
"""


@pytest.mark.parametrize(("watermark", "lost"), [(None, 4), (0, 0), (199_999, 1)])
def test_an_aggregate_with_empty_state_counts_again_what_its_watermark_lets_pass(
    brokered: Streams, watermark: int | None, lost: int
) -> None:
    """Records of the seconds 100, 200 and on: each is a group of its own, given out once the watermark is there."""
    source = brokered.topic("t", 1)
    brokered.sources, brokered.query = [source], WINDOWS
    assert brokered.kafka
    brokered.kafka.put(source[2]["subscribe"], [f"k {n}00" for n in range(1, 5)])
    assert brokered.run() == [f"k|{n}00|1" for n in range(1, 5)]
    lay_skeleton_of(str(brokered.flow), brokered.root / "scratch")
    empty = [
        *source[:2],
        {**source[2], "subscribe": brokered.topic("nothing", 1)[2]["subscribe"]},
        *source[3:],
    ]
    assert brokered.run(checkpoint=str(brokered.root / "scratch"), sources=[empty]) == []
    brokered.seed(
        [SourceStart(0, 0, offsets(source, 0))], watermark_ms=watermark, state=str(brokered.root / "scratch")
    )
    brokered.kafka.put(source[2]["subscribe"], ["k 500"])
    assert brokered.run() == [f"k|{n}00|1" for n in range(1 + lost, 6)]


COUNTING = """
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

class Counting(DataSource):
    @classmethod
    def name(cls):
        return "counting"

    def schema(self):
        return "value string"

    def streamReader(self, schema):
        return Reader(self.options)

class Reader(DataSourceStreamReader):
    def __init__(self, options):
        self.last = int(options["last"])

    def initialOffset(self):
        return {"upto": 0, "of": "counting"}

    def latestOffset(self):
        return {"upto": self.last, "of": "counting"}

    def partitions(self, start, end):
        return [InputPartition((start["upto"], end["upto"]))]

    def read(self, partition):
        first, last = partition.value
        return iter([(f"c{n}",) for n in range(first, last)])

spark.dataSource.register(Counting)
"""


def test_a_source_written_in_python_goes_on_from_its_own_json(streams: Streams) -> None:
    """A continuing trigger: such a source has no end of its own that AvailableNow could ask for."""
    streams.define = COUNTING
    streams.sources = [["counting", None, {"last": "3"}, None, "value"]]
    assert streams.run() == ["c0", "c1", "c2"]
    told = streams.lines()[0]
    assert told == '{"upto": 3, "of": "counting"}'
    streams.sources = [["counting", None, {"last": "5"}, None, "value"]]
    for says, at, wanted in [
        ("same", told, ["c3", "c4"]),
        ("back", told.replace("3", "1"), ["c1", "c2", "c3", "c4"]),
        ("without spaces", '{"upto":4,"of":"counting"}', ["c4"]),
        ("by itself", None, ["c0", "c1", "c2", "c3", "c4"]),
    ]:
        case = streams.copied(says)
        case.seed([SourceStart(0, 0, at)])
        assert case.run() == wanted, says


def test_rows_that_are_counted_go_on_from_any_number(streams: Streams) -> None:
    """rate-micro-batch: ten rows a batch; AvailableNow reads one batch."""
    streams.sources = [["rate-micro-batch", None, {"rowsPerBatch": "10"}, None, "value"]]
    streams.once = False
    streams.run()
    told = json.loads(streams.lines()[0] or "")
    assert told["offset"] >= 20
    for says, at in [("same", told), ("back", {"offset": 10, "timestamp": 1000})]:
        case = streams.copied(says)
        case.seed([SourceStart(0, 0, json.dumps(at, separators=(",", ":")))])
        read = sorted(int(v) for v in case.run())
        assert read == list(range(at["offset"], at["offset"] + len(read))), says
        assert len(read) >= 10


def test_the_rate_source_goes_on_from_any_second_with_the_time_at_which_it_began(streams: Streams) -> None:
    streams.sources = [["rate", None, {"rowsPerSecond": "5"}, None, "value"]]
    streams.once = False
    streams.run()
    second = int(streams.lines()[0] or "")
    for says, at in [("same", second), ("back", max(0, second - 1))]:
        case = streams.copied(says)
        case.seed([SourceStart(0, 0, str(at))])
        read = sorted(int(v) for v in case.run())
        assert read[:5] == list(range(5 * at, 5 * at + 5)), says
        assert read == list(range(5 * at, 5 * at + len(read))), says
