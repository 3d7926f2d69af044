"""Reads that pages and commands share."""

from recovery.approvals.selectors import plan_in_force
from recovery.models import JointPlan, Plan, Recovery
from recovery.numbers import read_joint_plan_number, read_recovery_number
from recovery.people import visible
from recovery.people.roles import Actor
from recovery.pipelines.workspaces import client_for
from recovery.workflow.deployed import read_code
from recovery.workflow.steps.rollback import RollbackRefusal, find_refusal


def recovery_or_404(text: str | int, by: Actor) -> Recovery:
    """By `R-12` or `12`. Raises NotFound with one sentence, also for one that `by` may not see."""
    number = read_recovery_number(str(text))
    found = None
    if number is not None:
        found = Recovery.objects.select_related("flow__pipeline__workspace").filter(pk=number).first()
    visible.require_visible_flow(
        found.flow if found else None, by, f"There is no recovery {text}. See the list of recoveries."
    )
    assert found is not None
    return found


def joint_or_404(text: str | int, by: Actor) -> JointPlan:
    """By `J-3` or `3`. Raises NotFound with one sentence, also for one that `by` may not see."""
    number = read_joint_plan_number(str(text))
    found = JointPlan.objects.filter(pk=number).first() if number is not None else None
    lead = (
        None if found is None else found.plans.select_related("recovery__flow__pipeline").get(joint_ordinal=0)
    )
    visible.require_visible_flow(
        lead.recovery.flow if lead else None,
        by,
        f"There is no joint plan {text}. See the list of recoveries.",
    )
    assert found is not None
    return found


def open_recovery_of(flow_id: int) -> Recovery | None:
    return Recovery.objects.filter(flow_id=flow_id, active=True).first()


def open_or_unproven_recovery_of(flow_id: int) -> Recovery | None:
    """The flow's open recovery, or its newest one where that ended without proof; None for neither."""
    newest = Recovery.objects.filter(flow_id=flow_id).order_by("-pk").first()
    opened = open_recovery_of(flow_id)
    return opened or (newest if newest is not None and newest.state == "unproven" else None)


def recoveries(by: Actor, active: bool | None = None) -> list[Recovery]:
    """Those that `by` may see, newest first; only open or only ended ones when asked."""
    seen = Recovery.objects.filter(visible.filter_visible(by, "flow__pipeline__"))
    rows = seen.select_related("flow__pipeline__workspace").order_by("-pk")
    return list(rows if active is None else rows.filter(active=active))


def plan_of(recovery: Recovery) -> Plan | None:
    """The plan in force: the newest that is not void, unless another one is being made."""
    return plan_in_force(recovery)


def void_plan_of(recovery: Recovery) -> Plan | None:
    """The newest void plan, when no plan is in force."""
    if plan_of(recovery):
        return None
    return recovery.plans.exclude(voided_at=None).order_by("-pk").first()


def source_files(recovery: Recovery) -> dict[str, str]:
    """The pipeline's source as the workspace holds it now, text by path. Raises Unreachable."""
    client = client_for(recovery.flow.pipeline.workspace)
    spec = client.get_pipeline(recovery.flow.pipeline.pipeline_id).get("spec") or {}
    return read_code(client, spec)[1]


def rollback_refusal(recovery: Recovery) -> RollbackRefusal | None:
    """Why a rollback is not possible; None when it is. Raises RepriseError where API or storage do not answer."""
    return find_refusal(recovery)
