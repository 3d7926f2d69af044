"""A crash in the very first batch: how it is judged, and what begins again from it."""

import json
from pathlib import Path

import pytest

from recovery.checkpoints import beginning, inspect_checkpoint, seed
from recovery.checkpoints.report import CheckpointReport, Severity
from recovery.checkpoints.table_progress import is_first_batch_open, stand_at_beginning
from recovery.errors import Refused
from tests.checkpoint_builder import Built, put, sink_log
from tests.refusals import refused
from tests.unit.checkpoints.seeding import free, tree

KAFKA = '{"clicks":{"0":7}}'


def crashed(folder: Path, **words: object) -> Path:
    Built(folder / "flow/0", batches=0, planned=1, **words).write()  # type: ignore[arg-type]
    return folder / "flow"


def of_kafka(folder: Path, first: str = f"\0v1\n{KAFKA}") -> Path:
    """Its source began at 7 and planned a batch up to 9."""
    flow = crashed(folder)
    lines = (flow / "0/offsets/0").read_text().split("\n")
    put(flow / "0/offsets/0", "\n".join([*lines[:2], '{"clicks":{"0":9}}']))
    put(flow / "0/sources/0/0", first)
    return flow


def begun(flow: Path, sources: tuple[int | None, ...] = (0,)) -> CheckpointReport:
    plan = beginning.plan_beginning(inspect_checkpoint(str(flow)), sources)
    ready = beginning.prepare_beginning(str(flow), plan, recovery="R-1", fence=1, guard=free)
    seed.publish_checkpoint(str(flow), ready, guard=free)
    return inspect_checkpoint(str(flow))


@pytest.mark.parametrize("operators", [(), ("dedupe",)])
def test_the_first_batch_is_named_when_it_is_planned_and_nothing_is_committed(
    tmp_path: Path, operators: tuple[str, ...]
) -> None:
    report = inspect_checkpoint(str(crashed(tmp_path, operators=operators)))
    assert (report.last_committed, report.last_planned, report.blockers) == (None, 0, ())
    assert [(f.code, f.severity) for f in report.findings] == [("FIRST_BATCH_PLANNED", Severity.INFO)]
    assert is_first_batch_open(report)


@pytest.mark.parametrize(("batches", "planned"), [(1, 0), (1, 1), (0, 2)])
def test_where_any_other_batch_was_planned_or_one_committed_it_is_not_the_first(
    tmp_path: Path, batches: int, planned: int
) -> None:
    Built(tmp_path / "flow/0", batches=batches, planned=planned).write()
    report = inspect_checkpoint(str(tmp_path / "flow"))
    assert "FIRST_BATCH_PLANNED" not in {f.code for f in report.findings}
    with refused("not_the_first_batch", Refused):
        beginning.plan_beginning(report, (0,))


def test_a_first_batch_that_the_table_has_does_not_begin_again(tmp_path: Path) -> None:
    sink_log(tmp_path / "table", 0)
    report = inspect_checkpoint(str(crashed(tmp_path)), sink=str(tmp_path / "table"))
    assert {f.code for f in report.findings} == {"FIRST_BATCH_PLANNED", "SINK_UNCOMMITTED_BATCH"}
    with refused("not_the_first_batch", Refused):
        beginning.plan_beginning(report, (0,))


def test_what_begins_again_holds_a_new_query_id_and_nothing_of_the_attempt(tmp_path: Path) -> None:
    flow = crashed(tmp_path)
    before = tree(flow / "0")
    report = begun(flow)
    assert set(tree(flow / "1")) == {"metadata"}
    assert tree(flow / "0") == before
    assert report.query_id != json.loads(before["metadata"])["id"]
    seen = (report.version, report.last_committed, report.last_planned, report.findings)
    assert seen == (1, None, None, ())


def test_a_kafka_source_keeps_where_it_began_under_its_new_number(tmp_path: Path) -> None:
    flow = of_kafka(tmp_path)
    report = inspect_checkpoint(str(flow))
    assert [(s.kind, s.offset_json, s.first_json) for s in report.sources] == [("kafka", None, KAFKA)]
    assert [s.offset_json for s in stand_at_beginning(report).sources] == [KAFKA]
    begun(flow, (None, 0))
    assert tree(flow / "1").keys() == {"metadata", "sources/1/0"}
    assert (flow / "1/sources/1/0").read_bytes() == (flow / "0/sources/0/0").read_bytes()


def test_a_kafka_source_whose_beginning_cannot_be_read_stands_nowhere(tmp_path: Path) -> None:
    report = inspect_checkpoint(str(of_kafka(tmp_path, "lost")))
    assert [f.code for f in report.findings if f.code != "FIRST_BATCH_PLANNED"] == ["KAFKA_START_UNREADABLE"]
    assert [(s.kind, s.first_json) for s in report.sources] == [("kafka", None)]
    assert beginning.plan_beginning(report, (0,)).kept == ()


def test_it_is_taken_back_until_the_first_batch_is_committed(tmp_path: Path) -> None:
    flow = crashed(tmp_path)
    begun(flow)
    put(flow / "1/offsets/0", (flow / "0/offsets/0").read_text())
    assert seed.undo_refusal(str(flow), recovery="R-1", sink_head=None) is None
    put(flow / "1/commits/0", 'v1\n{"nextBatchWatermarkMs":0}')
    assert seed.undo_refusal(str(flow), recovery="R-1", sink_head=0) is not None
    (flow / "1/commits/0").unlink()
    seed.undo_publish(str(flow), recovery="R-1", sink_head=None)
    assert inspect_checkpoint(str(flow)).version == 0


def test_a_checkpoint_with_one_fixed_place_begins_again_in_it(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=0, planned=1).write()
    report = begun(tmp_path / "ck")
    assert (report.version, report.last_planned, report.findings) == (None, None, ())
    assert set(tree(tmp_path / "ck")) == {"metadata"}


@pytest.mark.parametrize("version", [1, 2])
def test_a_seed_goes_on_after_a_first_batch_that_the_table_alone_has(tmp_path: Path, version: int) -> None:
    flow = crashed(tmp_path, version=version)
    sink_log(tmp_path / "table", 0)
    plan = seed.plan_seed(inspect_checkpoint(str(flow), sink=str(tmp_path / "table")))
    ready = seed.prepare_seed(str(flow), plan, recovery="R-1", fence=1, guard=free)
    seed.publish_checkpoint(str(flow), ready, guard=free)
    assert tree(flow / "1").keys() == {"metadata", "offsets/0", "commits/0", "sources/0/0"}
    report = inspect_checkpoint(str(flow), sink=str(tmp_path / "table"))
    assert (report.last_committed, report.last_planned, report.findings) == (0, 0, ())
    assert [s.log_offset for s in report.sources] == [0]
