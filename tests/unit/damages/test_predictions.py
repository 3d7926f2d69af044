"""What `inspect` predicts of every damage is what Spark was seen to do, on the bytes that Spark wrote then.

tests/integration/test_damages_on_spark.py and test_more_damages_on_spark.py record, and ask Spark again.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.damages import frozen
from tests.damages.case import Case
from tests.damages.cases import CASES, MORE_CASES
from tests.damages.judge import Prediction, Snapshots, foretell
from tests.damages.record import load
from tests.damages.stories import STORIES, Story

ALL_CASES = [*CASES, *MORE_CASES]


@pytest.fixture(scope="module")
def record() -> dict[str, dict[str, Any]]:
    return load()


def assert_recorded(prediction: Prediction, row: dict[str, Any]) -> None:
    """A digest that differs says: the damage, or how Spark runs after it, is another than the one that was asked."""
    fields = {**asdict(prediction), "files": list(prediction.files), "codes": list(prediction.codes)}
    assert fields == {name: row[name] for name in fields}


@pytest.mark.parametrize("case", ALL_CASES, ids=[case.name for case in ALL_CASES])
def test_the_prediction_is_the_recorded_one(
    record: dict[str, dict[str, Any]], case: Case, tmp_path: Path
) -> None:
    assert_recorded(foretell(Snapshots(tmp_path).place(case.base), case), record[case.name])


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_the_prediction_of_several_queries_is_the_recorded_one(
    record: dict[str, dict[str, Any]], story: Story, tmp_path: Path
) -> None:
    frozen.lay_out(frozen.load(story.name), tmp_path / "story")
    assert_recorded(story.foretell(tmp_path / "story"), record[story.name])
