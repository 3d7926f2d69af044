"""What is read of state, on copies of what real Spark wrote; tests/integration/test_state_on_spark.py asks Spark."""

import shutil
from pathlib import Path

import fsspec
import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.report import CheckpointReport, Column, Severity, StateOperator
from tests.state_checkpoints import CASES, FIXTURES, unpack
from tests.state_damages import DAMAGES, RUNS, Damage, take_back

JOIN = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
# case -> operators by id: name, partitions, stores, layout, state format, metadata version, rows
READ: dict[str, list[tuple[object, ...]]] = {
    "hdfs-aggregate": [("stateStoreSave", 2, ("default",), "hdfs", 1, 1, None)],
    "hdfs-global-aggregate": [("stateStoreSave", 1, ("default",), "hdfs", 1, 1, None)],
    "hdfs-join": [("symmetricHashJoin", 2, JOIN, "hdfs", 1, 1, None)],
    "hdfs-limit": [("globalLimit", 1, ("default",), "hdfs", 1, 1, None)],
    "hdfs-pandas-state": [("applyInPandasWithState", 2, ("default",), "hdfs", 1, 1, None)],
    "hdfs-session-window": [("sessionWindowStateStoreSaveExec", 2, ("default",), "hdfs", 1, 1, None)],
    "hdfs-two-operators": [
        ("stateStoreSave", 2, ("default",), "hdfs", 1, 1, None),
        ("dedupe", 2, ("default",), "hdfs", 1, 1, None),
    ],
    "hdfs-within-watermark": [("dedupeWithinWatermark", 2, ("default",), "hdfs", 1, 1, None)],
    "rocksdb-2": [("dedupe", 2, ("default",), "rocksdb", 2, 1, 10)],
    "rocksdb-2-join": [("symmetricHashJoin", 2, JOIN, "rocksdb", 2, 1, None)],
    "rocksdb-2-transform": [("transformWithStateInPandasExec", 2, ("default",), "rocksdb", 2, 2, None)],
    "rocksdb-changelog-later": [("dedupe", 2, ("default",), "rocksdb", 1, 1, None)],
    "rocksdb-dedupe": [("dedupe", 2, ("default",), "rocksdb", 1, 1, 10)],
    "rocksdb-join": [("symmetricHashJoin", 2, JOIN, "rocksdb", 1, 1, 28)],
    "rocksdb-join-3": [("symmetricHashJoin", 2, ("default",), "rocksdb", 1, 2, 28)],
    "rocksdb-transform": [("transformWithStateInPandasExec", 2, ("default",), "rocksdb", 1, 2, 36)],
}


def read(name: str, to: Path, *, deep: bool = False) -> CheckpointReport:
    return inspect_checkpoint(str(unpack(name, to)), deep=deep)


def of_state(report: CheckpointReport) -> set[str]:
    return {f.code for f in report.findings if f.code.startswith(("STATE", "OPERATOR"))}


def said(o: StateOperator) -> tuple[object, ...]:
    return (o.name, o.partitions, o.stores, o.layout, o.state_format, o.metadata_version, o.rows)


@pytest.mark.parametrize("name", READ)
def test_operators_say_what_they_are_and_how_their_state_is_kept(tmp_path: Path, name: str) -> None:
    assert [said(o) for o in read(name, tmp_path).state_operators] == READ[name]


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_what_spark_wrote_is_sound_to_the_last_byte(tmp_path: Path, name: str) -> None:
    report = read(name, tmp_path, deep=True)
    assert of_state(report) == set()
    for operator in report.state_operators:
        assert report.last_committed is not None
        assert operator.version == report.last_committed + 1
        assert operator.back == tuple(range(report.last_committed + 1))
        assert [g.version for g in operator.growth] == list(range(1, operator.version + 1))


def test_every_case_has_its_archive_and_every_archive_its_case() -> None:
    assert {p.name.removesuffix(".tar.xz") for p in FIXTURES.iterdir()} == {c.name for c in CASES}


@pytest.mark.parametrize(
    ("name", "families"),
    [
        ("hdfs-aggregate", {"default": ({"k": "bigint"}, {"sum": "bigint", "max": "string"})}),
        ("hdfs-global-aggregate", {"default": ({}, {"count": "bigint"})}),
        (
            "hdfs-session-window",
            {
                "default": (
                    {"k": "bigint", "sessionStartTime": "timestamp"},
                    {
                        "session_window": "struct<start:timestamp,end:timestamp>",
                        "k": "bigint",
                        "count": "bigint",
                    },
                )
            },
        ),
        (
            "rocksdb-transform",
            {
                "$rowCounter_seen": ({"k": "bigint"}, {"count": "bigint"}),
                "count": ({"k": "bigint"}, {"n": "bigint"}),
                "names": ({"key": "struct<k:bigint>", "userKey": "struct<name:string>"}, {"v": "bigint"}),
                "seen": ({"k": "bigint"}, {"v": "bigint"}),
            },
        ),
    ],
)
def test_columns_of_keys_and_values_have_names_and_types(
    tmp_path: Path, name: str, families: dict[str, tuple[dict[str, str], dict[str, str]]]
) -> None:
    def plain(columns: tuple[Column, ...]) -> dict[str, str]:
        return {c.name: c.type for c in columns}

    schemas = read(name, tmp_path).state_operators[0].schemas
    assert {s.family: (plain(s.key), plain(s.value)) for s in schemas} == families


def test_the_variables_of_transform_with_state_are_told(tmp_path: Path) -> None:
    operator = read("rocksdb-transform", tmp_path).state_operators[0]
    kinds = {v["stateName"]: v["stateVariableType"] for v in operator.properties["stateVariables"]}
    assert kinds == {"count": "ValueState", "seen": "ListState", "names": "MapState"}
    assert (operator.properties["timeMode"], operator.properties["outputMode"]) == ("NoTime", "Update")


def test_a_size_is_that_of_the_files_without_the_hidden_checksums_of_hadoop(tmp_path: Path) -> None:
    operator = read("rocksdb-2", tmp_path).state_operators[0]
    files = [p for p in (tmp_path / "state").rglob("*") if p.is_file() and not p.name.startswith(".")]
    assert operator.size_bytes == sum(p.stat().st_size for p in files)
    assert operator.files == sum(p.suffix in (".zip", ".sst") for p in files)
    assert sum(g.size_bytes for g in operator.growth) == sum(
        p.stat().st_size for p in files if p.suffix == ".zip"
    )


# What the disk does not show: Spark itself deletes and reads files, so these need a running query.
PREDICTED = [d for d in DAMAGES if not d.name.startswith("nothing")]


@pytest.mark.parametrize("damage", PREDICTED, ids=[d.name for d in PREDICTED])
def test_a_damage_is_predicted_as_it_was_seen_on_spark(tmp_path: Path, damage: Damage) -> None:
    root = unpack(damage.case, tmp_path / "checkpoint")
    damage.do(root)
    report = inspect_checkpoint(str(root), deep=damage.deep)
    assert of_state(report) == set(damage.code.split())
    blocked = any(f.severity is Severity.BLOCKER for f in report.findings if f.code in damage.code.split())
    assert not damage.code or blocked == (damage.spark != RUNS)


def test_batches_that_can_still_be_gone_back_to_end_at_a_hole(tmp_path: Path) -> None:
    root = unpack("hdfs-dedupe", tmp_path)
    (root / "state/0/1/3.delta").unlink()
    report = inspect_checkpoint(str(root))
    assert report.state_operators[0].back == (0, 1)
    (found,) = [f for f in report.findings if f.code == "STATE_FILE_MISSING"]
    assert "to batch 1" in found.do


def test_no_batch_to_go_back_to_is_named_where_none_is_whole(tmp_path: Path) -> None:
    root = unpack("hdfs-dedupe", tmp_path)
    for version in (1, 2, 3):
        (root / f"state/0/1/{version}.delta").unlink()
    report = inspect_checkpoint(str(root))
    assert report.state_operators[0].back == ()
    (found,) = [f for f in report.findings if f.code == "STATE_FILE_MISSING"]
    assert "batch" not in found.do


def test_damage_that_only_a_deep_look_sees_ends_what_can_be_gone_back_to(tmp_path: Path) -> None:
    root = unpack("hdfs-dedupe", tmp_path)
    file = root / "state/0/0/2.delta"
    file.write_bytes(file.read_bytes()[:40])
    assert inspect_checkpoint(str(root)).state_operators[0].back == (0, 1, 2, 3)
    assert inspect_checkpoint(str(root), deep=True).state_operators[0].back == (0,)


def test_damage_of_a_file_that_a_restart_does_not_read_is_a_warning(tmp_path: Path) -> None:
    root = unpack("rocksdb-dedupe", tmp_path)
    (root / "state/0/0/2.zip").write_bytes(b"PK")
    report = inspect_checkpoint(str(root), deep=True)
    assert [(f.code, f.file) for f in report.findings] == [("STATE_OLD_FILE_DAMAGED", "state/0/0/2.zip")]
    assert report.state_operators[0].back == (0, 2, 3)


def test_a_checkpoint_that_has_committed_nothing_needs_no_state(tmp_path: Path) -> None:
    root = unpack("hdfs-dedupe", tmp_path)
    for batch in range(4):
        (root / f"commits/{batch}").unlink()
        if batch:
            (root / f"offsets/{batch}").unlink()
    shutil.rmtree(root / "state/0/1")
    assert of_state(inspect_checkpoint(str(root))) == set()


def test_a_planned_batch_loads_the_version_that_its_number_says(tmp_path: Path) -> None:
    root = unpack("hdfs-dedupe", tmp_path)
    (root / "commits/3").unlink()
    (root / "state/0/0/4.delta").unlink()  # what the planned batch had begun to write
    report = inspect_checkpoint(str(root))
    assert report.state_operators[0].version == 3
    assert of_state(report) == set()


def test_a_moved_checkpoint_names_its_schemas_at_a_place_that_is_gone(tmp_path: Path) -> None:
    report = inspect_checkpoint(str(unpack("rocksdb-transform", tmp_path, moved=True)))
    assert of_state(report) == {"STATE_SCHEMA_GONE"}
    assert report.state_operators[0].schemas  # they are shown all the same: the copies are here


def test_what_a_task_of_spark_2_left_behind_is_of_a_known_kind(tmp_path: Path) -> None:
    root = unpack("hdfs-dedupe", tmp_path / "checkpoint")
    for name in ("temp-5127582179119164398", "temp--34182579119164398"):
        (root / "state/0/1" / name).write_bytes(b"")
    assert of_state(inspect_checkpoint(str(root))) == set()


def test_files_of_an_unknown_kind_are_said_and_not_judged(tmp_path: Path) -> None:
    root = unpack("hdfs-dedupe", tmp_path)
    (root / "state/0/0/5.parquet").write_bytes(b"newer")
    (found,) = inspect_checkpoint(str(root)).findings
    assert (found.code, found.file) == ("STATE_FILE_UNKNOWN", "state/0/0/5.parquet")


def test_state_is_read_from_any_store(tmp_path: Path) -> None:
    root = unpack("rocksdb-2-snapshots", tmp_path)
    memory = fsspec.filesystem("memory")
    memory.put(str(root), "/bucket/ck", recursive=True)
    try:
        here, there = (
            inspect_checkpoint(str(root), deep=True),
            inspect_checkpoint("memory://bucket/ck", deep=True),
        )
    finally:
        memory.rm("/bucket", recursive=True)
    assert there.state_operators == here.state_operators
    assert there.findings == here.findings == ()


def test_progress_is_told_of_every_state_file_and_by_the_caller_s_own_thread(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    root = unpack("rocksdb-2-join", tmp_path)
    report = inspect_checkpoint(str(root), deep=True, progress=lambda done, total: seen.append((done, total)))
    files = report.state_operators[0].files
    assert seen == [(n, files) for n in range(1, files + 1)]


def test_who_is_told_of_progress_can_end_it(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Enough

    root = unpack("rocksdb-2-join", tmp_path)
    with pytest.raises(Enough):
        inspect_checkpoint(str(root), deep=True, progress=stop)


@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("hdfs-dedupe-snapshots", {"STATE_AHEAD"}),
        ("rocksdb-changelog-snapshots", {"STATE_AHEAD"}),
        ("rocksdb-2-snapshots", set()),  # ids tell old from new
        ("rocksdb-dedupe", set()),  # every version writes its zip over the old one
        ("hdfs-dedupe", set()),
    ],
)
def test_a_snapshot_of_batches_that_were_taken_back_in_place_is_found(
    tmp_path: Path, case: str, codes: set[str]
) -> None:
    root = unpack(case, tmp_path)
    take_back(root, 0)
    report = inspect_checkpoint(str(root))
    assert of_state(report) == codes
    assert {f.code for f in report.blockers} == codes
