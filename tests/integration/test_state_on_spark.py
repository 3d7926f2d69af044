"""State that real Spark writes: read as Spark's own reader reads it, and damaged, predicted, restarted.

What is seen here is recorded in tests/state_damages.py and in the copies below tests/fixtures/checkpoints;
tests/unit/checkpoints/state judges the same by them every day.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.held import held_states
from recovery.checkpoints.report import Severity
from tests.state_checkpoints import CASES, Case, put, run, session, write
from tests.state_damages import DAMAGES, RUNS, Damage, bare, flip_each, take_back

pytestmark = pytest.mark.spark
BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    opened = session(tmp_path_factory.mktemp("warehouse"))
    yield opened
    opened.stop()


@pytest.fixture(scope="module")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Case, Path, Path]]:
    """case name -> (case, root where it lives, a copy of its checkpoint); each is written once."""
    root = tmp_path_factory.mktemp("state")
    kept: dict[str, Path] = {}

    def get(name: str) -> tuple[Case, Path, Path]:
        case = BY_NAME[name]
        if name not in kept:
            checkpoint = write(spark, case, root)
            put(root / name / "in", case.batches + case.more)  # what the next restart will read
            kept[name] = checkpoint.with_name("copy")
            shutil.copytree(checkpoint, kept[name])
        return case, root, kept[name]

    return get


@pytest.mark.parametrize("damage", DAMAGES, ids=[d.name for d in DAMAGES])
def test_what_is_predicted_of_state_is_what_spark_does(
    spark: Any, written: Callable[[str], tuple[Case, Path, Path]], damage: Damage
) -> None:
    case, root, copy = written(damage.case)
    checkpoint = root / case.name / "checkpoint"
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    damage.do(checkpoint)
    report = inspect_checkpoint(str(checkpoint), deep=damage.deep)
    codes = {f.code for f in report.findings if f.code.startswith(("STATE", "OPERATOR"))}
    blocked = any(f.severity is Severity.BLOCKER for f in report.findings if f.code in codes)

    failure = ""
    try:
        run(spark, case, root, case.later)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"

    assert bool(failure) == (damage.spark != RUNS), failure[:1500]
    assert re.search(damage.spark, failure), failure[:1500]
    assert codes == set(damage.code.split()), report.findings
    if damage.code:
        assert blocked == bool(failure), (codes, failure[:300])


@pytest.mark.parametrize(("keys", "fails"), [(range(100, 104), False), (range(10), True)])
def test_a_damaged_block_stops_the_query_when_a_key_in_it_is_asked_for_and_no_older_state_is_taken(
    spark: Any, written: Callable[[str], tuple[Case, Path, Path]], keys: range, fails: bool
) -> None:
    """The zip's base would do without: an older state and all changes after it are there."""
    case, root, copy = written("rocksdb-changelog-snapshots")
    checkpoint = root / case.name / "checkpoint"
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    flip_each(checkpoint, "state/0/*/SSTs/*", 10)
    codes = {
        f.code for f in inspect_checkpoint(str(checkpoint), deep=True).findings if f.code.startswith("STATE")
    }
    assert codes == {"STATE_BLOCK_DAMAGED"}
    put(root / case.name / "in", 99, keys)
    failure = ""
    try:
        run(spark, case, root, case.later)
    except Exception as error:
        failure = str(error)
    finally:
        (root / case.name / "in" / "099.json").unlink()
    assert ("block checksum mismatch" in failure) == bool(failure) == fails, failure[:1500]


READ = ("hdfs-join", "hdfs-two-operators", "rocksdb-2-changelog", "rocksdb-2-limit", "rocksdb-transform")


@pytest.mark.parametrize("name", READ)
def test_operators_are_those_that_spark_s_own_reader_shows(
    spark: Any, written: Callable[[str], tuple[Case, Path, Path]], name: str
) -> None:
    case, root, copy = written(name)
    checkpoint = root / case.name / "checkpoint"
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    shown = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    report = inspect_checkpoint(str(checkpoint))
    assert {(r.operatorId, r.operatorName, r.stateStoreName) for r in shown} == {
        (o.operator_id, o.name, store) for o in report.state_operators for store in o.stores
    }
    for row in shown:
        operator = report.state_operators[row.operatorId]
        alone = operator.name == "globalLimit"  # says two partitions and runs in one
        assert operator.partitions == (1 if alone else row.numPartitions)
        assert operator.back[-1] == row.maxBatchId == report.last_committed
        assert operator.back[0] == row.minBatchId


# Spark 4.2's own reader of rows takes a format 2 name for a number and fails, so format 1 stands for both.
@pytest.mark.parametrize("name", ["rocksdb-dedupe", "rocksdb-aggregate", "rocksdb-join"])
def test_rows_and_columns_are_those_of_spark_s_own_reader(
    spark: Any, written: Callable[[str], tuple[Case, Path, Path]], name: str
) -> None:
    case, root, copy = written(name)
    checkpoint = root / case.name / "checkpoint"
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    operator = inspect_checkpoint(str(checkpoint)).state_operators[0]
    stores = [s for s in operator.stores if "keyToNumValues" not in s]
    count = 0
    for store in stores:
        frame = spark.read.format("statestore").option("storeName", store).load(str(checkpoint))
        count += frame.count()
        schema = next(s for s in operator.schemas if s.store == store)
        kinds = dict(frame.select("key.*").dtypes)
        assert {c.name: c.type for c in schema.key} == kinds
        assert {c.name: c.type for c in schema.value} == dict(frame.select("value.*").dtypes)
    assert operator.rows == count


@pytest.mark.parametrize("name", ["hdfs-window", "hdfs-session-window", "rocksdb-changelog-later"])
def test_entries_are_as_many_as_spark_s_own_reader_finds(
    spark: Any, written: Callable[[str], tuple[Case, Path, Path]], name: str
) -> None:
    case, root, copy = written(name)
    checkpoint = root / case.name / "checkpoint"
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    report = inspect_checkpoint(str(checkpoint))
    (held,) = held_states(str(checkpoint), report.state_operators, batch=report.last_committed, limit=1 << 30)
    assert held.entries == spark.read.format("statestore").load(str(checkpoint)).count() > 0


def emitted(spark: Any, case: Case, root: Path) -> list[int]:
    """Keys that the query gives out when it goes on."""
    found: list[int] = []
    run(spark, case, root, case.later, lambda batch, _: found.extend(r.k for r in batch.collect()))
    return sorted(found)


@pytest.mark.parametrize("mended", [False, True], ids=["as it is", "later snapshots deleted"])
def test_a_rollback_in_place_takes_the_old_snapshot_for_its_state_without_an_error(
    spark: Any, written: Callable[[str], tuple[Case, Path, Path]], mended: bool
) -> None:
    case, root, copy = written("hdfs-dedupe-snapshots")
    checkpoint, inputs = root / case.name / "checkpoint", root / case.name / "in"
    kept = root / case.name / "kept"
    shutil.copytree(inputs, kept, dirs_exist_ok=True)
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    take_back(checkpoint, 1)
    try:
        for file in sorted(inputs.iterdir())[2:]:  # what was read then is other data now
            file.unlink()
        assert "STATE_AHEAD" in {f.code for f in inspect_checkpoint(str(checkpoint)).blockers}
        if mended:
            for file in checkpoint.glob("state/0/*/*.snapshot"):
                bare(file).unlink()
            assert inspect_checkpoint(str(checkpoint)).findings == ()
        for number in (50, 51, 52):
            put(inputs, number, [number])
        assert emitted(spark, case, root) == [50, 51, 52]
        put(inputs, 90, [0, 1, 2, 3, 4, 8, 9, 50, 51, 52])  # 8 and 9 are new, the others were seen
        assert emitted(spark, case, root) == ([8, 9] if mended else [50, 51])
    finally:
        shutil.rmtree(inputs)
        kept.rename(inputs)
