"""Seeds at positions that somebody chose, run by real Spark: exactly the rows after each position, none twice."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.checkpoints.seed import SourceStart
from tests.connected_spark import ConnectedSpark, connected_spark
from tests.integration.seed_streams import Streams, both, offsets
from tests.kafka import KafkaBroker

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def connected() -> Iterator[ConnectedSpark]:
    with connected_spark() as child:
        yield child


@pytest.fixture
def streams(connected: ConnectedSpark, tmp_path: Path) -> Streams:
    return Streams(connected, None, tmp_path)


@pytest.fixture
def brokered(connected: ConnectedSpark, kafka: KafkaBroker, tmp_path: Path) -> Streams:
    return Streams(connected, kafka, tmp_path)


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


def test_spark_takes_a_named_offset_in_an_offset_file_for_a_number(brokered: Streams) -> None:
    """Why -2 and -1 are refused in a seed: they are names in `startingOffsets` alone."""
    source = brokered.topic("t", 1)
    brokered.sources = [source]
    brokered.send(source, "a", 0, 1)
    brokered.run()
    for name in (-2, -1):
        case = brokered.copied(f"at {name}")
        made = case.seed([SourceStart(0, 0, offsets(source, 1))])
        for file in (made / "offsets").glob("[0-9]*"):
            file.write_text(file.read_text().replace('{"0":1}', f'{{"0":{name}}}'))
        said = case.attempt()
        print(name, said)
        assert "problem" in said


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
