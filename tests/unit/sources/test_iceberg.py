"""Positions in an Iceberg table, and its history as its metadata tells it."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Refused, Unreachable
from recovery.sources import iceberg
from recovery.sources.base import Distance, PartMove, Precision, StartChoice
from recovery.sources.iceberg import IcebergSourceFacts, TableSnapshot
from recovery.sources.live.iceberg import read_table_facts as ask
from tests.unit.sources.test_contract import snapshot_line as line

CHAIN = tuple(TableSnapshot(n, 1000 * n, "append", 2, 10, 100) for n in (1, 2, 3, 4))
KNOWN = IcebergSourceFacts(CHAIN, frozenset({9}), asked_ms=9000)
CHANGED = IcebergSourceFacts(
    (CHAIN[0], TableSnapshot(2, 2000, "delete"), TableSnapshot(3, 3000, "overwrite", 1), CHAIN[3])
)


@pytest.mark.parametrize(
    ("start", "end", "away"),
    [
        (line(1, 2), line(3, 0), Distance(Amount(value=10), Amount(value=2), Amount(value=100))),
        (line(1, 0), line(4, 2), Distance(Amount(value=40), Amount(value=8), Amount(value=400))),
        (None, line(1, 2), Distance(Amount(value=10), Amount(value=2), Amount(value=100))),
        (line(-1, -1), line(1, 2), Distance(Amount(value=10), Amount(value=2), Amount(value=100))),
        (line(1, 2), line(2, 0), Distance(Amount(value=0), Amount(value=0), Amount(value=0))),
        (line(7, 0), line(2, 0), Distance()),
        (line(1, 1, True), line(2, 0), Distance()),
    ],
)
def test_what_lies_between(start: str | None, end: str, away: Distance) -> None:
    assert iceberg.measure_distance(start, end, KNOWN) == away


def test_a_part_of_a_snapshot_is_an_estimate_of_rows_and_exact_in_files() -> None:
    found = iceberg.measure_distance(line(1, 1), line(2, 0), KNOWN)
    assert found.files == Amount(value=1)
    assert found.rows == Amount(
        value=5, bound=Bound.ESTIMATE, why="the files of one snapshot are taken as equally large"
    )


def test_compaction_adds_nothing() -> None:
    chain = (*CHAIN[:2], TableSnapshot(3, 3000, "replace", 1, 20, 150), CHAIN[3])
    assert iceberg.measure_distance(line(2, 2), line(4, 2), IcebergSourceFacts(chain)).rows == Amount(
        value=10
    )


@pytest.mark.parametrize(
    ("at", "facts", "readable", "says"),
    [
        (line(4, 2), KNOWN, True, "current one, which is never expired"),
        (line(2, 0), KNOWN, True, "may take it from"),
        (line(7, 0), KNOWN, False, "was expired or removed"),
        (line(9, 0), KNOWN, False, "rolled back or branched"),
        (
            line(1, 0),
            IcebergSourceFacts((CHAIN[0], TableSnapshot(2, 2000, "delete"))),
            False,
            "streaming-skip-delete-snapshots",
        ),
        (line(1, 0), IcebergSourceFacts(), None, "was not read"),
        (line(4, 3, True), KNOWN, True, "current one, which is never expired"),
        (line(2, 3, True), KNOWN, True, "may take it from"),
        (line(7, 3, True), KNOWN, False, "was expired or removed"),
        (line(1, 0), CHANGED, False, "2 snapshots that follow overwrite or delete rows"),
        (line(1, 0), replace(CHANGED, skips=frozenset({"delete"})), False, "1 snapshot that follow"),
        (
            line(1, 0),
            replace(CHANGED, skips=frozenset({"delete", "overwrite"})),
            True,
            "options pass over them",
        ),
    ],
)
def test_what_can_still_be_read(at: str, facts: IcebergSourceFacts, readable: bool | None, says: str) -> None:
    found = iceberg.judge_reach(at, facts)
    assert found.readable is readable
    assert says in found.why
    assert (found.until_ms is not None) == ("may take" in found.why)


@pytest.mark.parametrize(
    ("at", "facts", "time", "precision", "doubled", "missed"),
    [
        (line(2, 0), KNOWN, "2000", Precision.EXACT, 0, 0),
        (line(2, 2), KNOWN, "3000", Precision.EXACT, 0, 0),
        (line(4, 2), KNOWN, "4001", Precision.EXACT, 0, 0),
        (line(2, 1), KNOWN, "2000", Precision.AT_LEAST_ONCE, 5, 0),
        # Two snapshots of one time: the option finds the newer one, a millisecond earlier finds the older one.
        (
            line(2, 0),
            IcebergSourceFacts((CHAIN[0], CHAIN[1], TableSnapshot(3, 2000, "append", 2, 10))),
            "1999",
            Precision.EXACT,
            0,
            0,
        ),
        (
            line(2, 0),
            IcebergSourceFacts(
                (TableSnapshot(1, 1999, "append", 2, 10), CHAIN[1], TableSnapshot(3, 2000, "append", 2, 10))
            ),
            "1999",
            Precision.AT_LEAST_ONCE,
            10,
            0,
        ),
    ],
)
def test_the_option_starts_at_whole_snapshots(
    at: str, facts: IcebergSourceFacts, time: str, precision: Precision, doubled: int, missed: int
) -> None:
    found = iceberg.find_start_option(at, facts)
    assert found.options == {"stream-from-timestamp": time}
    assert found.precision is precision
    assert (found.doubled and found.doubled.value, found.missed) == (doubled, Amount(value=missed))


@pytest.mark.parametrize("at", [line(7, 0), line(2, 1, True)])
def test_no_option_for_a_snapshot_that_is_gone_or_a_first_reading(at: str) -> None:
    assert not iceberg.find_start_option(at, KNOWN).supported


@pytest.mark.parametrize(
    ("wanted", "to", "moved", "lost", "reread"),
    [
        (StartChoice(at_ms=3000), line(3, 0), PartMove.FORWARD, 10, 0),
        (StartChoice(at_ms=2001), line(3, 0), PartMove.FORWARD, 10, 0),
        (StartChoice(version=1), line(1, 0), PartMove.BACK, 0, 10),
        (StartChoice(earliest=True), line(1, 0), PartMove.BACK, 0, 10),
        (StartChoice(latest=True), line(4, 2), PartMove.FORWARD, 30, 0),
        (StartChoice(by_hand=line(2, 0)), line(2, 0), PartMove.SAME, 0, 0),
    ],
)
def test_a_wish_says_what_it_costs(
    wanted: StartChoice, to: str, moved: PartMove, lost: int, reread: int
) -> None:
    found = iceberg.find_position(wanted, line(2, 0), KNOWN)
    assert (found.offset_json, found.changes[0].moved) == (to, moved)
    assert (found.lost.rows, found.reread.rows) == (Amount(value=lost), Amount(value=reread))


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (StartChoice(at_ms=4001), "the newest is of"),
        (StartChoice(version=7), "none of the 4"),
        (StartChoice(by_hand=line(9, 0)), "not in the table's history"),
        (StartChoice(by_hand=line(2, 3)), "has 2 files; the offset names 3"),
        (StartChoice(file="x"), "cannot be positioned by a file"),
    ],
)
def test_a_wish_out_of_bounds_is_refused_with_the_bounds(wanted: StartChoice, says: str) -> None:
    with pytest.raises(Refused, match=says):
        iceberg.find_position(wanted, line(2, 0), KNOWN)


def test_a_time_before_the_history_says_what_is_taken() -> None:
    assert (
        "is before the oldest snapshot"
        in iceberg.find_position(StartChoice(at_ms=5), line(2, 0), KNOWN).fallbacks["table"]
    )


def snapshot(number: int, parent: int | None, operation: str = "append") -> dict[str, Any]:
    summary = {
        "operation": operation,
        "added-data-files": "2",
        "added-records": "10",
        "added-files-size": "100",
    }
    body = {"snapshot-id": number, "timestamp-ms": 1000 * number, "summary": summary}
    return body if parent is None else {**body, "parent-snapshot-id": parent}


def metadata(**more: Any) -> dict[str, Any]:
    return {
        "format-version": 2,
        "table-uuid": "7b1e",
        "current-snapshot-id": 4,
        "snapshots": [snapshot(9, 2), snapshot(1, None), snapshot(2, 1), snapshot(3, 2), snapshot(4, 3)],
        "properties": {"history.expire.max-snapshot-age-ms": "5000"},
        **more,
    }


def table(where: Path, name: str, data: bytes) -> Path:
    (where / "metadata").mkdir(exist_ok=True)
    (where / "metadata" / name).write_bytes(data)
    return where


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("v12.metadata.json", False),
        ("00012-0a1b.metadata.json", False),
        ("00012-0a1b.gz.metadata.json", True),
        ("00012-0a1b.metadata.json.gz", True),
    ],
)
def test_the_history_is_read_from_the_newest_metadata(tmp_path: Path, name: str, packed: bool) -> None:
    data = json.dumps(metadata()).encode()
    table(tmp_path, "v3.metadata.json", b"{}")
    table(tmp_path, "snap-1.avro", b"")
    table(tmp_path, name, gzip.compress(data, mtime=0) if packed else data)
    found = ask(str(tmp_path), asked_ms=9000)
    assert found == IcebergSourceFacts(CHAIN, frozenset({9}), 5000, 9000, "7b1e")
    assert ask(str(tmp_path), asked_ms=9000, metadata="v3.metadata.json") == IcebergSourceFacts(asked_ms=9000)


def test_the_history_ends_where_snapshots_were_expired_and_where_it_goes_round(tmp_path: Path) -> None:
    told = metadata(snapshots=[snapshot(3, 2), snapshot(4, 3)])
    assert (
        ask(str(table(tmp_path, "v1.metadata.json", json.dumps(told).encode())), asked_ms=0).chain
        == CHAIN[2:]
    )
    round_ = metadata(snapshots=[snapshot(3, 4), snapshot(4, 3)])
    assert (
        len(ask(str(table(tmp_path, "v2.metadata.json", json.dumps(round_).encode())), asked_ms=0).chain) == 2
    )


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        (None, b"", "has no directory metadata"),
        ("other.json", b"{}", "no metadata file of an Iceberg table"),
        ("v1.metadata.json", b"{", "cannot be read"),
        ("v1.metadata.json", b"\x1f\x8bxx", "cannot be read"),
        ("v1.metadata.json", gzip.compress(b"{}", mtime=0)[:-4], "cannot be read"),
        ("v1.metadata.json", b'{"snapshots":[{}]}', "a snapshot has no snapshot-id"),
        ("v1.metadata.json", b'{"snapshots":[5]}', "a snapshot has no snapshot-id"),
        ("v1.metadata.json", b'{"snapshots":{}}', None),
    ],
)
def test_what_is_no_table_is_one_sentence(
    tmp_path: Path, name: str | None, data: bytes, says: str | None
) -> None:
    if name:
        table(tmp_path, name, data)
    if says is None:
        assert ask(str(tmp_path), asked_ms=0).chain == ()
        return
    with pytest.raises(Unreachable, match=says):
        ask(str(tmp_path), asked_ms=0)


@pytest.mark.parametrize(
    ("options", "skips"),
    [
        ({}, set()),
        ({"streaming-skip-delete-snapshots": "true"}, {"delete"}),
        (
            {"Streaming-Skip-Overwrite-Snapshots": True, "streaming-skip-delete-snapshots": "false"},
            {"overwrite"},
        ),
    ],
)
def test_which_snapshots_a_reader_passes_over(options: dict[str, Any], skips: set[str]) -> None:
    assert iceberg.list_skipped_kinds(options) == skips
