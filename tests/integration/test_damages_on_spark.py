"""Every damage of the table is made, predicted and run: what `inspect` says is what Spark does.

`tests/unit/damages` judges the predictions every day against what was recorded here; a few rows are asked of Spark
every day too, so that a record that no longer holds is seen.

RECORD_DAMAGES=1 pytest -n0 tests/integration/test_damages_on_spark.py    records the outcomes and bases anew
"""

from collections.abc import Iterator
from typing import Any

import pytest

from recovery.checkpoints.report import Outcome
from tests.damages.bases import BASES
from tests.damages.case import Case
from tests.damages.cases import CASES
from tests.damages.frozen import load, shape
from tests.damages.judge import Snapshots, judge
from tests.damages.record import RECORDING, MadeBases, Recorded, recorder
from tests.damages.record import load as load_record

pytestmark = pytest.mark.spark
# Each outcome once, and a damage that nobody can predict.
EVERY_DAY = (
    "nothing (RocksDB, commits in format 2)",
    "newest delta with a flipped bit",
    "newest log entry holds its version line alone",
    "an empty checkpoint over the old table",
    "an entry of the table's log missing",
    "as Spark 2.1 left it",
)


@pytest.fixture(scope="module")
def two_partitions(spark: Any) -> Any:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark


@pytest.fixture(scope="module")
def made(two_partitions: Any, tmp_path_factory: pytest.TempPathFactory) -> MadeBases:
    return MadeBases(two_partitions, tmp_path_factory.mktemp("made"), BASES)


@pytest.fixture(scope="module")
def snapshots(made: MadeBases, tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    return Snapshots(tmp_path_factory.mktemp("damages"), made)


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    yield from recorder()


def test_each_outcome_is_asked_of_spark_every_day() -> None:
    record = load_record()
    outcomes = {record[name]["outcome"] for name in EVERY_DAY}
    assert outcomes == {o.value for o in Outcome if o not in (Outcome.UNKNOWN, Outcome.OPEN)}


@pytest.mark.skipif(RECORDING, reason="the record is being made")
@pytest.mark.parametrize("name", EVERY_DAY)
def test_what_was_recorded_is_what_spark_still_does(
    two_partitions: Any, recorded: Recorded, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    (case,) = (case for case in CASES if case.name == name)
    recorded.check(judge(two_partitions, Snapshots(tmp_path_factory.mktemp("frozen")), case))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_inspect_predicts_is_what_spark_does(
    two_partitions: Any, snapshots: Snapshots, recorded: Recorded, case: Case
) -> None:
    seen = judge(two_partitions, snapshots, case)
    recorded.check(seen)
    assert seen.agree != bool(case.untold), seen


@pytest.mark.parametrize("name", BASES)
def test_spark_writes_what_was_recorded(made: MadeBases, name: str) -> None:
    assert shape(made(name)) == shape(load(name))
