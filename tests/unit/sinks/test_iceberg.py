"""What an Iceberg table remembers of the streams that write it."""

import json
from pathlib import Path
from typing import Any

from recovery.sinks.iceberg import IcebergSinkFacts
from recovery.sinks.live.iceberg import EPOCH, QUERY, read_table_facts


def snapshot(number: int, parent: int | None, **summary: str) -> dict[str, Any]:
    told = {"operation": "append", **summary}
    return {"snapshot-id": number, "parent-snapshot-id": parent, "timestamp-ms": number, "summary": told}


def table(where: Path, *snapshots: dict[str, Any]) -> str:
    body = {"current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else -1, "snapshots": snapshots}
    (where / "metadata").mkdir()
    (where / "metadata/v1.metadata.json").write_text(json.dumps(body))
    return str(where)


def test_the_newest_batch_of_each_query_is_in_the_history(tmp_path: Path) -> None:
    place = table(
        tmp_path,
        snapshot(1, None, **{QUERY: "q", EPOCH: "0"}),
        snapshot(2, 1, **{QUERY: "q", EPOCH: "7"}),
        snapshot(3, 2, **{QUERY: "other", EPOCH: "2"}),
        snapshot(8, 2, **{QUERY: "q", EPOCH: "99"}),  # rolled back: no ancestor of the current one
        snapshot(4, 3),
    )
    assert read_table_facts(place, query_id="q") == IcebergSinkFacts({"q": 7, "other": 2}, "q", False)
    assert read_table_facts(place, query_id="q").head == 7
    assert read_table_facts(place, query_id=None).head is None


def test_snapshots_that_were_expired_are_forgotten_and_that_is_said(tmp_path: Path) -> None:
    found = read_table_facts(table(tmp_path, snapshot(4, 3, **{QUERY: "other", EPOCH: "x"})), query_id="q")
    assert found == IcebergSinkFacts({}, "q", True)


def test_a_table_without_snapshots_remembers_nothing(tmp_path: Path) -> None:
    assert read_table_facts(table(tmp_path), query_id="q") == IcebergSinkFacts({}, "q", False)
