"""Which code a verdict takes a flow to run, while a recovery is open."""

from datetime import UTC, datetime, timedelta

import pytest

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import CheckpointReport
from recovery.models import Plan, Recovery, Step
from recovery.workflow.verdicts import code_operators, verdict_on
from tests.factories.plans import plan_body
from tests.unit.workflow.rows import flow, plan, recovery

pytestmark = pytest.mark.django_db

BEGAN = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
BEFORE, AFTER = ((BEGAN + timedelta(minutes=m)).isoformat() for m in (-5, 5))
SEALED = {"code_operators": ["dedupe"]}


def with_rerun(rerun: str, *, gathered: str, body: dict[str, list[str]], seen: str = "ok") -> Recovery:
    """Its code had no stateful step when facts were gathered; its plan's rerun began at 3:00."""
    one = recovery("needs_attention", flow=flow(seen))
    sealed = plan(one, "rerun")
    Plan.objects.filter(pk=sealed.pk).update(body=plan_body(**body))
    began = None if rerun == "pending" else BEGAN
    Step.objects.filter(plan=sealed).update(state=rerun, started_at=began)
    one.facts = {"status": "ready", "code_operators": [], "at": gathered}
    return one


@pytest.mark.parametrize(
    ("rerun", "gathered", "body", "operators"),
    [
        ("pending", BEFORE, SEALED, []),
        ("done", BEFORE, SEALED, ["dedupe"]),
        ("done", BEFORE, {}, None),  # a plan of before
        ("done", AFTER, SEALED, []),
        ("failed", BEFORE, SEALED, None),
        ("unknown", BEFORE, SEALED, None),
    ],
)
def test_facts_tell_the_code_only_until_a_rerun_begins(
    rerun: str, gathered: str, body: dict[str, list[str]], operators: list[str] | None
) -> None:
    one = with_rerun(rerun, gathered=gathered, body=body)
    assert code_operators(one.flow, one) == operators


GO_BACK = ", go back to batch 1"
GONE = finding("STATE_FILE_MISSING", "state/0/0/3.delta", operator=0, version=3, back=GO_BACK)


@pytest.mark.parametrize("kind", ["pipelines", "streams"])
def test_the_verdict_on_a_plain_stream_sends_no_one_back_to_a_batch(kind: str) -> None:
    one = flow("ok")
    one.pipeline.workspace.kind = kind
    report = CheckpointReport(
        location="file:/c/0",
        format="structured-streaming",
        version=0,
        query_id="q",
        last_committed=2,
        last_planned=2,
        findings=(GONE,),
    )
    found = verdict_on(one, report, recovery=None, root="file:/c").findings
    assert [GO_BACK in f.do for f in found] == [kind == "pipelines"]
