"""Plans that run together: one order of steps, one start, one barrier before the one update, one way back."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recovery.approvals import actions as approving
from recovery.contracts import codec
from recovery.contracts.criterion_values import ExpectedOthers
from recovery.contracts.joint import JointBody
from recovery.contracts.measured import MeasuredBelow, MeasuredOutcome, Verdict
from recovery.contracts.results import BeforeFurther, StandstillResult, UpdateResult, VerifyResult
from recovery.errors import OutcomeUnknown, Refused, RepriseError
from recovery.models import AuditEntry, JointPlan, Plan, Recovery, Step
from recovery.planning.actions import join_plans
from recovery.plans.values import Drift
from recovery.strategies.base import checkpoint_watched, table_watched
from recovery.verification.checks import nothing_else_changed
from recovery.verification.evidence import Evidence
from recovery.workflow import actions, engine, joining, joint_actions, refreshed, repeating
from recovery.workflow.steps import rerun, verify
from recovery.workflow.steps.base import PlanVoid, StepWait
from tests.factories.joint import (
    joined,
    joined_emptying,
    planned_flows,
    seal_plan_of,
    second_flow,
    states,
    step_of,
)
from tests.refusals import refused
from tests.unit.workflow.joint_runs import Run, Updates, execute, names, rerun_of
from tests.unit.workflow.rows import RESPONDER, VIEWER, flow, recovery

pytestmark = pytest.mark.django_db


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_the_hash_is_over_the_hashes_of_the_plans_in_their_order() -> None:
    one, two = planned_flows()
    plans = [row.plans.get() for row in (two, one)]
    joint = join_plans(recovery_ids=[two.pk, one.pk], by=RESPONDER)
    assert [p.plan for p in joint.contents.plans] == [p.hash for p in plans]
    assert joint.contents.refresh == (two.flow.dataset, one.flow.dataset)
    assert (
        codec.seal(joint.body) == joint.hash == codec.seal(codec.to_json(codec.read(JointBody, joint.body)))
    )
    turned = joint.contents.model_copy(update={"plans": joint.contents.plans[::-1]})
    assert codec.seal(codec.to_json(turned)) != joint.hash
    assert sorted(AuditEntry.objects.filter(action="plan.join").values_list("recovery", "outcome")) == sorted(
        [(one.label, "done"), (two.label, "done")]
    )


def _of_other_pipeline() -> list[Recovery]:
    return [*planned_flows(count=1), *planned_flows(count=1)]


def _not_sealed() -> list[Recovery]:
    first = planned_flows(count=1)
    return [*first, recovery("diagnosing", flow=second_flow(first[0].flow))]


def _twice() -> list[Recovery]:
    return planned_flows(count=1) * 2


def _asked_already() -> list[Recovery]:
    made = planned_flows()
    Recovery.objects.filter(pk=made[1].pk).update(state="awaiting_approval")
    return made


def _joined_already() -> list[Recovery]:
    return joined()[1]


def _other_code() -> list[Recovery]:
    made = planned_flows(count=1)
    row = recovery("planned", flow=second_flow(made[0].flow))
    seal_plan_of(row, preconditions={"code": {"/p/q.py": "1" * 64}})
    return [*made, row]


def _other_settings() -> list[Recovery]:
    made = planned_flows(count=1)
    row = recovery("planned", flow=second_flow(made[0].flow))
    seal_plan_of(row, preconditions={"settings": {"configuration": "1" * 64}})
    return [*made, row]


def _other_patch() -> list[Recovery]:
    made = planned_flows(count=1)
    row = recovery("planned", flow=second_flow(made[0].flow))
    change = {"path": "/p/q.py", "before_sha256": "0" * 64, "after_sha256": "1" * 64, "diff": ""}
    seal_plan_of(row, patch=[change])
    return [*made, row]


def _strategy(name: str) -> Callable[[], list[Recovery]]:
    def make() -> list[Recovery]:
        made = planned_flows(count=1)
        row = recovery("planned", flow=second_flow(made[0].flow))
        seal_plan_of(row, strategy=name)
        return [*made, row]

    return make


def _one_table() -> list[Recovery]:
    made = planned_flows(count=1)
    other = second_flow(made[0].flow)
    other.dataset = made[0].flow.dataset
    other.save()
    row = recovery("planned", flow=other)
    seal_plan_of(row)
    return [*made, row]


def _whole_pipeline() -> list[Recovery]:
    made = planned_flows()
    plan = made[1].plans.get()
    plan.body["steps"][4]["args"] = {}
    plan.save()
    return made


def _reads_the_other() -> list[Recovery]:
    made = planned_flows()
    below = made[1].flow
    below.inputs = [made[0].flow.dataset]
    below.save()
    return made


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: planned_flows(count=1), "too_few_plans"),
        (_twice, "too_few_plans"),
        (_of_other_pipeline, "other_pipeline"),
        (_not_sealed, "wrong_state"),
        (_asked_already, "wrong_state"),
        (_joined_already, "joined"),
        (_other_code, "other_code"),
        (_other_settings, "other_code"),
        (_other_patch, "other_code"),
        (_strategy("top-up"), "starts_no_update"),
        (_strategy("deduplicate"), "starts_no_update"),
        (_strategy("backfill"), "fills_back"),
        (_strategy("empty"), "keeps_rows"),
        (_one_table, "same_table"),
        (_whole_pipeline, "whole_pipeline"),
        (_reads_the_other, "reads_the_other"),
    ],
)
def test_what_cannot_run_together_is_refused_and_stays_as_it_was(
    make: Callable[[], list[Recovery]], code: str
) -> None:
    made = make()
    before = JointPlan.objects.count()
    with refused(code):
        join_plans(recovery_ids=[row.pk for row in made], by=RESPONDER)
    assert JointPlan.objects.count() == before
    assert AuditEntry.objects.filter(action="plan.join", outcome="failed").count() == 1


def test_who_may_not_recover_there_joins_no_plans() -> None:
    made = planned_flows()
    with pytest.raises(RepriseError) as denied:
        join_plans(recovery_ids=[row.pk for row in made], by=VIEWER)
    assert denied.value.code == "denied"
    assert not JointPlan.objects.exists()


def test_all_steps_of_a_kind_run_before_the_next_kind_and_one_start_begins_them_all(runs: Run) -> None:
    joint, rows = joined(count=3)
    execute(joint)
    assert states(*rows) == ["running"] * 3
    assert runs.to_rest() == names(rows, "stop", "backup", "patch", "seed", "rerun", "verify")
    started = AuditEntry.objects.filter(action="recovery.execute", outcome="done")
    assert sorted(started.values_list("recovery", flat=True)) == sorted(row.label for row in rows)


ALONE = {
    "execute": lambda row: actions.execute(recovery_id=row.pk, by=RESPONDER),
    "request": lambda row: approving.request_approval(recovery_id=row.pk, by=RESPONDER),
    "roll back": lambda row: actions.roll_back(recovery_id=row.pk, by=RESPONDER, reason=""),
}


def test_kinds_of_steps_run_in_the_order_that_no_plan_may_change() -> None:
    """A table is put back and a checkpoint in place before the update, corrections and refreshes come after it."""
    assert sorted(joining.RANK, key=joining.RANK.__getitem__) == [
        "stop", "backup", "table-backup", "patch", "restore", "seed", "rerun", "fill", "deduplicate", "refresh",
        "verify", "rollback",
    ]  # fmt: skip


@pytest.mark.parametrize("act", ALONE)
def test_no_plan_of_several_is_asked_for_started_or_rolled_back_alone(runs: Run, act: str) -> None:
    _, rows = joined()
    for row in rows:
        with refused("joint"):
            ALONE[act](row)
    assert states(*rows) == ["planned", "planned"]
    assert runs.to_rest() == []


@pytest.mark.parametrize("kind", ["stop", "backup", "patch", "seed"])
@pytest.mark.parametrize("member", [0, 1])
def test_a_plan_that_fails_before_the_update_stands_all_of_them_and_starts_nothing(
    runs: Run, kind: str, member: int
) -> None:
    joint, rows = joined()
    runs.fails[rows[member].label, kind] = Refused("No.")
    execute(joint)
    assert runs.to_rest()[-1] == (rows[member].label, kind)
    assert "rerun" not in [act for _, act in runs.acts]
    assert states(*rows) == ["needs_attention", "needs_attention"]
    assert rows[member].label in rows[1 - member].reason


@pytest.mark.parametrize("failure", [Refused("No."), OutcomeUnknown("No answer came.")])
def test_all_of_them_resume_at_the_step_at_which_they_stand(runs: Run, failure: Exception) -> None:
    joint, rows = joined()
    at = (rows[1].label, "seed")
    runs.fails[at] = failure
    execute(joint)
    runs.to_rest()
    for step in Step.objects.filter(state="unknown"):
        engine.probe_step(step.pk, step.fence)
    for row in rows:
        with refused("joint"):
            actions.execute(recovery_id=row.pk, by=RESPONDER)
    runs.fails.clear()
    execute(joint)
    assert states(*rows) == ["running", "running"]
    assert runs.to_rest() == [at, *names(rows, "rerun", "verify")]


def test_a_crash_between_two_plans_goes_on_with_the_second_without_repeating_the_first(runs: Run) -> None:
    joint, rows = joined()
    execute(joint)
    while runs.acts[-1:] != [(rows[0].label, "patch")]:
        engine.run_step(*runs.queue.pop(0))
    lost = runs.queue.pop()  # the broker died with the message
    waiting = Step.objects.get(pk=lost[0])
    assert (waiting.recovery.label, waiting.kind, waiting.state) == (rows[1].label, "patch", "pending")
    assert waiting.woken_at is not None, "the reaper would not wake it again"
    runs.queue.append(lost)
    assert runs.to_rest() == [(rows[1].label, "patch"), *names(rows, "seed", "rerun", "verify")]


@pytest.mark.parametrize("when", ["now", "step"])
def test_a_stop_or_pause_of_one_holds_for_all(runs: Run, when: str) -> None:
    joint, rows = joined()
    execute(joint)
    stop = {"now": actions.stop_run, "step": actions.pause_run}[when]
    stop(recovery_id=rows[0].pk, by=RESPONDER)
    assert runs.to_rest() == []
    assert states(*rows) == ["needs_attention", "needs_attention"]
    execute(joint)
    assert len(runs.to_rest()) == 12


def test_drift_of_one_voids_all_of_them_and_the_choices_stay(runs: Run) -> None:
    joint, rows = joined()
    runs.fails[rows[1].label, "stop"] = PlanVoid([Drift("code", "1", "2", "x.py was edited.")])
    execute(joint)
    runs.to_rest()
    assert runs.acts == names(rows, "stop")
    assert states(*rows) == ["diagnosing", "diagnosing"]
    assert [p.voided_at is not None for p in Plan.objects.all()] == [True, True]
    assert not Step.objects.filter(state="pending").exists()
    assert [row.chosen.strategy for row in rows] == ["continue", "continue"]
    with refused("joint_void"):
        execute(joint)


TAKEN_BACK = {
    "edit": lambda row: actions.edit_again(recovery_id=row.pk, by=RESPONDER),
    "cancel": lambda row: actions.cancel(recovery_id=row.pk, by=RESPONDER, reason="a mistake"),
}


@pytest.mark.parametrize(("act", "then"), [("edit", "diagnosing"), ("cancel", "cancelled")])
def test_a_plan_that_is_taken_back_takes_the_others_back(runs: Run, act: str, then: str) -> None:
    joint, rows = joined()
    TAKEN_BACK[act](rows[0])
    assert states(*rows) == [then, "diagnosing"]
    joint.refresh_from_db()
    assert joint.voided_at is not None
    voided = AuditEntry.objects.filter(action="plan.void").values_list("recovery", flat=True)
    assert [*voided] == [rows[1].label]


def test_a_joint_plan_that_has_changed_nothing_is_cancelled_whole_and_none_of_it_alone_once_it_ran(
    runs: Run,
) -> None:
    joint, rows = joined()
    runs.fails[rows[1].label, "stop"] = Refused("It runs.")
    execute(joint)
    runs.to_rest()
    with refused("joint"):
        actions.cancel(recovery_id=rows[0].pk, by=RESPONDER, reason="")
    joint_actions.cancel_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    assert states(*rows) == ["cancelled", "cancelled"]


def test_once_something_was_changed_none_of_them_is_cancelled(runs: Run) -> None:
    joint, rows = joined()
    runs.fails[rows[1].label, "patch"] = Refused("No.")
    execute(joint)
    runs.to_rest()
    with refused("touched"):
        joint_actions.cancel_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    assert states(*rows) == ["needs_attention", "needs_attention"]


def test_a_proof_that_is_not_measured_keeps_no_other_from_it_and_is_resumed_alone(runs: Run) -> None:
    joint, rows = joined()
    runs.fails[rows[0].label, "verify"] = Refused("Not read.")
    execute(joint)
    assert runs.to_rest()[-2:] == names(rows, "verify")
    assert states(*rows) == ["needs_attention", "needs_attention"]
    with refused("resume_member"):
        execute(joint)
    actions.execute(recovery_id=rows[0].pk, by=RESPONDER)
    with refused("member_runs"):
        actions.execute(recovery_id=rows[1].pk, by=RESPONDER)
    assert runs.to_rest() == [(rows[0].label, "verify")]


def test_only_the_step_at_which_all_stand_is_skipped(runs: Run) -> None:
    joint, rows = joined()
    runs.fails[rows[1].label, "backup"] = Refused("The copy is full.")
    execute(joint)
    runs.to_rest()
    with refused("joint"):
        actions.skip_step(recovery_id=rows[0].pk, reason="no", by=RESPONDER)
    actions.skip_step(recovery_id=rows[1].pk, reason="the workspace keeps versions", by=RESPONDER)
    assert states(*rows) == ["running", "running"]
    assert runs.to_rest()[0] == (rows[0].label, "patch")


def test_plans_that_run_together_watch_every_place_but_their_own() -> None:
    _, rows = joined(count=3)
    flows = [row.flow for row in rows]
    others: dict[str, str | None] = {"t": "1"}
    for one in flows[1:]:
        others |= {table_watched(one.dataset): "1", checkpoint_watched(one.name): "1"}
    bystander = second_flow(flows[0], "bystander")
    watched: dict[str, str | None] = {
        table_watched(bystander.dataset): "1", checkpoint_watched(bystander.name): "1"
    }  # fmt: skip
    plan = rows[0].plans.get()
    assert refreshed.without_refreshed(plan, {**others, **watched}) == {"t": "1", **watched}
    alone = seal_plan_of(recovery("planned", flow=bystander))
    assert refreshed.without_refreshed(alone, others) == others


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_table_that_was_proven_already_is_watched_while_the_further_update_of_another_plan_runs(
    monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    _, rows = joined()
    table = table_watched(rows[0].flow.dataset)
    prints = {table: "1", table_watched("t"): "1"}
    monkeypatch.setattr(verify, "other_fingerprints", lambda snapshot: dict(prints))
    monkeypatch.setattr(refreshed, "other_fingerprints", lambda snapshot: dict(prints))
    for name in ("read_flow_snapshot", "Readers", "_further"):
        monkeypatch.setattr(verify, name, lambda *args, **named: None)
    monkeypatch.setattr(verify.reviewed, "require_reviewed_code_ran", lambda *args, **named: None)
    judged: list[Evidence] = []
    monkeypatch.setattr(
        verify, "complete_verdict", lambda verdict, criteria, evidence: judged.append(evidence) or Verdict()
    )
    plan = rows[1].plans.get()
    before = BeforeFurther(
        verdict=Verdict(), outcome=MeasuredOutcome(), below=MeasuredBelow(), rows=None, listed={}, version=None,
        files=(), ends=None, strange=None, together=refreshed.read_together(plan, cast(Any, None)),
    )  # fmt: skip
    stood = StandstillResult(
        others={table: "0", table_watched("t"): "1"}
    )  # it was written by the shared update
    Step.objects.filter(recovery=rows[1], kind="stop").update(state="done", result=codec.to_json(stood))
    step = step_of(rows[1], "verify")
    step.result = codec.to_json(VerifyResult(before_further=before, further="u-9"))
    context: Any = Updates(step)
    context.contents, context.flow, context.client, context.pipeline_id = plan.contents, None, None, "p"
    context.watch = SimpleNamespace(keep=lambda piece: None)
    if is_changed:
        prints[table] = "2"
    verify.go_on(context, "COMPLETED")
    found = nothing_else_changed(ExpectedOthers(), judged[0])
    assert found.ok is not is_changed


def test_no_update_starts_before_every_checkpoint_and_the_code_are_in_place(monkeypatch: Any) -> None:
    _, rows = joined()
    Step.objects.exclude(kind__in=("rerun", "verify")).update(state="done")
    Step.objects.filter(recovery=rows[1], kind="seed").update(state="failed")
    started: list[Any] = []
    monkeypatch.setattr(rerun, "_start", lambda context: started.append(context))
    with refused("before_update"):
        rerun.run(rerun_of(rows[0]))
    assert started == []
    Step.objects.filter(kind="seed").update(state="done")
    assert rerun.run(rerun_of(rows[0])) == StepWait()
    assert len(started) == 1


def test_the_others_take_the_one_update_over_with_what_their_own_inputs_held(monkeypatch: Any) -> None:
    _, rows = joined()
    monkeypatch.setattr(rerun, "_start", lambda context: pytest.fail("a second update"))
    with refused("before_update"):
        rerun.run(rerun_of(rows[1]))
    kept = UpdateResult(
        update_id="u-2", updates=("u-1", "u-2"), unnoted=False, state="COMPLETED", listed={"0": ("a",)},
        listed_together={rows[1].label: {"0": ("b", "c")}},
    )  # fmt: skip
    Step.objects.filter(recovery=rows[0], kind="rerun").update(state="done", result=codec.to_read_json(kept))
    taken = codec.read(UpdateResult, rerun.run(rerun_of(rows[1])))
    assert (taken.update_id, taken.started, taken.state) == ("u-2", ("u-1", "u-2"), "COMPLETED")
    assert (taken.listed, taken.listed_together) == ({"0": ("b", "c")}, {})


def test_an_update_of_which_an_input_was_not_noted_is_not_taken_over() -> None:
    _, rows = joined()
    kept = UpdateResult(update_id="u-1", unnoted=False, state="COMPLETED")
    Step.objects.filter(recovery=rows[0], kind="rerun").update(state="done", result=codec.to_read_json(kept))
    with refused("not_noted"):
        rerun.run(rerun_of(rows[1]))


def test_a_recovery_whose_flow_is_of_no_joint_plan_runs_as_before(runs: Run) -> None:
    row = planned_flows(count=1)[0]
    assert joining.joint_of(row) is None
    actions.execute(recovery_id=row.pk, by=RESPONDER)
    assert runs.to_rest() == names([row], "stop", "backup", "patch", "seed", "rerun", "verify")


def test_a_recovery_that_takes_another_plan_leaves_the_joint_one(runs: Run) -> None:
    joint, rows = joined()
    Plan.objects.filter(recovery=rows[1]).update(voided_at=flow().updated_at)
    seal_plan_of(rows[1])
    with refused("left_joint"):
        execute(joint)


def test_one_update_reads_one_table_on_and_empties_another(monkeypatch: Any) -> None:
    joint, rows = joined_emptying()
    kept, emptied = (row.flow.dataset for row in rows)
    assert (joint.contents.refresh, joint.contents.full_refresh) == ((kept,), (emptied,))
    asked: list[Any] = []
    monkeypatch.setattr(rerun, "_list_inputs", lambda flow, contents: {})
    monkeypatch.setattr(rerun.reviewed, "require_workspace_unchanged", lambda *args, **named: None)
    monkeypatch.setattr(rerun, "start", lambda context, body, **noted: asked.append(body))
    context: Any = rerun_of(rows[0])
    context.contents, context.flow = rows[0].plans.get().contents, rows[0].flow
    context.client, context.pipeline_id = None, "p"
    rerun._start(context)
    assert asked == [{"refresh_selection": [kept], "full_refresh_selection": [emptied]}]


@pytest.mark.parametrize(("make", "harmless"), [(joined, True), (joined_emptying, False)])
def test_a_shared_update_that_empties_a_table_of_any_plan_is_never_repeated_by_itself(
    make: Callable[[], tuple[JointPlan, list[Recovery]]], harmless: bool
) -> None:
    _, rows = make()
    assert repeating.is_harmless(step_of(rows[0], "rerun"), acted=True) is harmless
