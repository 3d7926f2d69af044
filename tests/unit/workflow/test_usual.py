"""How long things took before: of this flow, else of its workspace, else nothing is told."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from console.presenters import running
from recovery.models import Recovery, Step
from recovery.workflow.usual import (
    UsualOf,
    usual_look,
    usual_rows_per_second,
    usual_steps,
    usual_update_seconds,
)
from tests import factories as f

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def ended(recovery: Recovery, kind: str, seconds: float, **values: object) -> Step:
    number = Step.objects.count() + 1
    given = {"state": "done", "started_at": NOW - timedelta(seconds=seconds), "ended_at": NOW, **values}
    return Step.objects.create(
        recovery=recovery, ordinal=number, kind=kind, idempotency_key=f"{recovery.pk}-{number}", **given
    )


def earlier(name: str = "other") -> Recovery:
    flow = f.failed_flow(f.pipeline(name=name))
    return Recovery.objects.create(flow=flow, state="succeeded", active=False, created_by="ada", owner="ada")


def test_steps_of_this_flow_say_more_than_those_of_the_workspace() -> None:
    mine, other = earlier("mine"), earlier("other")
    ended(mine, "rerun", 5)
    ended(mine, "rerun", 8)
    ended(other, "rerun", 90)
    ended(other, "verify", 3)
    ended(other, "seed", 3, result={"skipped": {"by": "ada"}})
    usual = usual_steps(mine.flow)
    assert set(usual) == {"rerun", "verify"}
    assert (usual["rerun"].seconds, usual["rerun"].times, usual["rerun"].of) == (6.5, 2, UsualOf.FLOW)
    assert (usual["verify"].seconds, usual["verify"].of) == (3, UsualOf.WORKSPACE)


def test_the_early_stop_is_no_proof_that_the_pipeline_still_stands() -> None:
    mine = earlier("mine")
    ended(mine, "stop", 40)
    assert usual_steps(mine.flow) == {}


def look(seconds: float) -> dict[str, str]:
    return {
        "status": "ready",
        "started_at": (NOW - timedelta(seconds=seconds)).isoformat(),
        "at": NOW.isoformat(),
    }


def test_a_look_takes_as_long_as_the_looks_before() -> None:
    made = earlier()
    assert usual_look(made.flow, "facts") is None
    Recovery.objects.update(facts=look(29), choices={"sealing": look(14)})
    assert [u.seconds for u in (usual_look(made.flow, "facts"), usual_look(made.flow, "sealing")) if u] == [
        29,
        14,
    ]


def test_an_update_takes_as_long_as_the_completed_ones_of_its_pipeline() -> None:
    flow = f.failed_flow()
    assert usual_update_seconds(flow) is None
    began = datetime(2026, 11, 20, 2, 0, tzinfo=NOW.tzinfo)

    def update(state: str, seconds: float, **more: object) -> dict[str, object]:
        ended_at = (began + timedelta(seconds=seconds)).isoformat()
        return {"state": state, "creation_time": int(began.timestamp() * 1000), "ended_at": ended_at, **more}

    flow.pipeline.updates = [
        update("FAILED", 90), update("COMPLETED", 6), update("COMPLETED", 12), update("COMPLETED", 7),
        update("COMPLETED", 1, validate_only=True),
    ]  # fmt: skip
    assert usual_update_seconds(flow) == 7


@pytest.mark.parametrize(("kind", "seconds"), [("pipelines-api", 86_400.0), ("streams", 31.0)])
def test_a_stream_that_ran_for_a_day_is_estimated_by_reruns_before(kind: str, seconds: float) -> None:
    made = earlier()
    flow = made.flow
    flow.pipeline.workspace.kind = kind
    ended(made, "rerun", 31)
    day = {"state": "COMPLETED", "creation_time": 0, "ended_at": "1970-01-02T00:00:00+00:00"}
    flow.pipeline.updates = [day]
    assert usual_update_seconds(flow) == seconds


def test_a_run_says_how_far_it_is_where_every_step_ran_before() -> None:
    of = f.running()
    steps = list(of.steps.order_by("ordinal"))
    plan = of.plans.get()
    assert "of about" not in running.describe_progress(running.step_rows(steps, plan, NOW), steps, {}, NOW)
    before = earlier("mine")
    for kind in {s.kind for s in steps}:
        ended(before, kind, 2)
    usual = usual_steps(of.flow)
    assert " s of about " in running.describe_progress(
        running.step_rows(steps, plan, NOW, usual), steps, usual, NOW
    )


def test_the_sign_of_life_is_that_of_the_step_that_runs() -> None:
    of = f.running()
    old, new = NOW - timedelta(minutes=5), NOW
    Step.objects.filter(recovery=of).exclude(state="running").update(heartbeat_at=NOW + timedelta(seconds=9))
    Step.objects.filter(recovery=of, state="running").update(heartbeat_at=old)
    assert running.last_sign(list(of.steps.all())) == old
    Step.objects.filter(recovery=of).update(state="pending", heartbeat_at=new)
    assert running.last_sign(list(of.steps.all())) is None


@pytest.mark.parametrize(
    ("progress", "rate"),
    [
        ({"numInputRows": 5000, "durationMs": {"addBatch": 900, "triggerExecution": 2000}}, 2500.0),
        ({"numInputRows": 999, "durationMs": {"addBatch": 900, "triggerExecution": 2000}}, None),
        ({"numInputRows": 5000, "durationMs": {"triggerExecution": 2000}}, None),  # an idle look
        ({"numInputRows": 5000, "durationMs": {"addBatch": 0, "triggerExecution": 0}}, None),
        ({"numInputRows": "5000", "durationMs": {"addBatch": 1, "triggerExecution": 1}}, None),
        ({"numInputRows": 5000, "durationMs": None}, None),
        ({}, None),
    ],
)
def test_a_flow_reads_as_fast_as_its_newest_batch_of_some_size(
    progress: dict[str, object], rate: float | None
) -> None:
    flow = f.failed_flow()
    flow.last_progress = progress
    assert usual_rows_per_second(flow) == rate
