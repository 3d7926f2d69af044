"""A committed batch whose offset file is gone: its position is not known, and nothing is made up for it."""

from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint, repair
from recovery.checkpoints.report import LostPosition
from recovery.sources import labels
from tests.checkpoint_builder import Built, dumps, put
from tests.unit.checkpoints.judging import codes, drop


def kafka_line(at: int) -> str:
    return dumps({"readings": {"0": at}})


def built_kafka(root: Path, *lines: str) -> Built:
    """A checkpoint of one Kafka source whose batches ended at these lines."""
    built = Built(root, batches=len(lines), operators=()).write()
    for batch, line in enumerate(lines):
        header = built.offsets(batch).rsplit("\n", 1)[0]
        put(root / f"offsets/{batch}", f"{header}\n{line}")
        drop(root, f"sources/0/{batch}")
    put(root / "sources/0/0", f"\0v1\n{kafka_line(0)}")
    return built


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """Batches 0 to 2 are committed, at 10, 20 and 25; the offset file of the newest is gone."""
    built = built_kafka(tmp_path / "checkpoint", kafka_line(10), kafka_line(20), kafka_line(25))
    drop(built.root, "offsets/2")
    return built.root


def test_the_position_is_not_known_and_the_last_known_one_is_named(lost: Path) -> None:
    (source,) = inspect_checkpoint(str(lost)).sources
    assert (source.kind, source.offset_json) == ("kafka", None)
    assert source.lost == LostPosition(batch=2, known_batch=1, known_json=kafka_line(20))
    assert source.as_dict()["lost"] == {"batch": 2, "known_batch": 1, "known_json": kafka_line(20)}
    assert "not known" in labels.describe_progress(source)
    assert "readings partition 0 at 20" in labels.describe_progress(source)


@pytest.mark.parametrize("batches", [1, 3])
def test_a_known_position_is_not_lost(tmp_path: Path, batches: int) -> None:
    root = built_kafka(tmp_path / "checkpoint", *[kafka_line(n) for n in range(batches)]).root
    assert [s.lost for s in inspect_checkpoint(str(root)).sources] == [None]


def test_nothing_read_yet_is_not_lost(tmp_path: Path) -> None:
    root = built_kafka(tmp_path / "checkpoint", kafka_line(10)).root
    drop(root, "commits/0")
    (source,) = inspect_checkpoint(str(root)).sources
    assert (source.lost, source.first_json) == (None, kafka_line(0))


def test_where_no_earlier_batch_is_known_either_none_is_named(tmp_path: Path) -> None:
    root = built_kafka(tmp_path / "checkpoint", *[kafka_line(n) for n in (10, 20, 25)]).root
    drop(root, "commits/2")
    drop(root, "offsets/0")
    put(root / "offsets/1", "broken")
    (source,) = inspect_checkpoint(str(root)).sources
    assert source.lost == LostPosition(batch=1, known_batch=None, known_json=None)
    assert "not known" in labels.describe_progress(source)


def test_a_repair_makes_up_no_position_of_a_source_without_a_log_of_files(lost: Path) -> None:
    plan = repair.plan_repair(str(lost))
    assert not plan.complete
    assert {(damage.code, damage.file) for damage in plan.left} == {("COMMITS_AHEAD", "offsets/2")}
    assert not plan.mendings
    assert "Source 0" in plan.left[0].why


def test_the_entry_of_where_a_kafka_source_began_is_no_broken_log(tmp_path: Path) -> None:
    """Of two sources, the Kafka source has no line yet: a zero byte before the version tells whose entry that is."""
    built = Built(tmp_path / "checkpoint", batches=2, operators=()).write()
    for batch in range(2):
        put(built.root / f"offsets/{batch}", f"{built.offsets(batch)}\n-")
    put(built.root / "sources/1/0", f"\0v1\n{kafka_line(0)}")
    report = inspect_checkpoint(str(built.root))
    assert [(s.kind, s.first_json) for s in report.sources] == [("files", None), ("kafka", kafka_line(0))]
    assert "SOURCE_LOG_UNREADABLE" not in codes(built.root)
