"""How a Delta log is read: checkpoints of every form, holes, what a catalog keeps, and no more than is needed."""

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recovery import bounded
from recovery.checkpoints import deltalog
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import Store
from recovery.errors import Refused, Unreachable
from recovery.sources import delta
from recovery.sources.base import StartChoice
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.live import delta as live
from tests.delta_tables import EPOCH_MS, TABLE, add, commit, metadata, remove, table, txn
from tests.refusals import refused

VECTOR = pa.struct([("pathOrInlineDv", pa.string()), ("offset", pa.int32()), ("cardinality", pa.int64())])
FILE = pa.struct(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("deletionVector", VECTOR),
    ]
)
SCHEMA = pa.schema(
    {
        "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
        "add": FILE,
        "remove": pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())]),
        "metaData": pa.struct(
            [
                ("id", pa.string()),
                ("schemaString", pa.string()),
                ("configuration", pa.map_(pa.string(), pa.string())),
            ]
        ),
        "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        "sidecar": pa.struct([("path", pa.string())]),
    }
)


def line(version: int, index: int = -100) -> str:
    return DeltaOffset(TABLE, version, index).as_json()


def parquet(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), file)


def rows_of(*actions: dict[str, Any]) -> list[dict[str, Any]]:
    """Actions as a checkpoint in Parquet has them: maps are pairs."""
    found = json.loads(json.dumps(actions))
    for action in found:
        if "metaData" in action:
            action["metaData"]["configuration"] = list(action["metaData"]["configuration"].items())
    return list(found)


@pytest.fixture
def late(tmp_path: Path) -> Path:
    """Commits 3 and 4 only; a checkpoint of version 2 is to be put beside them."""
    for version in (3, 4):
        commit(tmp_path / "t", version, add(f"f{version}"))
    return tmp_path / "t"


HEAD = (
    metadata(**{"delta.x": "1"}),
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    txn("q", 9),
)
TAIL = (add("f0", 5), add("f1", 6), remove("gone"))


def classic(log: Path) -> None:
    parquet(log / f"{2:020}.checkpoint.parquet", rows_of(*HEAD, *TAIL))


def in_parts(log: Path) -> None:
    parquet(log / f"{2:020}.checkpoint.{1:010}.{2:010}.parquet", rows_of(*HEAD))
    parquet(log / f"{2:020}.checkpoint.{2:010}.{2:010}.parquet", rows_of(*TAIL))


def second(log: Path) -> None:
    name = f"{2:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
    parquet(log / name, rows_of(*HEAD, {"sidecar": {"path": "s1.parquet"}}))
    parquet(log / "_sidecars" / "s1.parquet", rows_of(*TAIL))


def second_as_json(log: Path) -> None:
    name = f"{2:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log / name).write_text("\n".join(json.dumps(a) for a in (*HEAD, {"sidecar": {"path": "s1.parquet"}})))
    parquet(log / "_sidecars" / "s1.parquet", rows_of(*TAIL))


@pytest.mark.parametrize("form", [classic, in_parts, second, second_as_json])
def test_a_table_is_read_from_a_checkpoint_of_any_form(late: Path, form: Any) -> None:
    form(late / "_delta_log")
    log = deltalog.list_log(Store.open(str(late)))
    assert log
    assert (log.earliest, log.latest) == (3, 4)
    state = deltalog.table_state(log, 4, files=True)
    assert (state.table_id, state.properties, state.txns["q"].version) == (TABLE, {"delta.x": "1"}, 9)
    assert {f.path: f.rows for f in state.files.values()} == {"f0": 5, "f1": 6, "f3": 2, "f4": 2}
    assert deltalog.table_state(log, 4).files == {}


def test_a_checkpoint_that_lacks_a_part_is_none(late: Path) -> None:
    log = late / "_delta_log"
    in_parts(log)
    (log / f"{2:020}.checkpoint.{1:010}.{2:010}.parquet").unlink()
    with refused("log_gap", Unreachable, names=("commit 0",)):
        live.read_table(str(late), offsets=[None], options={})


def test_a_hole_in_the_log_bounds_what_can_be_read(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add(f"f{n}")] for n in range(6)])
    parquet(where / "_delta_log" / f"{4:020}.checkpoint.parquet", rows_of(*HEAD))
    (where / "_delta_log" / f"{2:020}.json").unlink()
    facts = live.read_table(str(where), offsets=[line(1)], options={}, look=False)
    assert (facts.earliest, facts.latest, sorted(facts.commits)) == (3, 5, [3, 4, 5])
    assert "2 versions from 1 on are no longer in the log" in delta.judge_reach(line(1), facts).why


@pytest.mark.parametrize("text", ["{", '"add"', "[1]", '{"add":'])
def test_a_commit_that_is_cut_short_is_one_clear_sentence(tmp_path: Path, text: str) -> None:
    where = table(tmp_path / "t", [[add("a")], [add("b")]])
    (where / "_delta_log" / f"{1:020}.json").write_text(text)
    with pytest.raises(Unreachable, match="cannot be read: "):
        live.read_table(str(where), offsets=[line(0)], options={})


def test_commits_that_only_a_catalog_knows_are_not_passed_over(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add("a")]])
    staged = where / "_delta_log" / "_staged_commits"
    staged.mkdir()
    (staged / f"{1:020}.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text("{}")
    with pytest.raises(Unreachable, match="with its catalog"):
        live.read_table(str(where), offsets=[None], options={})


def test_a_place_without_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with refused("no_delta_table", Unreachable):
        live.read_table(str(tmp_path / "t"), offsets=[None], options={})


def test_only_commits_from_the_earliest_position_on_are_opened_and_never_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = table(tmp_path / "t", [[add(f"f{n}")] for n in range(8)])
    parquet(where / "_delta_log" / f"{7:020}.checkpoint.parquet", rows_of(*HEAD))
    opened: list[int] = []
    plain = deltalog.read_actions

    def watched(log: deltalog.DeltaLog, version: int) -> list[deltalog.Action]:
        opened.append(version)
        return plain(log, version)

    monkeypatch.setattr(deltalog, "read_actions", watched)
    facts = live.read_table(str(where), offsets=[line(5), line(6)], options={}, look=False)
    assert (opened, len(facts.times)) == ([5, 6, 7], 8)
    opened.clear()
    commit(where, 8, add("f8"))
    again = live.read_table(str(where), offsets=[line(5)], options={}, look=False, known=facts)
    assert sorted(again.commits) == [5, 6, 7, 8]
    assert 5 not in opened
    assert again.commits[5] is facts.commits[5]
    other = live.read_table(
        str(where), offsets=[line(5)], options={"readChangeFeed": "true"}, look=False, known=facts
    )
    assert other.commits[5] is not facts.commits[5]


def test_more_files_than_can_be_held_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_ACTIONS", 3)
    where = table(tmp_path / "t", [[add(f"f{n}{m}") for m in range(2)] for n in range(2)])
    with refused("too_large", Refused):
        live.read_table(str(where), offsets=[line(0)], options={})


def test_rows_without_statistics_are_read_from_the_files_and_their_names_are_decoded(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add("k=a%20b/x.parquet", None)], [add("gone.parquet", None)]])
    (where / "k=a b").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), where / "k=a b" / "x.parquet")
    facts = live.read_table(str(where), offsets=[line(0)], options={})
    assert [f.rows for v in (0, 1) for f in facts.commits[v].files] == [3, None]
    assert (facts.gone, facts.looked) == ({"gone.parquet"}, True)


def test_many_files_are_compared_with_one_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "FEW_FILES", 1)
    where = table(tmp_path / "t", [[add("a%20b"), add("c"), add("d")]])
    for name in ("a b", "c"):
        (where / name).write_text("x")
    facts = live.read_table(str(where), offsets=[line(0)], options={})
    assert facts.gone == {"d"}


def test_files_of_another_table_are_not_said_to_be_gone(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add("file:/elsewhere/a")]])
    facts = live.read_table(str(where), offsets=[line(0)], options={})
    assert (facts.gone, facts.looked) == (frozenset(), False)
    assert delta.judge_reach(line(0), facts).readable is None


def test_commit_times_never_go_back(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[], [], []])
    for version, second in enumerate((50, 40, 45)):
        os.utime(where / "_delta_log" / f"{version:020}.json", (second, second))
    assert live.read_table(str(where), offsets=[None], options={}).times == {0: 50_000, 1: 50_001, 2: 50_002}


def test_times_within_the_commits_are_taken_where_the_table_keeps_them(tmp_path: Path) -> None:
    commits = [[{"commitInfo": {"inCommitTimestamp": EPOCH_MS + n}}, add(f"f{n}")] for n in range(3)]
    where = table(tmp_path / "t", commits, **{"delta.enableInCommitTimestamps": "true"})
    facts = live.read_table(str(where), offsets=[line(1)], options={}, look=False)
    assert facts.times == {1: EPOCH_MS + 1, 2: EPOCH_MS + 2}


ROWS = {
    '{"numRecords":3,"nullCount":{"id":0}}': 3,
    '{"maxValues":{"numRecords":77},"nullCount":{"numRecords":0},"numRecords":3}': 3,
    ' { "numRecords" : 3 , "minValues":{"numRecords":5}}': 3,
    '{"nullCount":{"numRecords":4}}': None,
    '{"tightBounds":true}': None,
    '{"numRec': None,
    "[1]": None,
    "": None,
}


@pytest.mark.parametrize("stats", ROWS)
def test_rows_are_those_of_the_file_and_not_of_a_column_with_that_name(stats: str) -> None:
    assert deltalog.rows_of(stats) == ROWS[stats]
    assert deltalog.rows_of(None) is None


NONE_OF_DELTAS = (
    {"add": {"size": 1}},
    {"add": {"path": "a", "size": "big"}},
    {"add": {"path": "a", "size": float("inf")}},
    {"add": {"path": "a", "stats": {"numRecords": 3}}},
    {"add": {"path": "a", "size": 1, "partitionValues": [1]}},
    {"add": "a"},
    {"remove": {"path": "a", "deletionTimestamp": "x"}},
    {"commitInfo": {"inCommitTimestamp": "soon"}},
    {"txn": {"appId": "x"}},
    {"metaData": {"id": TABLE, "schemaString": "{}", "configuration": [1]}},
)


@pytest.mark.parametrize("action", NONE_OF_DELTAS, ids=lambda action: json.dumps(action)[:60])
def test_an_action_that_is_none_of_deltas_is_said_with_its_file(
    tmp_path: Path, action: dict[str, Any]
) -> None:
    where = table(tmp_path / "t", [[add("a")], [action]])
    with pytest.raises(
        Unreachable, match=r"00000000000000000001\.json holds an action that is not one of Delta's"
    ):
        live.read_table(str(where), offsets=[line(1)], options={})


@pytest.mark.parametrize("schema", [None, "[]", "soon", '{"fields":[1]}'])
def test_a_schema_that_is_none_is_said(tmp_path: Path, schema: str | None) -> None:
    where = table(tmp_path / "t", [[add("a")], [{"metaData": {"id": TABLE, "schemaString": schema}}]])
    with pytest.raises(Unreachable, match="cannot be read"):
        live.read_table(str(where), offsets=[line(1)], options={})


def test_actions_that_are_null_are_none(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add("a")], [{"add": None, "remove": None, "commitInfo": None}, add("b")]])
    facts = live.read_table(str(where), offsets=[line(1)], options={"readChangeFeed": "true"}, look=False)
    assert [f.path for f in facts.commits[1].files] == ["b"]


IN_COMMIT = {
    "delta.enableInCommitTimestamps": "TRUE",
    "delta.inCommitTimestampEnablementVersion": "2",
    "delta.inCommitTimestampEnablementTimestamp": str(EPOCH_MS + 2000),
}


@pytest.mark.parametrize(
    ("after_ms", "version"), [(2000, 2), (2500, 3), (3000, 3), (3500, 4), (4001, 5), (1999, 0), (-5000, 0)]
)
def test_a_time_is_looked_for_among_commits_that_tell_their_own_once_the_table_has_them(
    tmp_path: Path, after_ms: int, version: int
) -> None:
    """The log was copied: the files of versions 0 and 1 are younger than every time that a commit tells itself."""
    own = [[], [], *([{"commitInfo": {"inCommitTimestamp": EPOCH_MS + 1000 * n}}] for n in (2, 3, 4))]
    where = table(tmp_path / "t", [[*told, add(f"f{n}")] for n, told in enumerate(own)], **IN_COMMIT)
    for n in range(5):
        os.utime(where / "_delta_log" / f"{n:020}.json", (EPOCH_MS / 1000 + 9000 + n,) * 2)
    facts = live.read_table(str(where), offsets=[line(0)], options={}, look=False)
    found = delta.find_position(StartChoice(at_ms=EPOCH_MS + after_ms), line(0), facts)
    assert found.offset_json == line(version)
    assert (found.lost.seconds is None) is (version >= 2)  # no difference of two clocks


def test_a_time_of_commits_that_were_not_opened_is_refused(tmp_path: Path) -> None:
    own = [[], [], *([{"commitInfo": {"inCommitTimestamp": EPOCH_MS + 1000 * n}}] for n in (2, 3, 4))]
    where = table(tmp_path / "t", [[*told, add(f"f{n}")] for n, told in enumerate(own)], **IN_COMMIT)
    facts = live.read_table(str(where), offsets=[line(4)], options={}, look=False)
    with refused("time_not_in_log", Refused, names=("version 4",)):
        delta.find_position(StartChoice(at_ms=EPOCH_MS + 2500), line(4), facts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 30 days", 30 * 86_400_000),
        ("INTERVAL 1 week 2 days", 9 * 86_400_000),
        ("2 hours 30 minutes", 9_000_000),
        ("interval 1 month", None),
        ("soon", None),
    ],
)
def test_a_property_of_time_is_read_as_delta_reads_it(text: str, expected: int | None) -> None:
    assert deltalog.interval_ms(text) == expected


def test_a_table_in_an_object_store_is_read_the_same(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add(f"f{n}", n)] for n in range(5)])
    memory = fsspec.filesystem("memory")
    memory.rm("/lake", recursive=True) if memory.exists("/lake") else None
    for file in (where / "_delta_log").iterdir():
        memory.pipe_file(f"/lake/t/_delta_log/{file.name}", file.read_bytes())
    memory.pipe_file("/lake/t/f4", b"x")
    facts = live.read_table("memory://lake/t", offsets=[line(3)], options={})
    found = delta.measure_distance(line(3), line(5), facts)
    assert found.rows
    assert (found.rows.value, facts.gone) == (7, {"f3"})


def test_a_checkpoint_whose_text_is_packed_beyond_reason_is_refused(late: Path) -> None:
    """Equal texts take no room in Parquet, and all of it in memory."""
    statistics = json.dumps(
        {"numRecords": 1, "x": "y" * (2 * deltalog.LARGEST_ROWS // deltalog.ROWS_AT_ONCE)}
    )
    adds = [{"add": {**add(f"f{n}")["add"], "stats": statistics}} for n in range(deltalog.ROWS_AT_ONCE)]
    parquet(late / "_delta_log" / f"{2:020}.checkpoint.parquet", rows_of(*HEAD, *adds))
    log = deltalog.list_log(Store.open(str(late)))
    with pytest.raises(Malformed):
        deltalog.table_state(log, 2, files=True)


def test_a_commit_of_more_values_than_are_read_is_refused(
    late: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltalog, "require_values", partial(bounded.require_values, most=50))
    log = deltalog.list_log(Store.open(str(late)))
    commit(late, 4, *(add(f"f{n}") for n in range(50)))
    with pytest.raises(Malformed):
        deltalog.read_actions(log, 4)
    assert deltalog.read_actions(log, 3)
