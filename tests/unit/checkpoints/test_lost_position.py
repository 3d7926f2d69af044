"""A committed batch whose offset file is gone: its position is not known, and nothing is made up for it."""

from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint, repair, seed
from recovery.checkpoints.report import LostPosition
from recovery.checkpoints.seed import SourceStart
from recovery.errors import Refused
from recovery.sources import labels
from tests.checkpoint_builder import Built, dumps, put
from tests.refusals import refused
from tests.unit.checkpoints.judging import codes, drop
from tests.unit.checkpoints.seeding import free


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


def test_a_seed_needs_a_position_for_each_source_of_which_it_is_lost(lost: Path) -> None:
    report = inspect_checkpoint(str(lost))
    with refused("position_lost", Refused, names=("offsets/2", "endOffset")):
        seed.plan_seed(report, begins_at_given=True)
    with refused("position_lost", Refused):
        seed.plan_seed(report, starts=[SourceStart(0, 0, None)], begins_at_given=True)
    with refused("not_seedable", Refused):  # for state, what was read has to be known
        seed.plan_seed(report, starts=[SourceStart(0, 0, kafka_line(25))])


def test_a_seed_goes_on_after_the_committed_batch_from_the_position_that_was_given(lost: Path) -> None:
    plan = seed.plan_seed(
        inspect_checkpoint(str(lost)), starts=[SourceStart(0, 0, kafka_line(25))], begins_at_given=True
    )
    ready = seed.prepare_seed(str(lost), plan, recovery="R-1", fence=1, guard=free)
    seed.publish_checkpoint(str(lost), ready, guard=free)
    after = inspect_checkpoint(str(lost))
    assert not after.blockers
    assert (after.last_committed, after.last_planned) == (2, 2)
    assert [(s.offset_json, s.lost) for s in after.sources] == [(kafka_line(25), None)]
    assert (lost / "sources/0/0").read_bytes() == f"\0v1\n{kafka_line(0)}".encode()


def test_a_commit_that_follows_on_nothing_is_no_batch_to_go_on_after(lost: Path) -> None:
    put(lost / "commits/9", (lost / "commits/1").read_text())
    with refused("not_seedable", Refused):
        seed.plan_seed(
            inspect_checkpoint(str(lost)), starts=[SourceStart(0, 0, kafka_line(25))], begins_at_given=True
        )


def test_the_log_of_a_file_source_is_not_cut_at_a_position_that_was_given(tmp_path: Path) -> None:
    built = Built(tmp_path / "checkpoint", operators=()).write()
    drop(built.root, "offsets/2")
    starts = [SourceStart(0, 0, '{"logOffset":2}')]
    with refused("not_seedable", Refused):
        seed.plan_seed(inspect_checkpoint(str(built.root)), starts=starts, begins_at_given=True)
