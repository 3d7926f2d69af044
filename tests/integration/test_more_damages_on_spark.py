"""The second half of the table of damages: sinks that are code, shared sources, transformWithState and what no
other case finds. The session is a classic one of its own: Spark's tool for repartitioning is not in Connect.

RECORD_DAMAGES=1 pytest tests/integration/test_more_damages_on_spark.py    records the outcomes anew
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.damages.bases import BASES, Snapshots
from tests.damages.bases_more import MORE
from tests.damages.case import Case
from tests.damages.cases_more import MORE_CASES
from tests.damages.judge import judge
from tests.damages.record import Recorded, recorder
from tests.damages.stories import STORIES, Story
from tests.state_checkpoints import session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshots]:
    spark = session(tmp_path_factory.mktemp("warehouse"))
    yield Snapshots(spark, tmp_path_factory.mktemp("damages"), {**BASES, **MORE})
    spark.stop()


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    yield from recorder()


@pytest.mark.parametrize("case", MORE_CASES, ids=[case.name for case in MORE_CASES])
def test_what_inspect_predicts_is_what_spark_does(
    snapshots: Snapshots, recorded: Recorded, case: Case
) -> None:
    seen = judge(snapshots.spark, snapshots, case)
    recorded.check(seen)
    assert seen.agree != bool(case.untold), seen


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_what_is_predicted_of_several_queries_is_what_spark_does(
    snapshots: Snapshots, recorded: Recorded, story: Story, tmp_path: Path
) -> None:
    seen = story.tell(snapshots.spark, tmp_path)
    recorded.check(seen)
    assert seen.agree, seen
