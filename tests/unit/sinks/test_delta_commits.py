"""Which commits of a Delta table somebody else made, since it was last emptied."""

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.sinks.live.delta import TableCommit, commits_since, rows_added, written_by_others

MINE = {"q", "fill"}


EMPTIED = {"removes": True, "operation": "TRUNCATE"}
ATTEMPTS = (
    TableCommit(1, **EMPTIED),
    TableCommit(2, ("q1",), adds=True),
    TableCommit(3, **EMPTIED),
    TableCommit(4, ("q",), adds=True),
)


@pytest.mark.parametrize(
    ("commits", "strange"),
    [
        ((), ()),
        ((TableCommit(1, **EMPTIED), TableCommit(2), TableCommit(3, ("q",), adds=True)), ()),
        ((TableCommit(1, **EMPTIED), TableCommit(2, ("q",), adds=True), TableCommit(3, adds=True)), (3,)),
        ((TableCommit(1, ("other",), adds=True),), (1,)),
        ((TableCommit(1, adds=True), TableCommit(2, **EMPTIED), TableCommit(3, ("fill",), adds=True)), (1,)),
        (
            (
                TableCommit(1, **EMPTIED),
                TableCommit(2, ("q",), adds=True),
                TableCommit(3, adds=True, removes=True),
            ),
            (3,),
        ),
        (
            (
                TableCommit(1, **EMPTIED),
                TableCommit(2, adds=True),
                TableCommit(3, removes=True, operation="DELETE"),
            ),
            (2, 3),
        ),
        (ATTEMPTS, ()),
        ((*ATTEMPTS[:2], TableCommit(3, adds=True), TableCommit(4, **EMPTIED)), (3,)),
    ],
)
def test_whatever_changes_rows_but_the_plan_and_the_emptying_is_strange(
    commits: tuple[TableCommit, ...], strange: tuple[int, ...]
) -> None:
    assert written_by_others(commits, MINE) == strange


def commit(table: Path, version: int, *actions: dict[str, Any]) -> None:
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


def test_a_commit_tells_its_ids_its_note_and_the_rows_that_came(tmp_path: Path) -> None:
    file = {"path": "a", "size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {}}
    commit(tmp_path, 0, {"protocol": {}}, {"metaData": {"id": "t"}})
    commit(
        tmp_path, 1, {"commitInfo": {"userMetadata": "note", "operation": "WRITE"}},
        {"txn": {"appId": "fill", "version": 1}},
        {"add": {**file, "stats": '{"numRecords":4}'}}, {"remove": {"path": "b", "dataChange": False}},
    )  # fmt: skip
    assert commits_since(str(tmp_path), 0) == (TableCommit(1, ("fill",), True, False, "note", "WRITE"),)
    assert rows_added(str(tmp_path), 1) == 4
