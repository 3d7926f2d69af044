"""Every damage of the table is made, predicted and run: what `inspect` says is what Spark does.

RECORD_DAMAGES=1 pytest tests/integration/test_damages_on_spark.py    records the outcomes anew
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.damages.bases import Snapshots
from tests.damages.case import Case
from tests.damages.cases import CASES
from tests.damages.judge import judge
from tests.damages.record import Recorded, recorder

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def snapshots(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return Snapshots(spark, tmp_path_factory.mktemp("damages"))


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    yield from recorder()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_inspect_predicts_is_what_spark_does(
    snapshots: Snapshots, recorded: Recorded, case: Case
) -> None:
    seen = judge(snapshots.spark, snapshots, case)
    recorded.check(seen)
    assert seen.agree != bool(case.untold), seen
