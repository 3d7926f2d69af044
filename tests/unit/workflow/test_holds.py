"""A recovery pauses what would start its pipeline again, and gives it back when it has ended, whatever died."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.results import StoppedResult
from recovery.errors import Refused
from recovery.models import AuditEntry, Hold, Recovery, Workspace
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.itself import ATTEMPTS
from recovery.workflow import holds, tasks
from recovery.workflow.steps import stop
from recovery.workflow.steps.base import StepWait
from tests.refusals import refused
from tests.unit.pipelines.jobs import NIGHTLY, Jobs, job
from tests.unit.pipelines.stub import serving
from tests.unit.workflow.rows import flow, recovery
from tests.unit.workflow.steps_in_memory import StepInMemory

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """The workspace of rows.flow(), with one nightly job that starts its pipeline."""
    monkeypatch.setenv("NOTHING", "t")
    api = Jobs()
    api.add(job(1, schedule=dict(NIGHTLY)))
    with serving(api) as stub:
        made = flow()
        Workspace.objects.update(url=stub.url)
        assert made.pipeline.pipeline_id == "p-0"
        yield api


def opened() -> Recovery:
    from recovery.models import Flow

    return recovery("diagnosing", flow=Flow.objects.select_related("pipeline__workspace").get())


def run_stop(of: Recovery, between: Callable[[], None] = lambda: None) -> tuple[Any, list[str]]:
    """The early stop to its end, as the engine carries it out in several tasks; `between` two looks."""
    said: list[str] = []
    step = StepInMemory(kind="stop")
    with closing(PipelinesClient(url=of.flow.pipeline.workspace.url, token="t")) as client:
        context: Any = SimpleNamespace(
            step=step, recovery=of, flow=of.flow, client=client, pipeline_id="p-0", run_noun="update",
            watch=step, log=said.append,
        )  # fmt: skip
        assert stop.run(context) == StepWait()
        while (ended := stop.find_end(context)) is None:
            between()
        return stop.go_on(context, ended).lay_over(step.result), said


def schedule(jobs: Jobs) -> str:
    return str(jobs.jobs[1]["settings"]["schedule"]["pause_status"])


def end(of: Recovery) -> None:
    Recovery.objects.filter(pk=of.pk).update(state="succeeded", active=False)


def test_the_stop_pauses_the_job_before_it_stops_the_update(jobs: Jobs) -> None:
    jobs.active = ["u-1"]
    result, said = run_stop(opened())
    assert (schedule(jobs), jobs.ended, result["update_id"]) == ("PAUSED", ["u-1"], "u-1")
    assert said[0].startswith("Paused job nightly")
    assert ("(0 0 3 * * ? in UTC)" in said[0], "read back" in said[0]) == (True, True)
    assert AuditEntry.objects.get(action="job.pause").before == {"schedule": NIGHTLY}


def test_the_stop_keeps_which_jobs_name_what_it_stops_and_that_nobody_could_say(jobs: Jobs) -> None:
    of = opened()
    of.flow.dataset = "main.shop.orders"
    reads = {"table_update": {"table_names": ["main.shop.orders"]}}
    jobs.add(job(2, "export", pipeline="another", trigger=reads))
    told = codec.read(StoppedResult, run_stop(of)[0])
    assert [(j.job_id, j.dataset, j.by) for j in told.jobs_below or ()] == [
        (2, "main.shop.orders", "trigger")
    ]
    jobs.refuses.add("/api/2.2/jobs/list")
    told = codec.read(StoppedResult, run_stop(of)[0])
    assert (told.jobs_below, bool(told.jobs_unknown)) == (None, True)


CONTINUOUS = {"name": "shop", "continuous": True, "storage": "s3://b/x", "tags": {"team": "a"}}


def test_a_continuous_pipeline_is_set_to_triggered_stopped_and_given_back(jobs: Jobs) -> None:
    jobs.jobs, jobs.active, jobs.spec = {}, ["u-1"], dict(CONTINUOUS)
    made = opened()
    result, said = run_stop(made)
    assert jobs.spec == {**CONTINUOUS, "continuous": False, "configuration": {ATTEMPTS: "0"}}
    assert (jobs.active, result["update_id"]) == ([], "u-1-again"), "the edit itself started it anew"
    assert ["retries" in said[0], "continuous" in said[1]] == [True, True]
    assert ["pipeline shop;" in line for line in said[:2]] == [True, True]
    assert AuditEntry.objects.filter(action="pipeline.pause", outcome="done").count() == 2
    with closing(PipelinesClient(url=made.flow.pipeline.workspace.url, token="t")) as client:
        holds.prove(made, client)
        jobs.spec = {**jobs.spec, "continuous": True}
        with refused("switched_on_again", Refused) as refusal:
            holds.prove(made, client)
        assert "continuous mode" in refusal.value.sentence
        jobs.spec = {**jobs.spec, "continuous": False}

    end(made)
    tasks.restore_holds()
    assert jobs.spec == {**CONTINUOUS, "configuration": {}}
    assert set(Hold.objects.values_list("state", flat=True)) == {"restored"}
    assert AuditEntry.objects.filter(action="pipeline.restore", outcome="done").count() == 2


def test_a_continuous_pipeline_that_nobody_stopped_does_not_let_a_plan_begin(jobs: Jobs) -> None:
    jobs.jobs, jobs.spec = {}, dict(CONTINUOUS)
    made = opened()
    with (
        closing(PipelinesClient(url=made.flow.pipeline.workspace.url, token="t")) as client,
        refused("can_be_started", Refused) as refusal,
    ):
        holds.prove(made, client)
    assert "automatic retries" in refusal.value.sentence
    assert "continuous mode" in refusal.value.sentence
    step = made.steps.create(ordinal=1, kind="stop", idempotency_key="s")
    assert stop.probe(step).outcome == "repeat"


def test_a_pipeline_that_retries_is_kept_from_it_and_keeps_its_number_of_retries(jobs: Jobs) -> None:
    spec = {"name": "shop", "configuration": {ATTEMPTS: "3", "a": "b"}}
    jobs.jobs, jobs.spec = {}, dict(spec)
    made = opened()
    run_stop(made)
    assert jobs.spec["configuration"] == {ATTEMPTS: "0", "a": "b"}
    end(made)
    tasks.restore_holds()
    assert jobs.spec == spec


def test_settings_that_somebody_changed_while_they_were_given_back_are_tried_again(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.jobs, jobs.spec = {}, {**CONTINUOUS, "development": True}
    made = opened()
    run_stop(made)
    end(made)
    read = PipelinesClient.get_pipeline

    def meanwhile(self: PipelinesClient, pipeline_id: str) -> dict[str, Any]:
        return {**read(self, pipeline_id), "last_modified": 0}

    monkeypatch.setattr(PipelinesClient, "get_pipeline", meanwhile)
    tasks.restore_holds()
    assert "the same moment" in Hold.objects.get().problem
    monkeypatch.undo()
    monkeypatch.setenv("NOTHING", "t")
    tasks.restore_holds()
    assert jobs.spec["continuous"] is True
    assert Hold.objects.get().state == "restored"


def test_a_worker_that_died_before_the_mode_was_changed_leaves_it_as_it_is(jobs: Jobs) -> None:
    jobs.jobs, jobs.spec, jobs.deaf = {}, {**CONTINUOUS, "development": True}, True
    made = opened()
    with pytest.raises(Refused, match="reads back otherwise"):
        run_stop(made)
    end(made)
    tasks.restore_holds()
    assert (jobs.modified, Hold.objects.get().state) == (1, "left")


def test_an_update_that_a_run_of_the_job_starts_meanwhile_is_stopped_too(jobs: Jobs) -> None:
    jobs.active, jobs.runs = ["u-1"], {1: [{"run_id": 77}]}

    def meanwhile() -> None:
        if "u-2" not in jobs.ended:
            jobs.active = ["u-2"]
        else:
            jobs.runs = {}

    result, _ = run_stop(opened(), meanwhile)
    assert (jobs.ended, result["update_id"]) == (["u-1", "u-2"], "u-2")


def test_a_run_that_never_ends_is_named(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.runs = {1: [{"run_id": 77}]}
    clock = iter(timezone.now() + timedelta(minutes=n) for n in count())
    monkeypatch.setattr(stop, "timezone", SimpleNamespace(now=lambda: next(clock)))
    with refused("still_active", Refused) as refusal:
        run_stop(opened())
    assert "run 77 of job" in refusal.value.sentence
    assert schedule(jobs) == "PAUSED"


def test_jobs_that_cannot_be_read_are_said_and_hold_nothing_up(jobs: Jobs) -> None:
    jobs.refuses.add("/api/2.2/jobs/list")
    result, said = run_stop(opened())
    assert "read jobs" in result["jobs_unknown"]
    assert "not known" in said[0]
    assert not Hold.objects.exists()


def test_what_was_paused_is_given_back_only_when_no_recovery_of_the_pipeline_is_open(jobs: Jobs) -> None:
    first = opened()
    run_stop(first)
    tasks.restore_holds()
    assert schedule(jobs) == "PAUSED"
    end(first)
    tasks.restore_holds()
    tasks.restore_holds()
    assert (schedule(jobs), Hold.objects.get().state) == ("UNPAUSED", "restored")
    assert [e.outcome for e in AuditEntry.objects.filter(action="job.restore")] == ["done"]


def test_a_worker_that_died_between_the_note_and_the_pause_leaves_a_job_that_runs(jobs: Jobs) -> None:
    made = opened()
    jobs.deaf = True
    with pytest.raises(Refused, match="reads back otherwise"):
        run_stop(made)
    assert Hold.objects.get().state == "noted"
    end(made)
    tasks.restore_holds()
    assert (schedule(jobs), Hold.objects.get().state) == ("UNPAUSED", "left")


def test_a_worker_that_died_after_the_pause_loses_nothing(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened()
    monkeypatch.setattr(holds, "_paused", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_stop(made)
    assert (schedule(jobs), Hold.objects.get().state) == ("PAUSED", "noted")
    end(made)
    tasks.restore_holds()
    assert (schedule(jobs), Hold.objects.get().state) == ("UNPAUSED", "restored")


def test_a_second_stop_does_not_take_the_pause_for_what_was_there_before(jobs: Jobs) -> None:
    made = opened()
    run_stop(made)
    run_stop(made)
    assert Hold.objects.get().was == NIGHTLY


def test_an_edit_that_somebody_made_meanwhile_stays(jobs: Jobs) -> None:
    made = opened()
    run_stop(made)
    jobs.jobs[1]["settings"]["schedule"]["quartz_cron_expression"] = "0 0 5 * * ?"
    end(made)
    tasks.restore_holds()
    assert jobs.jobs[1]["settings"]["schedule"] == {**NIGHTLY, "quartz_cron_expression": "0 0 5 * * ?"}


def test_a_job_that_was_deleted_meanwhile_is_said_and_forgotten(jobs: Jobs) -> None:
    made = opened()
    run_stop(made)
    jobs.jobs.clear()
    end(made)
    tasks.restore_holds()
    hold = Hold.objects.get()
    assert hold.state == "left"
    assert ("job nightly" in hold.problem, "gone" in hold.problem) == (True, True)


def test_a_failure_to_give_back_is_kept_said_once_and_tried_again(jobs: Jobs) -> None:
    made = opened()
    run_stop(made)
    end(made)
    jobs.refuses.add("/api/2.2/jobs/update")
    tasks.restore_holds()
    tasks.restore_holds()
    entry = AuditEntry.objects.get(action="job.restore")
    assert (entry.outcome, "yet" in entry.says) == ("failed", True)
    jobs.refuses.clear()
    tasks.restore_holds()
    assert (schedule(jobs), Hold.objects.get().problem) == ("UNPAUSED", "")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda jobs: jobs.jobs[1]["settings"].update(schedule=dict(NIGHTLY)), "switched_on_again"),
        (
            lambda jobs: jobs.add(job(2, "hourly", schedule=dict(NIGHTLY))),
            "can_be_started",
        ),
        (lambda jobs: jobs.runs.update({1: [{"run_id": 77}]}), "run_not_ended"),
    ],
)
def test_a_plan_does_not_begin_while_a_job_can_start_the_pipeline(jobs: Jobs, change: Any, code: str) -> None:
    made = opened()
    run_stop(made)
    with closing(PipelinesClient(url=made.flow.pipeline.workspace.url, token="t")) as client:
        holds.prove(made, client)
        change(jobs)
        with refused(code, Refused):
            holds.prove(made, client)


def test_a_silent_stop_is_proven_only_when_no_job_is_awake(jobs: Jobs) -> None:
    made = opened()
    step = made.steps.create(ordinal=1, kind="stop", idempotency_key="s")
    assert stop.probe(step).outcome == "repeat"
    run_stop(made)
    assert stop.probe(step).outcome == "done"
