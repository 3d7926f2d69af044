"""A source log read piece by piece says what a reader of every line says, whatever the bytes and the pieces."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.checkpoints import filelog, formats, inspect_checkpoint, logscan
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import SourceEntry
from recovery.errors import Unreachable
from tests.checkpoint_builder import Built

PATHS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.one_of(st.integers(0, 130), st.integers(-3, 10**20))
ENTRY = st.tuples(PATHS, NUMBERS, NUMBERS)


def written(path: str, stamp: object, batch: object, *, spaces: bool = False) -> str:
    separators = (", ", ": ") if spaces else (",", ":")
    body = {"path": path, "timestamp": stamp, "batchId": batch}
    return json.dumps(body, separators=separators, ensure_ascii=False)


LINE = st.one_of(
    st.builds(lambda e: written(*e), ENTRY),
    st.builds(lambda e: written(*e, spaces=True), ENTRY),
    st.builds(lambda n, b: written(f"file:///in/{n}", n, b), st.integers(0, 99), st.integers(0, 30)),
    st.builds(lambda e, at, by: written(*e)[:at] + by, ENTRY, st.integers(0, 60), st.text(max_size=3)),
)


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The data in pieces of these sizes, over and over."""
    at = index = 0
    while at < len(data):
        yield data[at : at + sizes[index % len(sizes)]]
        at += sizes[index % len(sizes)]
        index += 1


def naively(data: bytes) -> list[SourceEntry]:
    """The reader of every line: no blocks, no patterns."""
    lines = formats.text_of(data).split("\n")
    formats.version_of(lines[0], "sources")
    body = lines[1:-1] if lines[-1] == "" else lines[1:]
    return [logscan.source_entry(formats.json_of(line)) for line in body]


@settings(max_examples=400, deadline=None)
@given(
    lines=st.lists(LINE, max_size=8),
    end=st.sampled_from(["", "\n", "\n\n"]),
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=3),
    reached=st.one_of(st.none(), NUMBERS),
)
def test_counts_and_ends_are_those_of_the_reader_of_every_line(
    lines: list[str], end: str, sizes: list[int], reached: int | None
) -> None:
    data = ("\n".join(["v1", *lines]) + end).encode()
    try:
        wanted = naively(data)
    except Malformed:
        with pytest.raises(Malformed):
            logscan.tally_entries(cut(data, sizes), reached)
        return
    before, after = logscan.tally_entries(cut(data, sizes), reached)
    for tally, late in ((before, False), (after, True)):
        entries = [e for e in wanted if late == (reached is None or e.batch_id > reached)]
        assert (tally.count, tally.first) == (len(entries), entries[:100])
        assert tally.newest == (entries[-1] if entries else None)


@pytest.mark.parametrize(
    "line",
    [
        '{"path":"a\nb","timestamp":1,"batchId":0}',
        '{"path":"a\tb","timestamp":1,"batchId":0}',
        '{"path":"a\\qb","timestamp":1,"batchId":0}',
        '{"path":"a","timestamp":01,"batchId":0}',
        '{"path":"a","timestamp":1,"batchId":00}',
        '{"path":"a","timestamp":1,"batchId":0}{"path":"a","timestamp":1,"batchId":0}',
        '{"path":"a","timestamp":1,"batchId":0',
        '{"path":"\\ud800","timestamp":1,"batchId":0}',
        "",
    ],
)
def test_one_line_that_is_not_json_spoils_the_file(line: str) -> None:
    good = written("file:///in/a", 1, 0)
    with pytest.raises(Malformed):
        logscan.tally_entries([f"v1\n{good}\n{line}\n{good}".encode()], 9)


def test_bytes_that_are_not_utf_8_spoil_the_file() -> None:
    with pytest.raises(Malformed):
        logscan.tally_entries([b'v1\n{"path":"\xff","timestamp":1,"batchId":0}'], 9)


def test_a_line_without_end_is_given_up_early() -> None:
    taken = []

    def endless() -> Iterator[bytes]:
        yield b"v1\n"
        while True:
            taken.append(1)
            yield b"\0" * (1 << 16)

    with pytest.raises(Malformed, match="a line of more than"):
        logscan.tally_entries(endless(), 9)
    assert len(taken) < 20


@settings(max_examples=300, deadline=None)
@given(highest=st.integers(0, 10**18), other=st.integers(0, 10**18), near=st.integers(-20, 20))
def test_the_pattern_of_numbers_up_to_one_matches_those_and_no_other(
    highest: int, other: int, near: int
) -> None:
    pattern = re.compile(b"|".join(logscan.at_most(highest)))
    for number in {other, max(0, highest + near), highest, other % (highest + 1), 0}:
        assert bool(pattern.fullmatch(str(number).encode())) == (number <= highest)
    assert not pattern.fullmatch(b"00")
    assert not pattern.fullmatch(b"")


def test_entries_are_read_again_only_while_they_are_what_was_counted(tmp_path: Path) -> None:
    flow = Built(tmp_path / "flow" / "0", batches=3, planned=1).write().root
    source = inspect_checkpoint(str(flow)).sources[0]
    assert [e.batch_id for e in source.committed] == [0, 1, 2]
    assert [e.batch_id for e in source.planned] == [3]
    log = flow / "sources" / "0" / "1"
    log.write_text(log.read_text().replace("part", "trap"))
    with pytest.raises(Unreachable, match="has changed"):
        tuple(source.committed)
    log.unlink()
    with pytest.raises(Unreachable, match="is missing"):
        tuple(source.committed)


SINK_ENTRY = {
    "path": "file:///t/part-0.parquet",
    "size": 700,
    "isDir": False,
    "modificationTime": 1,
    "blockReplication": 1,
    "blockSize": 33554432,
    "action": "add",
}
SINK_LINE = st.builds(
    lambda changes, at, by, whole: (
        json.dumps({**SINK_ENTRY, **changes}, separators=(",", ":"), ensure_ascii=False)
        if whole
        else json.dumps({**SINK_ENTRY, **changes}, separators=(",", ":"))[:at] + by
    ),
    st.fixed_dictionaries({}, optional={"path": PATHS, "size": NUMBERS, "action": PATHS, "isDir": st.none()}),
    st.integers(0, 160),
    st.text(max_size=3),
    st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(SINK_LINE, max_size=5), sizes=st.lists(st.integers(1, 300), min_size=1, max_size=3))
def test_a_sink_s_log_is_whole_just_when_its_entries_can_be_read(lines: list[str], sizes: list[int]) -> None:
    data = "\n".join(["v1", *lines]).encode()
    try:
        filelog.parse_sink(data)
    except Malformed:
        with pytest.raises(Malformed):
            filelog.check_sink(cut(data, sizes))
        return
    filelog.check_sink(cut(data, sizes))
