"""Plans that run together go back together, from the last to the first, or not at all."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.results import UpdateResult
from recovery.errors import Refused
from recovery.models import Flow, JointPlan, Recovery, Step
from recovery.planning.actions import join_plans
from recovery.workflow import joint_actions
from recovery.workflow.steps import rollback
from recovery.workflow.steps.rollback import RollbackRefusal
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
from tests.unit.workflow.joint_runs import Run, Updates, execute, names
from tests.unit.workflow.rows import RESPONDER, recovery

pytestmark = pytest.mark.django_db


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


@pytest.fixture
def undoable(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What stands against the rollback of a recovery, by its label; nothing of none."""
    refusals: dict[str, str] = {}
    monkeypatch.setattr(
        rollback,
        "find_refusal",
        lambda row: RollbackRefusal(says) if (says := refusals.get(row.label)) else None,
    )
    monkeypatch.setattr(rollback, "_seeded", lambda row: (None, ""))
    return refusals


def failed_at(runs: Run, kind: str, member: int) -> tuple[JointPlan, list[Recovery]]:
    joint, rows = joined(count=3)
    runs.fails[rows[member].label, kind] = Refused("No.")
    execute(joint)
    runs.to_rest()
    return joint, rows


def test_a_rollback_takes_all_of_them_back_from_the_last_to_the_first(runs: Run, undoable: Any) -> None:
    joint, rows = failed_at(runs, "seed", 1)
    joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="wrong code")
    assert runs.to_rest() == names(rows[::-1], "rollback")
    assert states(*rows) == ["rolled_back"] * 3


def test_a_rollback_that_one_of_them_refuses_begins_with_none(runs: Run, undoable: dict[str, str]) -> None:
    joint, rows = failed_at(runs, "seed", 1)
    undoable[rows[0].label] = "The table has moved past it."
    with refused("not_undoable"):
        joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    assert runs.to_rest() == []
    assert not Step.objects.filter(kind="rollback").exists()


def test_a_rollback_of_what_was_not_changed_is_refused(runs: Run, undoable: Any) -> None:
    joint, rows = failed_at(runs, "stop", 1)
    with refused("not_undoable"):
        joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    assert states(*rows) == ["needs_attention"] * 3


UNCHANGING = ("stop", "backup", "rerun", "verify")


def _first_changes_nothing(runs: Run) -> tuple[JointPlan, list[Recovery]]:
    """Two flows, of which the first goes on as it is, with neither a patch nor a checkpoint of its own."""
    made = planned_flows(kinds=UNCHANGING, count=1)
    other = recovery("planned", flow=second_flow(made[0].flow))
    seal_plan_of(other)
    rows = [*made, other]
    return join_plans(recovery_ids=[row.pk for row in rows], by=RESPONDER), rows


def test_a_flow_that_only_the_shared_update_wrote_is_not_called_rolled_back(
    runs: Run, undoable: dict[str, str]
) -> None:
    joint, rows = _first_changes_nothing(runs)
    for row in rows:
        runs.fails[row.label, "verify"] = Refused("Not read.")
    execute(joint)
    runs.to_rest()
    with refused("not_undoable"):
        joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    assert states(*rows) == ["needs_attention", "needs_attention"]
    kept = [Flow.objects.get(pk=row.flow_id).table_doubt for row in rows]
    assert kept == ["not-proven", "not-proven"]


def test_a_flow_that_no_update_wrote_goes_back_with_the_others(runs: Run, undoable: dict[str, str]) -> None:
    joint, rows = _first_changes_nothing(runs)
    runs.fails[rows[1].label, "seed"] = Refused("No.")
    execute(joint)
    runs.to_rest()
    joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    runs.to_rest()
    assert states(*rows) == ["rolled_back", "rolled_back"]


@pytest.mark.parametrize(("began", "then"), [(False, ["rolled_back"] * 2), (True, ["needs_attention"] * 2)])
def test_once_the_update_may_have_emptied_a_table_none_of_them_goes_back(
    runs: Run, undoable: dict[str, str], began: bool, then: list[str]
) -> None:
    joint, rows = joined_emptying()
    runs.fails[rows[0].label, "rerun"] = Refused("It failed.")
    execute(joint)
    runs.to_rest()
    kept = UpdateResult(updates=("u-1",), ended="u-1") if began else UpdateResult()
    Step.objects.filter(recovery=rows[0], kind="rerun").update(result=codec.to_read_json(kept))
    with refused("not_undoable") if began else nullcontext():
        joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    runs.to_rest()
    assert states(*rows) == then


def test_code_that_has_run_is_not_undone_though_the_flow_did_not_take_the_update_over_yet() -> None:
    _, rows = joined()
    kept = UpdateResult(update_id="u-1", unnoted=False, state="COMPLETED")
    Step.objects.filter(kind__in=("stop", "backup", "patch")).update(state="done")
    Step.objects.filter(kind="seed").delete()
    Recovery.objects.update(state="needs_attention")
    client = SimpleNamespace(get_pipeline=lambda pipeline_id: {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollback, "client_for", lambda workspace: client)
        assert [rollback.find_refusal(one) for one in Recovery.objects.all()] == [None, None]
        Step.objects.filter(recovery=rows[0], kind="rerun").update(
            state="done", result=codec.to_read_json(kept)
        )
        assert None not in [rollback.find_refusal(one) for one in Recovery.objects.all()]


def test_a_rollback_that_stands_goes_on_where_it_stood_and_nothing_else_resumes(
    runs: Run, undoable: Any
) -> None:
    joint, rows = failed_at(runs, "seed", 1)
    runs.fails[rows[1].label, "rollback"] = Refused("Storage is away.")
    joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    assert runs.to_rest() == [(rows[2].label, "rollback"), (rows[1].label, "rollback")]
    assert states(*rows) == ["needs_attention", "needs_attention", "rolled_back"]
    with refused("undoing"):
        execute(joint)
    runs.fails.clear()
    joint_actions.roll_back_joint(joint_id=joint.pk, by=RESPONDER, reason="")
    assert runs.to_rest() == [(rows[1].label, "rollback"), (rows[0].label, "rollback")]
    assert states(*rows) == ["rolled_back"] * 3


@pytest.mark.parametrize(("member", "writes"), [(2, False), (1, False), (0, True)])
def test_the_source_goes_back_with_the_last_of_them(
    monkeypatch: Any, runs: Run, undoable: Any, member: int, writes: bool
) -> None:
    _, rows = failed_at(runs, "seed", 1)
    for row in rows[member + 1 :]:
        Recovery.objects.filter(pk=row.pk).update(state="rolled_back")
    written: list[str] = []
    monkeypatch.setattr(rollback.backup, "kept", lambda step: {"/p/q.py": b""})
    monkeypatch.setattr(rollback, "_put_back", lambda context, copy: written.extend(copy) or list(copy))
    context = Updates(step_of(rows[member], "stop"))
    context.contents = SimpleNamespace(patch=())  # type: ignore[attr-defined]
    rollback.run(context)  # type: ignore[arg-type]
    assert written == (["/p/q.py"] if writes else [])
