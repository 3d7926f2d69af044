"""The second half of the table of damages: sinks that are code, shared sources, transformWithState and what no
other case finds. The session is a classic one of its own: Spark's tool for repartitioning is not in Connect.

Bases of the first half are taken as they were recorded: this session goes on from what another one wrote.

RECORD_DAMAGES=1 pytest -n0 tests/integration/test_more_damages_on_spark.py    records the outcomes and bases anew
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.damages.bases_more import MORE
from tests.damages.case import Case
from tests.damages.cases_more import MORE_CASES
from tests.damages.frozen import load, shape
from tests.damages.judge import Snapshots, judge
from tests.damages.record import RECORDING, MadeBases, Recorded, recorder
from tests.damages.stories import STORIES, Story
from tests.state_checkpoints import session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    spark = session(tmp_path_factory.mktemp("warehouse"))
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def made(classic: Any, tmp_path_factory: pytest.TempPathFactory) -> MadeBases:
    return MadeBases(classic, tmp_path_factory.mktemp("made"), MORE)


@pytest.fixture(scope="module")
def snapshots(made: MadeBases, tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    return Snapshots(tmp_path_factory.mktemp("damages"), made)


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    yield from recorder()


@pytest.mark.parametrize("case", MORE_CASES, ids=[case.name for case in MORE_CASES])
def test_what_inspect_predicts_is_what_spark_does(
    classic: Any, snapshots: Snapshots, recorded: Recorded, case: Case
) -> None:
    seen = judge(classic, snapshots, case)
    recorded.check(seen)
    assert seen.agree != bool(case.untold), seen


@pytest.mark.parametrize("name", MORE)
def test_spark_writes_what_was_recorded(made: MadeBases, name: str) -> None:
    assert shape(made(name)) == shape(load(name))


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_what_is_predicted_of_several_queries_is_what_spark_does(
    classic: Any, recorded: Recorded, story: Story, tmp_path: Path
) -> None:
    seen = story.judge(classic, tmp_path, record=RECORDING)
    recorded.check(seen)
    assert seen.agree, seen
