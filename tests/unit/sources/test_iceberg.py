"""Positions in an Iceberg table, and its history as its metadata tells it."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Unreachable
from recovery.sources import iceberg
from recovery.sources.base import Distance
from recovery.sources.comparing import ZERO
from recovery.sources.iceberg import IcebergSourceFacts, TableSnapshot
from recovery.sources.live.iceberg import read_table_facts as ask
from tests.unit.sources.test_contract import snapshot_line as line

CHAIN = tuple(TableSnapshot(n, 1000 * n, "append", 2, 10, 100) for n in (1, 2, 3, 4))
KNOWN = IcebergSourceFacts(CHAIN, frozenset({9}))
CHANGED = IcebergSourceFacts(
    (CHAIN[0], TableSnapshot(2, 2000, "delete"), TableSnapshot(3, 3000, "overwrite", 1), CHAIN[3])
)


def amounts(rows: int, files: int, size: int) -> Distance:
    return Distance(Amount(value=rows), Amount(value=files), Amount(value=size))


@pytest.mark.parametrize(
    ("at", "facts", "waiting"),
    [
        (line(3, 2), KNOWN, amounts(10, 2, 100)),
        (line(1, 0), KNOWN, amounts(40, 8, 400)),
        (None, KNOWN, amounts(40, 8, 400)),
        (line(-1, -1), KNOWN, amounts(40, 8, 400)),
        (line(4, 2), KNOWN, ZERO),
        (
            line(3, 2),
            IcebergSourceFacts((*CHAIN[:3], TableSnapshot(4, 4000, "append", 0, 0, 0))),
            amounts(0, 0, 0),
        ),
        (line(7, 0), KNOWN, Distance()),
        (line(1, 1, True), KNOWN, Distance()),
        (line(1, 0), IcebergSourceFacts(), Distance()),
        (line(1, 0), IcebergSourceFacts((CHAIN[0], TableSnapshot(2, 2000))), Distance()),
        # Compaction adds nothing.
        (
            line(2, 2),
            IcebergSourceFacts((*CHAIN[:2], TableSnapshot(3, 3000, "replace", 1, 20, 150), CHAIN[3])),
            amounts(10, 2, 100),
        ),
    ],
)
def test_what_waits_up_to_the_newest_snapshot(
    at: str | None, facts: IcebergSourceFacts, waiting: Distance
) -> None:
    assert iceberg.measure_waiting(at, facts) == waiting


def test_a_part_of_a_snapshot_is_an_estimate_of_rows_and_exact_in_files() -> None:
    found = iceberg.measure_waiting(line(4, 1), KNOWN)
    assert found.files == Amount(value=1)
    assert found.rows == Amount(
        value=5, bound=Bound.ESTIMATE, why="the files of one snapshot are taken as equally large"
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
            "options skip them",
        ),
    ],
)
def test_what_can_still_be_read(at: str, facts: IcebergSourceFacts, readable: bool | None, says: str) -> None:
    found = iceberg.judge_reach(at, facts)
    assert found.readable is readable
    assert says in found.why
    assert (found.until_ms is not None) == ("may take" in found.why)


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
    assert ask(str(tmp_path)) == IcebergSourceFacts(CHAIN, frozenset({9}), 5000)


def test_the_history_ends_where_snapshots_were_expired_and_where_it_goes_round(tmp_path: Path) -> None:
    told = metadata(snapshots=[snapshot(3, 2), snapshot(4, 3)])
    assert ask(str(table(tmp_path, "v1.metadata.json", json.dumps(told).encode()))).chain == CHAIN[2:]
    round_ = metadata(snapshots=[snapshot(3, 4), snapshot(4, 3)])
    assert len(ask(str(table(tmp_path, "v2.metadata.json", json.dumps(round_).encode()))).chain) == 2


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
        assert ask(str(tmp_path)).chain == ()
        return
    with pytest.raises(Unreachable, match=says):
        ask(str(tmp_path))


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
