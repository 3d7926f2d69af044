"""Every damage of the table is made, predicted and run: what `inspect` says is what Spark does.

RECORD_DAMAGES=1 pytest tests/integration/test_damages_on_spark.py    records the outcomes anew
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.damages import record
from tests.damages.bases import Snapshots
from tests.damages.case import Case
from tests.damages.cases import CASES
from tests.damages.judge import Judged, judge

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def snapshots(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return Snapshots(spark, tmp_path_factory.mktemp("damages"))


@pytest.fixture(scope="module")
def recorded() -> Iterator[dict[str, dict[str, Any]] | list[dict[str, Any]]]:
    """Outcomes by damage; when recording, a list that is written at the end."""
    if not os.environ.get("RECORD_DAMAGES"):
        yield record.load()
        return
    rows: list[dict[str, Any]] = []
    yield rows
    record.save(rows)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_inspect_predicts_is_what_spark_does(
    snapshots: Snapshots, recorded: dict[str, dict[str, Any]] | list[dict[str, Any]], case: Case
) -> None:
    seen: Judged = judge(snapshots.spark, snapshots, case)

    if isinstance(recorded, list):
        recorded.append(seen.as_dict())
    else:
        assert seen.as_dict() == recorded[case.name]
    assert seen.agree != bool(case.untold), seen
