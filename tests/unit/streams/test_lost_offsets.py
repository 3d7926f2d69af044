"""What a diagnosis recommends for a lost offset file is what a repair can do."""

from pathlib import Path

import pytest

from recovery.checkpoints.repair import plan_repair
from recovery.workflow.diagnosing import diagnose_flow
from tests.checkpoint_builder import Built
from tests.unit.checkpoints.judging import drop
from tests.unit.eventlogs import logs
from tests.unit.streams.running_streams import adopted

pytestmark = pytest.mark.django_db
TWO_RUNS = [{"class_name": "java.lang.AssertionError", "message": "[CONCURRENT_STREAM_LOG_UPDATE] Batch 2."}]


@pytest.mark.parametrize(
    ("sources", "lost", "is_rebuilt"),
    [(1, "offsets/2", True), (2, "offsets/2", False), (2, "offsets/1", True)],
    ids=["newest, one source", "newest, two sources", "the one before"],
)
def test_a_repair_is_recommended_where_it_can_rebuild_the_file(
    tmp_path: Path, sources: int, lost: str, is_rebuilt: bool
) -> None:
    built = Built(tmp_path / "data" / "orders", query_id=logs.QUERY, batches=3, sources=sources).write()
    drop(built.root, lost)
    stream, _ = adopted(built)
    stream.pipeline.flows.update(error=TWO_RUNS)
    plan = plan_repair(str(built.root))
    assert plan.complete is is_rebuilt
    reasons = [damage.why for damage in plan.left]
    found = diagnose_flow(stream.pipeline.flows.get())
    assert found.damaged == lost
    assert list(found.do[:1]) == (reasons or [plan.before.blockers[0].do])
