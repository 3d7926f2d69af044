"""What a Delta table's log says came since a version: files with rows, files rewritten, or that it cannot tell."""

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Unreachable
from recovery.sinks.live import delta
from tests.delta_tables import add, commit, metadata, remove, table

VECTOR = {"pathOrInlineDv": "x", "cardinality": 1}
# commits after version 1 -> versions with files that came, whether these can be read by themselves, rewritten pairs
CAME: dict[str, tuple[list[list[dict[str, Any]]], list[tuple[int, tuple[str, ...]]], bool, list[tuple[str, str]]]] = {
    "nothing": ([], [], True, []),
    "rows in two commits": ([[add("n")], [add("m")]], [(3, ("n", "m"))], True, []),
    "a partition": (
        [[add("k=1/n", partitionValues={"k": "1"})]], [(2, ("k=1/n",))], True, []
    ),
    "a partition that its folder does not say": (
        [[add("n", partitionValues={"k": "1"})]], [(2, ("n",))], False, []
    ),
    "old files rewritten": (
        [[remove("a", dataChange=False), add("c", dataChange=False)]], [], True, [("a", "c")]
    ),
    "new files rewritten": (
        [[add("n")], [remove("n", dataChange=False), add("c", dataChange=False)]],
        [(2, ("n",))], True, [("n", "c")],
    ),
    "old and new in one file": (
        [[add("n")], [remove("a", dataChange=False), remove("n", dataChange=False), add("c", dataChange=False)]],
        [(2, ("n",))], True, [("a n", "c")],
    ),
    "rows marked as deleted purged": (
        [[remove("a", dataChange=False, deletionVector=VECTOR), add("c", dataChange=False)]], [], True, [("a", "c")]
    ),
    "rows at the side of files rewritten": (
        [[add("n"), remove("a", dataChange=False), add("c", dataChange=False)]],
        [(2, ("n",))], True, [("a", "c")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("commits", "came", "direct", "pairs"), CAME.values(), ids=CAME)
def test_the_files_that_came_and_those_that_were_rewritten(
    tmp_path: Path,
    commits: list[list[dict[str, Any]]],
    came: list[tuple[int, tuple[str, ...]]],
    direct: bool,
    pairs: list[tuple[str, str]],
) -> None:
    table(tmp_path, [[add("a")], [add("b")], *commits])
    found = delta.came_since(str(tmp_path), 1)
    assert found is not None
    assert list(found.written.versions) == came
    assert found.written.direct is direct
    named = [
        [[p for _, paths in side.versions for p in paths] for side in (r.gone, r.came)]
        for r in found.rewritten
    ]
    assert [(" ".join(gone), " ".join(came)) for gone, came in named] == pairs
    assert [r.gone.versions[0][0] + 1 for r in found.rewritten] == [
        r.came.versions[0][0] for r in found.rewritten
    ]


def renamed(physical: str, name: str, **more: Any) -> str:
    field = {
        "name": name,
        "type": "long",
        "nullable": True,
        "metadata": {"delta.columnMapping.physicalName": physical},
    }
    return json.dumps({"type": "struct", "fields": [field, *more.values()]})


TAKEN: dict[str, list[list[dict[str, Any]]]] = {
    "a file removed": [[remove("a")]],
    "the table overwritten": [[remove("a"), remove("b"), add("c")]],
    "rows marked as deleted": [[remove("a"), add("a", deletionVector=VECTOR)]],
    "a new file removed": [[add("n")], [remove("n")]],
    "a column renamed": [[metadata(schema=renamed("id", "key"))], [add("n")]],
    "a column in another's place": [[metadata(schema=renamed("col-2", "id"))]],
}


@pytest.mark.parametrize("commits", TAKEN.values(), ids=TAKEN)
def test_where_rows_went_or_columns_were_renamed_the_versions_have_to_be_compared(
    tmp_path: Path, commits: list[list[dict[str, Any]]]
) -> None:
    table(tmp_path, [[add("a")], [add("b")], *commits])
    assert delta.came_since(str(tmp_path), 1) is None


def test_a_column_that_came_takes_nothing_away(tmp_path: Path) -> None:
    more = {"name": "late", "type": "string", "nullable": True, "metadata": {}}
    table(tmp_path, [[add("a")], [], [metadata(schema=renamed("id", "id", late=more))], [add("n")]])
    found = delta.came_since(str(tmp_path), 1)
    assert found is not None
    assert found.written.versions == ((3, ("n",)),)


def test_files_of_a_table_with_renamed_columns_are_not_read_by_themselves(tmp_path: Path) -> None:
    table(tmp_path, [[add("a")], [add("n")]], **{"delta.columnMapping.mode": "name"})
    found = delta.came_since(str(tmp_path), 0)
    assert found is not None
    assert found.written.direct is False


def test_commits_that_are_gone_tell_nothing(tmp_path: Path) -> None:
    for version in (3, 4):
        commit(tmp_path, version, add("a"))
    with pytest.raises(Unreachable):
        delta.came_since(str(tmp_path), 1)
