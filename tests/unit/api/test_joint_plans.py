"""Plans that wait are sealed together by a program, with the same refusals as pages and commands."""

import pytest

from recovery.models import AuditEntry, JointPlan
from tests.factories.joint import planned_flows
from tests.unit.api.test_recoveries import Caller, caller

__all__ = ["caller"]
pytestmark = pytest.mark.django_db


def test_plans_of_one_pipeline_are_sealed_together_and_shown(caller: Caller) -> None:
    rows = planned_flows()
    code, sealed = caller.call("POST", "joint-plans", {"recoveries": [row.label for row in rows]})
    joint = JointPlan.objects.get()
    assert (code, sealed["joint_plan"], sealed["plan_hash"]) == (201, joint.label, joint.hash)
    assert [(r["recovery"], r["state"]) for r in sealed["recoveries"]] == [(r.label, "planned") for r in rows]
    assert AuditEntry.objects.filter(action="plan.join", outcome="done", via="api").count() == len(rows)

    assert caller.call("GET", f"joint-plans/{joint.label}") == (200, sealed)


def test_a_recovery_of_a_joint_plan_names_it(caller: Caller) -> None:
    rows = planned_flows()
    assert caller.call("GET", f"recoveries/{rows[0].label}")[1]["joint_plan"] is None
    sealed = caller.call("POST", "joint-plans", {"recoveries": [row.label for row in rows]})[1]
    assert caller.call("GET", f"recoveries/{rows[0].label}")[1]["joint_plan"] == sealed["joint_plan"]


@pytest.mark.parametrize(
    ("named", "status", "refusal"),
    [
        ([], 400, "wrong_use"),
        (["R-404"], 404, "not_found"),
        ("R-1", 400, "wrong_use"),
    ],
)
def test_what_cannot_be_joined_is_refused_and_nothing_is_sealed(
    caller: Caller, named: object, status: int, refusal: str
) -> None:
    code, said = caller.call("POST", "joint-plans", {"recoveries": named})
    assert (code, said["error"]["code"]) == (status, refusal)
    assert not JointPlan.objects.exists()


def test_one_plan_alone_is_no_joint_plan(caller: Caller) -> None:
    row = planned_flows(count=2)[0]
    code, said = caller.call("POST", "joint-plans", {"recoveries": [row.label]})
    assert (code, said["error"]["code"]) == (409, "too_few_plans")
    assert not JointPlan.objects.exists()
