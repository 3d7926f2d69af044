"""A Delta table as it was after an earlier batch, by its log alone: which version, what leaves it, what forbids it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.sinks.live import earlier
from tests.delta_tables import commit, table

QUERY, ROWS = "q-1", 3
Commit = Sequence[Mapping[str, Any]]


def add(name: str, *, moved: bool = False) -> Mapping[str, Any]:
    body = {"path": name, "size": 1, "modificationTime": 1, "partitionValues": {}, "dataChange": not moved}
    return {"add": {**body, "stats": f'{{"numRecords":{ROWS}}}'}}


def remove(name: str, *, moved: bool = False) -> Mapping[str, Any]:
    return {"remove": {"path": name, "dataChange": not moved}}


def batch(number: int, query: str = QUERY) -> Commit:
    return [{"txn": {"appId": query, "version": number}}, add(f"b{number}.parquet")]


OPTIMIZED: Commit = [remove("b0.parquet", moved=True), add("o.parquet", moved=True)]
DELETED: Commit = [remove("b0.parquet")]


def made(root: Path, *commits: Commit) -> str:
    place = table(root / "table", commits)
    for action in (a for one in commits for a in one if "add" in a):
        (place / action["add"]["path"]).write_bytes(b"1")
    return str(place)


def test_the_version_is_the_one_right_before_the_next_batch(tmp_path: Path) -> None:
    place = made(tmp_path, batch(0), batch(1), OPTIMIZED, batch(2), batch(3))
    found = earlier.of_delta(place, QUERY, 1)
    first = found.version
    assert first is not None
    assert found.now_version == first + 2
    assert (found.removed_batches, found.removed_files) == (2, 2)
    assert (found.kept_rows, found.rows, found.removed_rows) == (2 * ROWS, 4 * ROWS, 2 * ROWS)
    assert earlier.batch_at(place, QUERY, first) == 1
    assert earlier.batch_at(place, QUERY, first + 1) == 2


@pytest.mark.parametrize(
    ("commits", "batch_", "code"),
    [
        ((batch(0), batch(1), DELETED), 0, earlier.OTHER_WRITERS),
        ((batch(0), batch(1), batch(9, "q-2")), 0, earlier.OTHER_WRITERS),
        ((batch(0), batch(2)), 0, earlier.NOT_KEPT),
        ((batch(0), batch(1)), 1, earlier.NOT_KEPT),
        ((batch(0), batch(1, "q-2")), 0, earlier.NOT_KEPT),
    ],
    ids=[
        "rows deleted since",
        "another query since",
        "a number without a commit",
        "no later batch",
        "an older id",
    ],
)
def test_what_cannot_be_put_back_is_refused(
    tmp_path: Path, commits: tuple[Commit, ...], batch_: int, code: str
) -> None:
    place = made(tmp_path, *commits)
    with pytest.raises(Refused) as refusal:
        earlier.of_delta(place, QUERY, batch_)
    assert refusal.value.code == code


def test_files_that_vacuum_took_cannot_come_back(tmp_path: Path) -> None:
    place = made(tmp_path, batch(0), batch(1), batch(2))
    (Path(place) / "b0.parquet").unlink()
    with pytest.raises(Refused) as refusal:
        earlier.of_delta(place, QUERY, 1)
    assert refusal.value.code == earlier.NOT_KEPT


def restored(version: int) -> Commit:
    return [{"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": version}}}]


def test_the_log_tells_whether_a_restore_was_made(tmp_path: Path) -> None:
    place = Path(made(tmp_path, batch(0), batch(1), batch(2)))
    newest = max(int(p.stem) for p in (place / "_delta_log").glob("*.json"))
    asked = {"version": newest - 1, "after": newest}
    assert earlier.put_back_to(str(place), **asked) is None
    commit(place, newest + 1, *restored(newest - 1))
    assert earlier.put_back_to(str(place), **asked) == newest + 1
    with pytest.raises(Refused) as refusal:
        earlier.put_back_to(str(place), version=newest - 2, after=newest)
    assert refusal.value.code == "stale"
    commit(place, newest + 2, *batch(3))
    with pytest.raises(Refused) as refusal:
        earlier.put_back_to(str(place), **asked)
    assert refusal.value.code == "stale"
