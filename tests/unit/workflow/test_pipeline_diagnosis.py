"""The diagnosis of a whole pipeline advises only what its workspace can do."""

import pytest

from recovery.contracts.diagnosis import ChainedError
from recovery.contracts.names import Strategy
from recovery.models import Workspace
from recovery.pipelines.failures import FailurePhase, UpdateFailure
from recovery.workflow.diagnosing import diagnose_pipeline
from tests import factories

pytestmark = pytest.mark.django_db
FAILURE = UpdateFailure(
    "u-1",
    FailurePhase.BEFORE,
    condition="STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    causes=(
        ChainedError(
            class_name="org.apache.spark.sql.streaming.StreamingQueryException",
            message="[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator",
        ),
    ),
)


@pytest.mark.parametrize(("kind", "is_advised"), [("pipelines", True), ("streams", False)])
def test_a_replay_of_state_is_advised_only_where_pipelines_run(kind: str, is_advised: bool) -> None:
    pipeline = factories.pipeline()
    Workspace.objects.filter(pk=pipeline.workspace_id).update(kind=kind)
    pipeline.workspace.refresh_from_db()
    advised = {advice.strategy for advice in diagnose_pipeline(pipeline, FAILURE).advice}
    assert Strategy.CONTINUE in advised
    assert (Strategy.REBUILD in advised) is is_advised
